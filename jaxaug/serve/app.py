"""The web application: what each address answers, and what it refuses.

A request reads no file and writes none; what it may name are wordings that were read when
the server started.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.serve.limits import Limits
from jaxaug.serve.wordings import Wordings, only
from jaxaug.track.tracker import Tracker, as_json_line

_PAGE = (
    ("/", "index.html", "text/html"),
    ("/page.js", "page.js", "text/javascript"),
    ("/page.css", "page.css", "text/css"),
)
_KEYS = ("dialogue", "services", "schema")
_TOGETHER = 32  # inputs between two looks at the clock
_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def build(
    tracker: Tracker,
    wordings: Wordings,
    limits: Limits | None = None,
    hosts: Sequence[str] | None = None,
) -> ASGIApp:
    """The application of a tracker.

    Args:
      tracker: answers; its own schema is not used.
      wordings: what requests may choose from.
      limits: None is `Limits()`.
      hosts: names by which requests may call the server, without ports; None is any.
        Another site that gives its name this machine's address is thus refused.
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
    routes += [
        _content("/api/schemas", _json(known), "application/json"),
        _content("/healthz", _json({"status": "ok"}), "application/json"),
        _content("/favicon.ico", b"", "image/x-icon"),
        Route("/api/predict", desk.predict, methods=["POST"]),
    ]
    handlers: dict[Any, Callable[..., Any]] = {
        HTTPException: _refused,
        UserError: _wrong,
        Exception: _defect,
    }
    return _Guarded(Starlette(routes=routes, exception_handlers=handlers), hosts)


class _Desk:
    """Where predictions are made: one at a time, in the order of their requests."""

    def __init__(self, tracker: Tracker, wordings: Wordings, limits: Limits):
        self.limits = limits
        self._tracker = tracker
        self._wordings = wordings
        self._worker = ThreadPoolExecutor(1, "predict")

    async def predict(self, request: Request) -> Response:
        """`POST /api/predict`."""
        end = time.monotonic() + self.limits.seconds
        asked = _parsed(await self._within(self._body(request), end, "received"))
        schema = self._wordings.choose(asked.get("schema"), asked.get("services"))
        if "dialogue" not in asked:
            raise UserError(
                "dialogue: is missing. Give lines that begin with USER: or SYSTEM:, or an "
                "object in the layout of SGD."
            )
        waiting = self._worker.submit(
            self._answer, self._tracker.about(schema), asked["dialogue"], end
        )
        # A computation that has not begun is taken back when its time is over.
        line = await self._within(asyncio.wrap_future(waiting), end, "answered")
        return Response(f"{line}\n", media_type="application/json")

    def _answer(self, tracker: Tracker, asked: Any, end: float) -> str:
        dialogue = tracker.read(asked)
        if len(dialogue.turns) > self.limits.turns:
            raise UserError(
                f"dialogue: has {len(dialogue.turns)} turns; at most {self.limits.turns} "
                "are taken. Leave out the first ones."
            )

        def write(inputs: Sequence[list[int]]) -> list[list[int]]:
            outputs: list[list[int]] = []
            while len(outputs) < len(inputs):
                if time.monotonic() > end:
                    raise TimeoutError
                start = len(outputs)
                outputs += tracker.write_tokens(inputs[start : start + _TOGETHER])
            return outputs

        return as_json_line(tracker.predict_all([dialogue], write)[0])

    async def _body(self, request: Request) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # Pages of other sites cannot send it unasked.
            raise HTTPException(415, "Send JSON, with Content-Type: application/json.")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > self.limits.body:
                raise HTTPException(
                    413, f"The request is larger than {self.limits.body} bytes."
                )
        return body

    async def _within(self, work: Awaitable[Any], end: float, what: str) -> Any:
        try:
            return await asyncio.wait_for(work, end - time.monotonic())
        except TimeoutError:
            raise HTTPException(
                503,
                f"The request was not {what} within {self.limits.seconds:g} seconds. One "
                "is computed at a time: try again, with fewer services or turns.",
            ) from None


class _Guarded:
    """Refuses foreign names of this server and adds headers to every answer."""

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
            app = _error(
                400, "The server has another name: use the address it printed."
            )
        await app(scope, receive, send_guarded)

    def _is_known(self, scope: Scope) -> bool:
        name = dict(scope["headers"]).get(b"host", b"").decode("latin-1").lower()
        name = name[: name.rfind("]") + 1] or name.partition(":")[0]
        return self._hosts is None or name in self._hosts


def _parsed(body: bytes) -> Any:
    try:
        asked = json_reader.decoded(body)
    except json_reader.JsonError as error:
        raise UserError(f"the request is no JSON in UTF-8: {error}.") from None
    return only(asked, _KEYS, "the request")


def _content(path: str, content: bytes, kind: str) -> Route:
    """An address that always answers the same."""

    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return Route(path, answer)


def _json(value: Any) -> bytes:
    return f"{json.dumps(value, ensure_ascii=False)}\n".encode()


def _error(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status)


async def _wrong(_: Request, error: Exception) -> Response:
    return _error(400, str(error))


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _defect(_: Request, error: Exception) -> Response:
    return _error(500, "A defect of the server: its terminal shows more.")
