"""The web application: routes, limits, and error responses.

Requests do not read or write files. A request can only name wordings that were read
when the server started.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.data.sgd import Dialogue
from jaxaug.serve import reading
from jaxaug.serve.limits import Limits, check_size
from jaxaug.serve.wordings import Wordings, only
from jaxaug.tools import chat
from jaxaug.track.answers import Prediction, as_json_line
from jaxaug.track.base import BaseTracker

_PAGE = (
    ("/", "index.html", "text/html"),
    ("/page.js", "page.js", "text/javascript"),
    ("/page.css", "page.css", "text/css"),
)
_KEYS = ("dialogue", "dialogues", "services", "schema")
_TOGETHER = 32  # inputs that are decoded as a group
_ON_TIME = 0.99  # of the time limit; the rest is for sending the refusal
_PIECE = 65_536  # bytes of an answer that are handed over at once
_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def build(
    tracker: BaseTracker,
    wordings: Wordings,
    limits: Limits | None = None,
    hosts: Sequence[str] | None = None,
) -> ASGIApp:
    """Returns the ASGI application that serves a tracker.

    Args:
        tracker: tracker that predicts the states; its schema is not used.
        wordings: wordings of the schema that requests can choose from.
        limits: limits of requests; None means `Limits()`.
        hosts: host names, without ports, that requests may use for this server; None
            allows any. The check stops DNS rebinding: pages of another site whose name
            resolves to this machine are refused.
    """
    desk = _Desk(tracker, wordings, limits or Limits())
    page = resources.files("jaxaug.serve") / "page"
    routes = [
        _content(path, (page / file).read_bytes(), kind) for path, file, kind in _PAGE
    ]
    known = {
        "wordings": wordings.as_json(),
        "limits": {
            "turns": desk.limits.turns,
            "description": desk.limits.description,
        },
    }
    models = {"object": "list", "data": [chat.MODEL]}
    routes += [
        _content("/api/schemas", _json(known), "application/json"),
        _content("/healthz", _json({"status": "ok"}), "application/json"),
        _content("/favicon.ico", b"", "image/x-icon"),
        _content("/v1/models", _json(models), "application/json"),
        _content(
            f"/v1/models/{chat.MODEL['id']}",
            _json(chat.MODEL),
            "application/json",
        ),
        Route("/api/predict", desk.predict, methods=["POST"]),
        Route("/v1/chat/completions", desk.complete, methods=["POST"]),
    ]
    handlers: dict[Any, Callable[..., Any]] = {
        ClientDisconnect: _left,
        HTTPException: _refused,
        UserError: _wrong,
        Exception: _defect,
    }
    return _Guarded(Starlette(routes=routes, exception_handlers=handlers), hosts)


class _Desk:
    """Answers requests for predictions in the order of their arrival.

    Threads read requests and another one computes, so that the event loop is free and a
    wrong request does not wait for a computation.
    """

    def __init__(self, tracker: BaseTracker, wordings: Wordings, limits: Limits):
        self.limits = limits
        self._tracker = tracker
        self._wordings = wordings
        self._readers = ThreadPoolExecutor(reading.READERS, "read")
        self._chat_readers = ThreadPoolExecutor(reading.READERS, "read-chat")
        self._worker = ThreadPoolExecutor(1, "predict")
        self._waiting = 0

    async def predict(self, request: Request) -> Response:
        """Answers `POST /api/predict`."""
        return await self._served(request, self._read, self._readers)

    async def complete(self, request: Request) -> Response:
        """Answers `POST /v1/chat/completions`."""
        return await self._served(request, self._read_chat, self._chat_readers)

    async def _served(
        self, request: Request, read: "_Read", readers: ThreadPoolExecutor
    ) -> Response:
        limits = self.limits
        end = time.monotonic() + _ON_TIME * limits.seconds
        receive = min(limits.body_seconds, limits.seconds)
        try:
            body = await asyncio.wait_for(self._body(request), receive)
        except TimeoutError:
            raise HTTPException(
                503, f"The request was not received within {receive:g} seconds."
            ) from None
        async with self._place():
            asked = partial(read, body, wanted := _Wanted(end))
            work = _while_connected(request, self._answer(asked, readers, wanted))
            try:
                line = await asyncio.wait_for(work, end - time.monotonic())
            except TimeoutError:
                raise HTTPException(
                    503,
                    f"The request was not answered within {limits.seconds:g} seconds. "
                    "One is computed at a time: try again, with fewer services or "
                    "turns.",
                ) from None
        return Response(f"{line}\n", media_type="application/json")

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Counts a request as waiting inside the context.

        Raises:
            HTTPException: too many requests wait already.
        """
        if self._waiting >= self.limits.waiting:
            raise HTTPException(
                503, f"{self._waiting} requests wait already. Try again later."
            )
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def _answer(
        self,
        read: Callable[[], "_Work"],
        readers: ThreadPoolExecutor,
        wanted: "_Wanted",
    ) -> str:
        loop = asyncio.get_running_loop()
        try:
            # Work that has not begun when this is canceled never begins.
            asked = await loop.run_in_executor(readers, read)
            return await loop.run_in_executor(
                self._worker, self._predict, *asked, wanted
            )
        finally:
            wanted.is_over = True

    def _read(self, body: bytes, wanted: "_Wanted") -> "_Work":
        asked = only(chat.parsed(body), _KEYS, "the request")
        schema = self._wordings.choose(asked.get("schema"), asked.get("services"))
        tracker = self._tracker.about(schema, wanted.check)
        several = asked.get("dialogues")
        if "dialogue" not in asked and "dialogues" not in asked:
            raise UserError(
                "dialogue: is missing. Give lines that begin with USER: or SYSTEM:, or "
                "an object in the layout of SGD; in dialogues, a list of these."
            )
        if "dialogues" in asked and (
            "dialogue" in asked or not isinstance(several, list) or not several
        ):
            raise UserError(
                f"dialogues: expected a list and no dialogue, got {shown(several)}."
            )
        given = several or [asked["dialogue"]]
        dialogues = [tracker.read(one) for one in given]
        check_size(self.limits, tracker, dialogues)

        def written(predictions: Sequence[Prediction], _: tuple[int, int]) -> str:
            lines = [as_json_line(one) for one in predictions]
            return f"[{', '.join(lines)}]" if several else lines[0]

        return tracker, dialogues, written

    def _read_chat(self, body: bytes, wanted: "_Wanted") -> "_Work":
        wanted.check()
        limits = self.limits
        asked = reading.read(body, limits.tools_seconds, limits.tools_memory)
        self._wordings.check(asked.schema)
        tracker = self._tracker.about(asked.schema, wanted.check)
        check_size(self.limits, tracker, asked.dialogues)
        return tracker, asked.dialogues, partial(chat.answer, asked)

    def _predict(
        self,
        tracker: BaseTracker,
        dialogues: Sequence[Dialogue],
        written: "_Written",
        wanted: "_Wanted",
    ) -> str:
        read_tokens = written_tokens = 0

        def write(inputs: Sequence[list[int]]) -> list[list[int]]:
            nonlocal read_tokens, written_tokens
            outputs: list[list[int]] = []
            while len(outputs) < len(inputs):
                wanted.check()
                start = len(outputs)
                outputs += tracker.write_tokens(inputs[start : start + _TOGETHER])
            read_tokens += sum(map(len, inputs))
            written_tokens += sum(
                sum(map(bool, one)) for one in outputs
            )  # 0 is padding.
            return outputs

        found = tracker.predict_all(dialogues, write) if dialogues else ()
        return written(found, (read_tokens, written_tokens))

    async def _body(self, request: Request) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # Pages of other sites cannot send it unasked.
            raise HTTPException(415, "Send JSON, with Content-Type: application/json.")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self.limits.body:
                raise HTTPException(
                    413, f"The request is larger than {self.limits.body} bytes."
                )
        return bytes(body)


class _Wanted:
    """Tells worker threads whether a client still waits for the answer."""

    def __init__(self, end: float):
        self._end = end
        self.is_over = False

    def check(self) -> None:
        """Raises `TimeoutError` if no client waits."""
        if self.is_over or time.monotonic() > self._end:
            raise TimeoutError


_Written = Callable[[Sequence[Prediction], tuple[int, int]], str]
_Work = tuple[BaseTracker, Sequence[Dialogue], _Written]
_Read = Callable[[bytes, _Wanted], _Work]


async def _while_connected(request: Request, work: Coroutine[Any, Any, str]) -> str:
    """Awaits work on a received request; cancels it when the client disconnects.

    Raises:
        ClientDisconnect: the client has left.
    """

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working = asyncio.create_task(work)
    leaving = asyncio.create_task(disconnected())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        working.cancel()
        leaving.cancel()


class _Guarded:
    """Middleware that refuses unknown host names and adds headers to every answer."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None):
        self._app = app
        self._hosts = None if hosts is None else {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        app = self._app
        if scope["type"] == "http" and not self._is_known(scope):
            text = "The server has another name: use the address it printed."
            app = _error(scope["path"], 400, text)
        await app(scope, receive, send_guarded)

    def _is_known(self, scope: Scope) -> bool:
        name = dict(scope["headers"]).get(b"host", b"").decode("latin-1").lower()
        name = name[: name.rfind("]") + 1] or name.partition(":")[0]
        return self._hosts is None or name in self._hosts


def _content(path: str, content: bytes, kind: str) -> Route:
    """Returns a route with a constant answer."""

    async def answer(_: Request) -> Response:
        return _Pieces(content, media_type=kind)

    return Route(path, answer)


class _Pieces(Response):
    """A response sent in pieces, so that a slow client holds only one in memory."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer; the server waits between pieces until they are read."""
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        body = memoryview(self.body)
        for at in range(0, max(1, len(body)), _PIECE):
            piece, rest = bytes(body[at : at + _PIECE]), len(body) > at + _PIECE
            await send({"type": "http.response.body", "body": piece, "more_body": rest})
            await asyncio.sleep(0)  # Sending does not yield to others by itself.


def _json(value: Any) -> bytes:
    return f"{json.dumps(value, ensure_ascii=False)}\n".encode()


def _error(
    path: str, status: int, text: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Returns an error; below /v1/ it has the form that clients of OpenAI expect."""
    told: Any = text
    if path == "/v1" or path.startswith("/v1/"):
        kind = "server_error" if status >= 500 else "invalid_request_error"
        told = {"message": text, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": told}, status, headers)


async def _wrong(request: Request, error: Exception) -> Response:
    return _error(request.url.path, 400, str(error))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    return _error(path, error.status_code, error.detail, error.headers)


async def _left(_: Request, error: Exception) -> Response:
    return Response(status_code=499)  # The client has left.


async def _defect(request: Request, error: Exception) -> Response:
    text = "A defect of the server: its terminal shows more."
    return _error(request.url.path, 500, text)
