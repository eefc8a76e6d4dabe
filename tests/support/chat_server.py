"""A scripted server with the interface of OpenAI's chat completions."""

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LINES = ["City of the hotel", "Number of people", "Book a room", "Date of the visit"]
Action = Callable[[dict[str, Any]], tuple[int, dict[str, str], bytes] | None]
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # A number would change the meaning of a text.
TEXT = re.compile(r"^(?:Text|Description): (.*)$", re.MULTILINE)


class ChatServer:
    """Answers requests by a script, then by `answer`.

    Attributes:
        url: base address.
        bodies: bodies of the requests so far.
        headers: headers of the requests so far.
        script: answers to the next requests: actions, or contents of replies.
        answer: action for requests after the script.
        busiest: maximum number of simultaneous requests.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.script: list[Action | str] = []
        self.answer: Action = good
        self.busiest = self._busy = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.handle(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][0]["content"] for body in self.bodies]

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        with self._lock:
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
            action = self.script.pop(0) if self.script else self.answer
            self._busy += 1
            self.busiest = max(self.busiest, self._busy)
        # A client that stopped waiting has closed the connection.
        with contextlib.suppress(ConnectionError):
            if isinstance(action, str):
                action = said(action)
            try:
                found = action(body)
            finally:
                # The client may ask again before the last byte is written.
                with self._lock:
                    self._busy -= 1
            if found is not None:
                status, headers, data = found
                request.send_response(status)
                for name, value in headers.items():
                    request.send_header(name, value)
                if "Content-Length" not in headers:
                    request.send_header("Content-Length", str(len(data)))
                request.end_headers()
                for part in [data] if isinstance(data, bytes) else data:
                    request.wfile.write(part)


@contextlib.contextmanager
def running() -> Iterator[ChatServer]:
    server = ChatServer()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


def said(content: str, **fields: Any) -> Action:
    """Returns a chat completion with this content; 100 tokens in, 10 out."""
    value = {
        "model": "served-model",
        "choices": [{"message": {"role": "assistant", "content": content}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }
    data = json.dumps(value | fields).encode()
    return lambda body: (200, {"Content-Type": "application/json"}, data)


def called(*calls: tuple[str, Any], content: str | None = None) -> Action:
    """A completion that calls tools: (name, arguments as an object or a text)."""
    told = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": given if isinstance(given, str) else json.dumps(given),
            },
        }
        for number, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": told}
    return said("", choices=[{"message": message}])


def failed(status: int, text: str = "", **headers: str) -> Action:
    """Returns an action that fails with a JSON error."""
    data = json.dumps({"error": {"message": text}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda body: (status, named, data)


def good(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes] | None:
    """Answers with as many paraphrases as requested, in the requested form."""
    prompt = body["messages"][0]["content"]
    text = (TEXT.findall(prompt) or [prompt.splitlines()[-1]])[-1]
    count = int(re.findall(r"(?:holds|list of) (\d+) (?:strings|lines)", prompt)[-1])
    start = prompt.count("wording")
    texts = [f"{text}, wording {letter}" for letter in LETTERS[start:][:count]]
    if "response_format" in body:
        return said(json.dumps({"paraphrases": texts}))(body)
    return said("\n".join(f"{i}. {text}" for i, text in enumerate(texts, 1)))(body)


def slow(seconds: float, after: Action = good) -> Action:
    """Answers late."""

    def action(body: dict[str, Any]) -> Any:
        time.sleep(seconds)
        return after(body)

    return action


def dripping(body: dict[str, Any]) -> Any:
    """Sends one byte after the other, each within the timeout of a client."""
    parts = (time.sleep(0.1) or b" " for _ in range(100))
    return 200, {"Content-Length": "100"}, parts


def outputs(records: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Returns input -> outputs of the records of `jaxaug paraphrase`."""
    found: dict[str, list[str]] = {}
    for record in records:
        found.setdefault(record["input"], []).append(record["output"])
    return found


EXPECTED = {text: [f"{text}, wording {i}" for i in "ab"] for text in LINES}
