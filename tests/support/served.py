"""The page of `jaxaug serve`: a server in this process, and the content of the page."""

import contextlib
import threading
import time
from collections.abc import Iterator

import uvicorn

from jaxaug.serve import connections
from jaxaug.serve.limits import Limits


@contextlib.contextmanager
def served(app, limits=None) -> Iterator[str]:
    """Yields the address of a server in this process, which stops after the block."""
    config = connections.config(app, limits or Limits())
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + 30
    try:
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline
            time.sleep(0.01)
        (socket,) = server.servers[0].sockets
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def rows(page, article):
    """Returns (first cell, class, other cells) of the tables of an article."""
    found = page.locator(f"#result article:nth-of-type({article}) tbody tr").all()
    return [
        (
            row.locator("th").evaluate("node => node.firstChild.textContent"),
            row.get_attribute("class"),
            *(
                cell.evaluate(
                    "node => [...node.childNodes].filter(n => n.tagName != 'DIV')"
                    ".map(n => n.textContent).join('')"
                )
                for cell in row.locator("td").all()
            ),
        )
        for row in found
    ]
