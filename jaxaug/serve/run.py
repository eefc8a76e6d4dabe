"""`jaxaug serve`: starts the server and prints its address."""

import gc
import ipaddress
import socket
import sys
import time

from jaxaug.core.errors import UserError
from jaxaug.data.schema import Schema
from jaxaug.serve import wordings
from jaxaug.serve.arguments import Serve
from jaxaug.serve.limits import Limits
from jaxaug.track.arguments import loaded
from jaxaug.track.base import BaseTracker

_LOCAL = "localhost"


def run(arguments: Serve) -> int:
    """Runs the verb; see `jaxaug serve --help`."""
    import uvicorn

    from jaxaug.serve import app, connections, reading

    limits = Limits()
    known = wordings.read(arguments.schema, arguments.data_dir, limits.description)
    tracker = loaded(arguments, known.original)
    address = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    hosts = None
    if is_local(arguments.host):
        hosts = sorted({address, _LOCAL, "127.0.0.1", "[::1]"})
    else:
        print(
            f"warning: --host {arguments.host} lets other machines ask, without a "
            "password and without encryption.",
            file=sys.stderr,
        )
    listener = _listen(arguments.host, arguments.port)
    reading.start()
    tracker = _compiled(tracker, known)
    config = connections.config(app.build(tracker, known, limits, hosts), limits)
    # The garbage collector stops all threads while it looks through the libraries.
    gc.collect()
    gc.freeze()
    port = listener.getsockname()[1]
    print(f"ready: serving on http://{address}:{port}/ (Ctrl-C ends it)", flush=True)
    with listener:
        uvicorn.Server(config).run(sockets=[listener])
    gc.unfreeze()
    return 0


def _compiled(tracker: BaseTracker, known: wordings.Wordings) -> BaseTracker:
    print("compiling; the first answer shall not wait for it ...", flush=True)
    start = time.monotonic()
    schemas = [Schema(tuple(found.values())) for found in known.others.values()]
    tracker = tracker.compiled(schema for schema in schemas if schema.services)
    print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)
    return tracker


def is_local(host: str) -> bool:
    """Returns whether an address is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == _LOCAL


def _listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket at an address; port 0 means any free port."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        family, _, _, _, place = found[0]
        return socket.create_server((place[0], port), family=family)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"cannot listen on {host}, port {port}: {error}. Choose another --port (0: "
            "any that is free) or --host."
        ) from None
