"""Many requests to one server: in parallel, with a cache of the replies, and counted.

Each reply is cached as soon as it arrives, so a restarted run only asks for the rest.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

from etils import epath

from jaxaug.core import cache_folder, shards
from jaxaug.core.digests import digest_of
from jaxaug.models.endpoint import client
from jaxaug.models.endpoint.client import Asked, Stopped
from jaxaug.models.endpoint.server import Server
from jaxaug.models.endpoint.usage import Usage

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


def together(
    server: Server,
    items: Sequence[_Item],
    work: Callable[[_Item], _Found],
    done: Callable[[], Any] = lambda: None,
) -> list[_Found]:
    """Returns the results of work that sends requests, several items at a time.

    Args:
        server: server that receives the requests.
        items: items of the work.
        work: returns the result of an item; an error stops the work on all items.
        done: is called after each item.

    Raises:
        UserError: see `Client.complete`.
    """
    asked = client.of(server)
    asked.stop.clear()
    found: dict[int, _Found] = {}
    rest = list(enumerate(items))
    # Send one request first: if the server refuses it, no other request is wasted.
    while rest and not asked.answered:
        place, item = rest.pop(0)
        found[place] = work(item)
        done()

    def or_stop(item: _Item) -> _Found:
        try:
            return work(item)
        except BaseException:
            asked.stop.set()
            raise

    with ThreadPoolExecutor(server.concurrent) as pool:
        futures = {pool.submit(or_stop, item): place for place, item in rest}
        try:
            for future in as_completed(futures):
                # The error that stopped the others is among the results.
                with contextlib.suppress(Stopped):
                    found[futures[future]] = future.result()
                    done()
        except BaseException:
            asked.stop.set()
            for future in futures:
                future.cancel()
            raise
    return [found[place] for place in range(len(items))]


def kept(server: Server, request: Asked) -> str | None:
    """Returns the cached reply to a request, or None."""
    found = shards.kept(_path(server, request), 1)
    return None if found is None else found[0]


def reply(server: Server, request: Asked, is_good: Callable[[str], bool] = bool) -> str:
    """Returns the reply to a request, from the cache or the server.

    Args:
        server: server that receives the request.
        request: the request.
        is_good: whether to cache a reply; the next run asks again for the others.

    Raises:
        UserError: see `Client.complete`.
    """
    found = kept(server, request)
    if found is not None:
        client.of(server).note_kept()
        return found
    found = client.of(server).complete(request)
    if is_good(found):
        shards.keep(_path(server, request), [found])
    return found


def _path(server: Server, request: Asked) -> epath.Path:
    assert dataclasses.is_dataclass(request)
    asked = dataclasses.asdict(request)  # type: ignore[arg-type]
    digest = digest_of([server.name, server.url, asked])
    return cache_folder.cache_dir() / "endpoint" / digest[:2] / f"{digest}.json"


def spent(server: Server) -> str:
    """Returns one line with the requests, tokens, and cost of a server so far."""
    told = client.of(server).usage
    others = told.others(server.model)
    answered = f"; answered by {', '.join(others)}" if others else ""
    return f"{server.name}: {told.text(server.prices)}{answered}"


def plan(server: Server, expected: Usage) -> list[str]:
    """Returns lines with the server, its key, and the expected usage and cost.

    The server receives no request.
    """
    key = "is set" if os.environ.get(server.key_variable) else "is not set"
    lines = [
        f"{server.name} at {server.url}; the key ${server.key_variable} {key}",
        f"  expected: {expected.text(server.prices)}",
    ]
    limit = server.max_requests
    if limit is not None and limit < expected.requests:
        lines.append(f"  the limit of {limit:,} requests (max_requests) is too low")
    return lines
