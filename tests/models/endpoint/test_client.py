"""The client of endpoints: clocks, character sets, keys, and files."""

import contextlib
import json
import socket
import stat
import threading
import time

import pytest

from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.models.endpoint import asking
from jaxaug.models.endpoint.asking import Request
from jaxaug.models.endpoint.replies import paraphrases
from jaxaug.models.endpoint.server import Server
from tests.support.chat_server import failed, said

KEY = "sk-very-secret/0123456789"
ESCAPED = "".join(f"\\u{ord(letter):04X}" for letter in KEY)


def request(**parameters):
    return Request("ask", "ask", 1, 0, parameters, json=False)


@contextlib.contextmanager
def slow_headers():
    """Yields the address of a server that sends a header line each 0.1 s, forever."""

    def answer(listener):
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            for number in range(300):
                time.sleep(0.1)
                connection.sendall(b"x-%d: y\r\n" % number)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    thread.join()


def test_the_clock_covers_the_header():
    started = time.monotonic()
    with slow_headers() as url, pytest.raises(UserError, match="no reply within 0.5 s"):
        asking.of(Server("tiny", url, retries=0, timeout=0.5)).complete(request())
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("charset", ["base64", "none-such", "utf-16"])
def test_replies_are_utf_8(server, charset):
    _, _, data = said("1. Zürich")({})
    kind = {"Content-Type": f"application/json; charset={charset}"}
    server.answer = lambda body: (200, kind, data)
    assert asking.of(Server("tiny", server.url)).complete(request()) == "1. Zürich"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_an_escaped_key_is_masked_in_private_files(server, monkeypatch, depth):
    """The key is within a JSON text, which is a string of the reply."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    text = f'"{ESCAPED}"'
    for _ in range(depth - 1):
        text = json.dumps(text)
    data = b'{"choices": [{"message": {"content": %s}}]}' % text.encode()
    server.answer = lambda body: (200, {}, data)
    found = asking.reply(Server("tiny", server.url), request())
    for _ in range(depth - 1):
        found = json.loads(found)
    assert found == "***"
    (file,) = (cache_folder.cache_dir() / "endpoint").glob("*/*.json")
    assert "0123456789" not in file.read_text() and "u0073" not in file.read_text()
    assert stat.S_IMODE(file.stat().mode) == 0o600


def test_a_refused_limit_of_one_request_spares_others(server):
    """Requests without the refused parameter are sent as they are."""
    asked = asking.of(Server("tiny", server.url))
    server.script = [failed(400, "Unsupported: max_tokens"), "a", "b"]
    assert asked.complete(request(max_tokens=5)) == "a"
    assert asked.complete(request()) == "b"
    names = ("max_tokens", "max_completion_tokens")
    sent = [[name for name in names if name in body] for body in server.bodies]
    assert sent == [["max_tokens"], ["max_completion_tokens"], []]


@pytest.mark.parametrize(
    "content",
    [
        "x" + "\n" * 1_000_000 + "x",
        '["' + '\\"' * 500_000,
        '["a", ' + '" ' * 500_000,
        "1." + " " * 1_000_000 + "\n",
        "\\" * 1_000_000,
    ],
    ids=["newlines", "escapes", "marks", "blanks", "backslashes"],
)
def test_replies_are_read_in_linear_time(monkeypatch, content):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    started = time.monotonic()
    paraphrases(Server("tiny", "http://a/v1").hidden(content))
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2.5", 2.5),
        ("-1", 0.0),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0),
        ("Mon, 99999999999999999999 Jan 2020 00:00:00 GMT", None),
        ("soon", None),
    ],
)
def test_the_wait_that_a_server_asks_for(header, seconds):
    assert asking._seconds(header) == seconds
