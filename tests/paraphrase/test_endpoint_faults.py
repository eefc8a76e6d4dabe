"""`jaxaug paraphrase` with a scripted server: faults, and the key."""

import email.utils
import logging
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support import chat_server, grids
from tests.support.chat_server import (
    EXPECTED,
    LINES,
    dripping,
    failed,
    good,
    outputs,
    said,
    slow,
)

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-very-secret-0123456789"


@pytest.mark.parametrize(
    "fault",
    [
        failed(429, "slow down"), failed(500), failed(503),
        slow(1.0), said("", choices=[]),
        lambda body: (200, {}, b'{"choices": [{"mess'),
        lambda body: (200, {}, b"<html>proxy</html>"),
        lambda body: (200, {"Content-Length": "900"}, b'{"cho'),
        lambda body: None,
    ],
    ids=["429", "500", "503", "timeout", "empty", "truncated", "html", "cut", "closed"],
)  # fmt: skip
def test_passing_faults(call, server, fault, caplog):
    server.script = [fault, fault]
    options = ["--option", "timeout=0.3", "concurrent=2"]
    status, text, records = call(*options)
    assert status == 0, text
    assert outputs(records) == EXPECTED and len(server.bodies) == 6
    told = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [one.endswith("repeated in 0 s (1 of 5)") for one in told][:1] == [True]
    assert len(told) == 2 and all(one.startswith("openai:tiny: ") for one in told)


@pytest.mark.parametrize("as_date", grids.first(1, [False, True]))
def test_retry_after_is_honored(call, server, as_date):
    wait = "1"
    if as_date:
        wait = email.utils.formatdate(time.time() + 2, usegmt=True)
    server.script = [failed(429, Retry_After=wait)]
    start = time.monotonic()
    assert call(texts=LINES[:1])[0] == 0
    assert 0.9 < time.monotonic() - start < 4


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (failed(429, "slow down"),
         "HTTP 429: slow down (tried 3 times). Try again later"),
        (failed(500, "out of memory"), "HTTP 500: out of memory (tried 3 times)."),
        (failed(429, Retry_After="9999"), "HTTP 429 (tried 1 time)."),
        (slow(1.0), "no reply within 0.3 s (tried 3 times). Give a longer timeout"),
        (lambda body: (200, {}, b'{"choices": [{"mess'),
         ('the reply is not a complete chat completion: {"choices": [{"mess (tried '
         "3 times). Check that --endpoint")),
        (failed(404, "model not found"),
         "HTTP 404: model not found. The server needs to know the model 'tiny'"),
        (failed(401, "no key"),
         "HTTP 401: no key. It is not set; set the key in $OPENAI_API_KEY."),
        (failed(400, "prompt too long"),
         "HTTP 400: prompt too long. Correct what the server refuses"),
        (lambda body: (429, {}, b'{"error": {"code": "insufficient_quota"}}'),
         "Add credit to the account of $OPENAI_API_KEY."),
        (failed(307, Location="http://127.0.0.1:1/v1"), "HTTP 307: a redirection."),
        (dripping, "no reply within 0.3 s (tried 3 times)."),
        (lambda body: (200, {}, b" " * (9 << 20)),
         "a reply has more than 8 MiB. Check that --endpoint is the address"),
    ],
    ids=["429", "500", "wait", "timeout", "truncated", "404", "401", "400", "quota",
         "307", "drip", "large"],
)  # fmt: skip
def test_lasting_faults_keep_finished_replies(call, server, fault, message):
    server.script = [good, good]
    server.answer = fault
    options = ["--option", "timeout=0.3", "retries=2", "concurrent=1"]
    status, text, records = call(*options)
    assert status == 1 and records == []
    assert f"openai:tiny at {server.url}: " in text and message in text
    server.bodies.clear()
    server.answer = good
    status, text, records = call(*options)
    assert status == 0 and outputs(records) == EXPECTED
    assert len(server.bodies) == 2 and "2 replies from the cache" in text


def test_connection_refused(call, server):
    with chat_server.running() as other:
        gone = other.url
    status, text, _ = call("--option", "retries=1", url=gone)
    assert status == 1
    assert f"{gone}: cannot be reached (" in text
    assert "(tried 2 times). Start the server, or correct --endpoint." in text


def test_prose_is_not_a_paraphrase(call, server):
    server.answer = said("Certainly! One may call it the town of the hotel.")
    status, text, records = call()
    assert status == 1 and records == []
    assert "its replies hold no paraphrase that differs from the text" in text
    server.bodies.clear()
    # Only some of many texts are tried.
    assert call("--option", "concurrent=1", texts=[f"t {i}" for i in range(50)])[0] == 1
    assert len(server.bodies) == 5 * 3
    server.answer = good
    status, _, records = call()
    assert status == 0 and outputs(records) == EXPECTED


def test_the_limit_of_requests(call, server):
    limit = ["--max_requests", "3", "--option", "concurrent=1"]
    status, text, records = call(*limit)
    assert status == 1 and records == [] and len(server.bodies) == 3
    assert "openai:tiny: the limit of 3 requests (max_requests) is reached." in text
    status, _, records = call(*limit)
    assert status == 0 and outputs(records) == EXPECTED and len(server.bodies) == 4


def test_a_killed_run_resumes(call, server, tmp_path):
    blocked, released = threading.Event(), threading.Event()

    def block(body):
        blocked.set()
        released.wait(30)

    server.script = [good, good, block]
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    command = [
        sys.executable, "-m", "jaxaug.cli", "paraphrase", "--model", "openai:tiny",
        "--prompt", "plain",
    ]  # fmt: skip
    command += [
        "--endpoint", server.url, "--in", str(tmp_path / "lines.txt"), "--num", "2",
    ]  # fmt: skip
    command += ["--out", str(tmp_path / "out.jsonl"), "--option", "concurrent=1"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    assert blocked.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    released.set()
    assert not (tmp_path / "out.jsonl").exists()
    server.bodies.clear()
    status, _, records = call("--option", "concurrent=1")
    assert status == 0 and outputs(records) == EXPECTED and len(server.bodies) == 2


@pytest.mark.parametrize("is_refused", [False, True])
def test_the_key_is_never_written(
    call, server, tmp_path, monkeypatch, caplog, is_refused
):
    """The server may even repeat it."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    echo = f"You sent {KEY}"
    server.answer = (
        failed(401, echo) if is_refused else said(f"1. {echo}\n2. The key {KEY}")
    )
    status, text, records = call("--option", "json=false")
    assert status == int(is_refused)
    assert ("HTTP 401: You sent ***. Correct the key in" in text) == is_refused
    assert is_refused or records[0]["output"] == "You sent ***"
    assert {h["Authorization"] for h in server.headers} == {f"Bearer {KEY}"}
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(written) == (1 if is_refused else 6)
    everything = [text, caplog.text, *(p.read_text() for p in written)]
    assert not [one for one in everything if KEY in one]


def test_keys_of_other_variables(call, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    other = ["--key_variable", "MY_KEY"]
    status, text, _ = call(*other)
    assert status == 1 and server.bodies == []
    assert f"$MY_KEY is not set; it holds the key of {server.url}." in text
    monkeypatch.setenv("MY_KEY", "two words")
    status, text, _ = call(*other)
    assert status == 1 and server.bodies == []
    assert (
        "$MY_KEY holds no key: it contains a blank" in text and "two words" not in text
    )
    monkeypatch.setenv("MY_KEY", "other-key")
    assert call(*other)[0] == 0
    assert {h["Authorization"] for h in server.headers} == {"Bearer other-key"}


def test_a_server_without_a_key(call, server):
    assert call()[0] == 0
    assert not any("Authorization" in headers for headers in server.headers)
