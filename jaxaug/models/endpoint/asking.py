"""Requests to one server: in parallel, repeated, counted, and with cached replies.

Each reply is cached as soon as it arrives, so a restarted run only asks for the rest. A
server may refuse a parameter of the interface. The client then repeats the request
without it and omits it from all later requests.
"""

import asyncio
import contextlib
import dataclasses
import email.utils
import functools
import json
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from absl import logging
from etils import epath

import jaxaug
from jaxaug.core import cache_folder, shards
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.installed import missing_extra
from jaxaug.core.json_reader import decoded
from jaxaug.core.text import clean
from jaxaug.models.endpoint import replies
from jaxaug.models.endpoint.server import Server
from jaxaug.models.endpoint.usage import Usage, asked_tokens, tokens

FIRST_WAIT = 1.0
"""Wait in seconds before the first repetition; each further wait is twice as long."""
LONGEST_WAIT = 60.0
# Upper bound of a Retry-After of the server, in seconds.
_PATIENCE = 600.0
# Upper bound of a reply in bytes; a server may send without end.
_LARGEST = 8 << 20
_PASSING = (408, 409, 425, 429, 500, 502, 503, 504, 529)
_REFUSED = (400, 422)
_FORMAT = "response_format"
# An exhausted account, for which waiting does not help.
_EMPTY_ACCOUNT = ("insufficient_quota", "billing_hard_limit_reached")


class Asked(Protocol):
    """A request, a dataclass: its fields determine the reply."""

    @property
    def seed(self) -> int:
        """Seed of the server's sampling."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Further fields of the request, such as `temperature`."""
        ...

    def body(self, left_out: AbstractSet[str]) -> dict[str, Any]:
        """Returns the own fields of the request; the server refuses `left_out`."""
        ...

    def read(self, message: Mapping[str, Any]) -> str:
        """Returns the text of a reply; raises `TypeError` for an incomplete one."""
        ...


@dataclass(frozen=True)
class Request:
    """A request for paraphrases, with a prompt for each form of the reply.

    Attributes:
        json: whether to ask for JSON at all.
    """

    as_json: str
    as_list: str
    count: int
    seed: int
    parameters: Mapping[str, Any]
    json: bool = True

    def body(self, left_out: AbstractSet[str]) -> dict[str, Any]:
        """See `Asked`."""
        as_json = self.json and _FORMAT not in left_out
        prompt = self.as_json if as_json else self.as_list
        body: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]}
        return body | ({_FORMAT: replies.schema(self.count)} if as_json else {})

    def read(self, message: Mapping[str, Any]) -> str:
        """Returns the content of a reply, which may be ""; `TypeError` if none.

        Raises:
            TypeError: the content is not a string.
        """
        content = message.get("content") or ""
        if not isinstance(content, str):
            raise TypeError(content)
        return content


class _Passing(Exception):
    """A temporary failure: the same request may succeed later."""

    def __init__(self, problem: str, fix: str, after: float | None = None):
        super().__init__(problem)
        self.fix, self.after = fix, after


class Stopped(Exception):
    """Raised by a request that is abandoned because another one failed."""


class Client:
    """Sends requests to a server; safe for use by several threads.

    Attributes:
        answered: whether any request has succeeded.
        stop: event that abandons all waiting requests.
    """

    def __init__(self, server: Server):
        """Opens a pool of connections; raises `UserError` without httpx2 or key."""
        self._library = _library()
        self.server = server
        key = server.key()
        headers = {"User-Agent": f"jaxaug/{jaxaug.__version__}"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        self._http = self._library.AsyncClient(
            headers=headers,
            timeout=None,
            limits=self._library.Limits(max_connections=server.concurrent),
        )
        self._lock = threading.Lock()
        self._left_out: set[str] = set()
        self.usage, self.answered = Usage(), False
        self.stop = threading.Event()

    def complete(self, request: Asked) -> str:
        """Returns the text of the reply to a request.

        Raises:
            UserError: the server cannot be reached, refuses the request, or fails more
                often than `retries` allows, or the limit of requests is reached.
            Stopped: `stop` is set.
        """
        retries = self.server.retries
        for attempt in range(retries + 1):
            try:
                return self._once(request)
            except _Passing as error:
                if attempt == retries or (error.after or 0) > _PATIENCE:
                    raise self._error(
                        f"{error} (tried {_times(attempt + 1)}). {error.fix}"
                    ) from None
                self._rest(attempt, error)
        raise AssertionError

    def _once(self, request: Asked) -> str:
        """Sends a request until the server refuses no more parameters."""
        while True:
            body = self._body(request)
            status, text, after = self._send(body)
            if status not in _REFUSED or not self._adapt(text, body, request):
                break
        if status != 200:
            self._check(status, text, after)
        return self._read(request, body, text)

    def _body(self, request: Asked) -> dict[str, Any]:
        with self._lock:
            left_out = set(self._left_out)
        body = {
            "model": self.server.model,
            **request.body(left_out),
            "seed": request.seed,
            **request.parameters,
        }
        if "max_tokens" in left_out and "max_tokens" in body:
            body["max_completion_tokens"] = body["max_tokens"]
        return {name: value for name, value in body.items() if name not in left_out}

    def _send(self, body: Mapping[str, Any]) -> tuple[int, str, float | None]:
        """Sends one HTTP request; returns status, text, and seconds to wait."""
        self._count()
        library = self._library
        work = asyncio.run_coroutine_threadsafe(self._answer(body), _loop())
        try:
            status, headers, text = work.result()
        except TimeoutError:
            raise _Passing(
                f"no reply within {self.server.timeout:g} s",
                "Give a longer timeout, or fewer concurrent requests "
                "(--option timeout=600 concurrent=2).",
            ) from None
        except library.ConnectError as error:
            raise _Passing(
                f"cannot be reached ({self.server.hidden(_line(error))})",
                "Start the server, or correct --endpoint.",
            ) from None
        except (library.TransportError, library.DecodingError) as error:
            raise _Passing(
                f"the connection broke ({self.server.hidden(_line(error))})",
                "See the log of the server.",
            ) from None
        # JSON is UTF-8, whatever character set a header names.
        said = self.server.hidden(text.decode("utf-8", "replace"))
        return status, said, _seconds(headers.get("retry-after"))

    async def _answer(self, body: Mapping[str, Any]) -> tuple[int, Any, bytes]:
        """Returns status, headers, and content of the answer to one HTTP request."""
        url, data = f"{self.server.url}/chat/completions", bytearray()
        # Timeouts of the library hold for single reads, which a slow server repeats.
        async with (
            asyncio.timeout(self.server.timeout),
            self._http.stream("POST", url, json=body) as response,
        ):
            async for part in response.aiter_bytes():
                data += part
                if len(data) > _LARGEST:
                    raise self._error(
                        f"a reply has more than {_LARGEST >> 20} MiB. Check that "
                        "--endpoint is the address of an OpenAI-compatible server."
                    )
        return response.status_code, response.headers, bytes(data)

    def _count(self) -> None:
        if self.stop.is_set():
            raise Stopped
        limit = self.server.max_requests
        with self._lock:
            if limit is not None and self.usage.requests >= limit:
                raise UserError(
                    f"{self.server.name}: the limit of {_times(limit, 'request')} "
                    "(max_requests) is reached. The replies so far are kept: repeat "
                    "the command to continue, or give a higher limit."
                )
            self.usage.requests += 1

    def _rest(self, attempt: int, error: _Passing) -> None:
        """Waits before a repetition, and logs the reason."""
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2**attempt) * random.uniform(0.75, 1.25)
        if error.after is not None:
            wait = max(error.after, FIRST_WAIT * 0.1)
        logging.warning(
            "%s: %s; repeated in %.0f s (%d of %d)",
            self.server.name, error, wait, attempt + 1, self.server.retries,
        )  # fmt: skip
        if self.stop.wait(wait):
            raise Stopped

    def _adapt(self, text: str, body: Mapping[str, Any], request: Asked) -> bool:
        """Omits a parameter that the server refuses; returns whether there is one.

        Parameters of the user stay, but `max_tokens` has another name.
        """
        lower = text.lower()
        for name in (_FORMAT, "seed", "max_tokens"):
            named = name in lower or (name == _FORMAT and "json_schema" in lower)
            is_own = name == "max_tokens" or name not in request.parameters
            if name in body and named and is_own:
                with self._lock:
                    self._left_out.add(name)
                return True
        return False

    def _check(self, status: int, text: str, after: float | None) -> None:
        """Raises the error of a reply with a status other than success."""
        said = _message(text)
        problem = f"HTTP {status}" + (f": {said}" if said else "")
        key = f"${self.server.key_variable}"
        if any(name in text for name in _EMPTY_ACCOUNT):
            raise self._error(f"{problem}. Add credit to the account of {key}.")
        if status in _PASSING:
            fix = (
                "Try again later, or with fewer concurrent requests "
                "(--option concurrent=1)."
            )
            raise _Passing(problem, fix, after)
        if status in (401, 403):
            how = "Correct" if self.server.key() else "It is not set; set"
            raise self._error(f"{problem}. {how} the key in {key}.")
        if status == 404:
            raise self._error(
                f"{problem}. The server needs to know the model "
                f"{self.server.model!r} and the address. Correct the name or "
                f"--endpoint; `curl {self.server.url}/models` lists the models."
            )
        if 300 <= status < 400:
            raise self._error(f"{problem}: a redirection. Name its target.")
        raise self._error(
            f"{problem}. Correct what the server refuses: the model, the prompt, or an "
            "option."
        )

    def _read(self, request: Asked, body: Mapping[str, Any], text: str) -> str:
        """Returns the content of a successful reply and counts its tokens."""
        try:
            value = decoded(text)
            content = request.read(value["choices"][0]["message"])
        except (ValueError, LookupError, TypeError, AttributeError):
            raise _Passing(
                f"the reply is not a complete chat completion: {_start(text)}",
                "Check that --endpoint is the address of an OpenAI-compatible server.",
            ) from None
        self._note(value, body, content)
        if _FORMAT in body and content.strip() and not replies.is_json(content):
            # This server ignores the requested format.
            with self._lock:
                self._left_out.add(_FORMAT)
        return content

    def _note(self, value: Any, body: Mapping[str, Any], content: str) -> None:
        told = value.get("usage")
        told = told if isinstance(told, dict) else {}
        numbers = [told.get("prompt_tokens"), told.get("completion_tokens")]
        is_told = all(type(number) is int for number in numbers)
        if not is_told:
            numbers = [asked_tokens(body), tokens(content)]
        served = value.get("model")
        with self._lock:
            self.answered = True
            self.usage.read += numbers[0] or 0
            self.usage.written += numbers[1] or 0
            self.usage.is_estimate |= not is_told
            self.usage.served |= {served} if isinstance(served, str) else set()

    def note_kept(self) -> None:
        """Counts a reply that was read from the cache."""
        with self._lock:
            self.usage.kept += 1

    def _error(self, text: str) -> UserError:
        return UserError(f"{self.server.name} at {self.server.url}: {text}")


@functools.cache
def of(server: Server) -> Client:
    """Returns the client of a server, one per process, so limits hold for all work."""
    return Client(server)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Returns an event loop in its own thread, which sends all requests."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="endpoint", daemon=True).start()
    return loop


def _library() -> Any:
    try:
        import httpx2
    except ImportError:
        raise missing_extra(
            "models behind an endpoint need the package httpx2", "httpx2"
        ) from None
    return httpx2


def _seconds(header: str | None) -> float | None:
    """Returns the seconds of a Retry-After header, which is a number or a date."""
    if not header:
        return None
    with contextlib.suppress(ValueError):
        return max(0.0, float(header))
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return max(
            0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        )
    return None


def _message(text: str) -> str:
    """Returns the message of an error reply as one line."""
    with contextlib.suppress(ValueError):
        value = decoded(text)
        for name in ("error", "message", "detail"):
            if isinstance(value, dict) and name in value:
                value = value[name]
        text = value if isinstance(value, str) else json.dumps(value)
    return _start(text)


def _start(text: str) -> str:
    text = clean(text, False)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _line(error: Exception) -> str:
    return _start(str(error)) or type(error).__name__


def _times(number: int, what: str = "time") -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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
        work: returns the result of an item; an error stops the work on all items.
    """
    asked = of(server)
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
    """Returns the reply to a request; only replies that are good are cached."""
    found = kept(server, request)
    if found is not None:
        of(server).note_kept()
        return found
    found = of(server).complete(request)
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
    told = of(server).usage
    others = told.others(server.model)
    answered = f"; answered by {', '.join(others)}" if others else ""
    return f"{server.name}: {told.text(server.prices)}{answered}"


def plan(server: Server, expected: Usage) -> list[str]:
    """Returns lines with the server, its key, and the expected usage; asks nothing."""
    key = "is set" if os.environ.get(server.key_variable) else "is not set"
    lines = [
        f"{server.name} at {server.url}; the key ${server.key_variable} {key}",
        f"  expected: {expected.text(server.prices)}",
    ]
    limit = server.max_requests
    if limit is not None and limit < expected.requests:
        lines.append(f"  the limit of {limit:,} requests (max_requests) is too low")
    return lines
