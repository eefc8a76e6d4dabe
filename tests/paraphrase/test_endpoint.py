"""`jaxaug paraphrase` with a scripted server: outputs, faults, and the key."""

import email.utils
import json
import logging
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jaxaug import cli
from jaxaug.augment.schemes import registry
from jaxaug.models.endpoint import client
from jaxaug.paraphrase import templates
from tests.support import chat_server
from tests.support.chat_server import failed, good, said, slow

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-very-secret-0123456789"
LINES = ["City of the hotel", "Number of people", "Book a room", "Date of the visit"]


@pytest.fixture
def server():
    with chat_server.running() as running:
        yield running


@pytest.fixture
def call(server, tmp_path, monkeypatch, capsys):
    """Runs the command; returns its exit status, output and records."""
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    lines, out = tmp_path / "lines.txt", tmp_path / "out.jsonl"

    def run(*more, texts=LINES, num=2, url=server.url):
        client.of.cache_clear()  # As in a new process.
        lines.write_text("\n".join(texts) + "\n")
        arguments = ["paraphrase", "--model", "openai:tiny", "--endpoint", url]
        arguments += ["--in", str(lines), "--out", str(out), "--num", str(num)]
        status = cli.main([*arguments, *more])
        said = capsys.readouterr()
        records = out.read_text().splitlines() if out.exists() else []
        return status, said.out + said.err, [json.loads(line) for line in records]

    return run


def outputs(records):
    found = {}
    for record in records:
        found.setdefault(record["input"], []).append(record["output"])
    return found


EXPECTED = {text: [f"{text}, wording {i}" for i in "ab"] for text in LINES}


def test_outputs_and_records(call, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    options = ["--seed", "3", "--prices", "1,2", "--option", "temperature=0.5"]
    status, text, records = call(*options, texts=[*LINES, "", LINES[0]])
    assert status == 0
    assert outputs(records) == EXPECTED | {
        "": [""],
        LINES[0]: EXPECTED[LINES[0]] * 2,
    }
    assert records[0] == {
        "line": 1, "input": LINES[0], "index": 0, "output": f"{LINES[0]}, wording a",
        "model": "openai:tiny", "endpoint": server.url, "prompt": "plain",
        "parameters": {"temperature": 0.5}, "num": 2, "seed": 3,
    }  # fmt: skip
    assert (
        "openai:tiny: 4 requests; 0 replies from the cache; 400 tokens of input, 40 of "
        "output; $0.0005; answered by served-model"
    ) in text
    body = server.bodies[0]
    assert body["model"] == "tiny" and body["temperature"] == 0.5
    assert body["response_format"]["type"] == "json_schema"
    assert {h["Authorization"] for h in server.headers} == {f"Bearer {KEY}"}
    # Another seed asks again, the same one does not.
    _, text, same = call(*options, texts=[*LINES, "", LINES[0]])
    assert same == records and len(server.bodies) == 4 and "4 replies from" in text
    status, text, _ = call("--seed", "4")
    assert status == 1 and "was made with parameters {'temperature': 0.5}" in text


def test_many_requests_at_once_within_the_limit(call, server):
    texts = [f"text number {i}" for i in range(24)]
    server.answer = slow(0.05)
    status, _, records = call("--option", "concurrent=3", texts=texts, num=1)
    assert status == 0 and [r["input"] for r in records] == texts
    assert server.busiest == 3


def test_a_text_is_asked_for_again_until_it_has_enough(call, server):
    copy = "CITY  of the hotel"
    server.script = [
        json.dumps({"paraphrases": ["Hotel city", "hotel city", copy]}),
        "1. Hotel city\n2. Town of the hotel",
    ]
    status, _, records = call(texts=LINES[:1], num=3)
    assert status == 0
    assert [r["output"] for r in records] == [
        "Hotel city", "Town of the hotel", "City of the hotel, wording a",
    ]  # fmt: skip
    assert "write others: Hotel city; Town of the hotel" in server.prompts[2]
    assert len({body["seed"] for body in server.bodies}) == 3


def test_too_few_are_reported(call, server):
    one = said('{"paraphrases": ["Hotel city"]}')
    server.script = [one] * 3
    status, text, records = call(texts=LINES[:2], num=2)
    assert status == 0
    assert outputs(records)[LINES[0]] == ["Hotel city"]
    assert "1 of 2 inputs have fewer than 2 outputs: line 1" in text
    assert len(server.bodies) == 4


def test_several_requests_for_many(call, server):
    status, _, records = call("--option", "per_request=4", texts=LINES[:1], num=10)
    assert status == 0 and len({r["output"] for r in records}) == 10
    counts = [b["response_format"]["json_schema"]["schema"] for b in server.bodies]
    assert [c["properties"]["paraphrases"]["maxItems"] for c in counts] == [4, 4, 2]


@pytest.mark.parametrize("word", ["response_format", "seed", "max_tokens"])
def test_refused_parameters_are_left_out(call, server, word):
    def picky(body):
        if word in body:
            return failed(400, f"Unsupported parameter: {word}")(body)
        return good(body)

    server.answer = picky
    status, _, records = call()
    assert status == 0 and outputs(records) == EXPECTED
    assert len(server.bodies) == 5
    assert [word in body for body in server.bodies] == [True] + [False] * 4
    assert ("max_completion_tokens" in server.bodies[-1]) == (word == "max_tokens")


def test_a_server_that_ignores_the_form_is_asked_for_lists(call, server):
    server.script = ["Sure, here you are!\n1. Hotel city\n2. Town of the hotel"]
    status, _, records = call()
    assert status == 0
    assert outputs(records)[LINES[0]] == ["Hotel city", "Town of the hotel"]
    assert ["response_format" in body for body in server.bodies] == [True] + [False] * 3
    assert "numbered list of 2 lines" in server.prompts[1]


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


@pytest.mark.parametrize("as_date", [False, True])
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
         ('the reply is no whole chat completion: {"choices": [{"mess (tried 3 times). '
         "Check that --endpoint")),
        (failed(404, "model not found"),
         "HTTP 404: model not found. The server needs to know the model 'tiny'"),
        (failed(401, "no key"),
         "HTTP 401: no key. It is not set; set the key in $OPENAI_API_KEY."),
        (failed(400, "prompt too long"),
         "HTTP 400: prompt too long. Correct what the server refuses"),
        (lambda body: (429, {}, b'{"error": {"code": "insufficient_quota"}}'),
         "Add credit to the account of $OPENAI_API_KEY."),
        (failed(307, Location="http://127.0.0.1:1/v1"), "HTTP 307: a redirection."),
    ],
    ids=["429", "500", "wait", "timeout", "truncated", "404", "401", "400", "quota",
         "307"],
)  # fmt: skip
def test_lasting_faults_keep_what_was_finished(call, server, fault, message):
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


def test_prose_is_no_paraphrase(call, server):
    server.answer = said("Certainly! One may call it the town of the hotel.")
    status, text, records = call()
    assert status == 1 and records == []
    assert "its replies hold no paraphrase that differs from the text" in text
    server.bodies.clear()
    # Of many texts only some are tried.
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


def test_a_killed_run_goes_on(call, server, tmp_path):
    blocked, released = threading.Event(), threading.Event()

    def block(body):
        blocked.set()
        released.wait(30)

    server.script = [good, good, block]
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    command = [
        sys.executable,
        "-m",
        "jaxaug.cli",
        "paraphrase",
        "--model",
        "openai:tiny",
    ]
    command += [
        "--endpoint",
        server.url,
        "--in",
        str(tmp_path / "lines.txt"),
        "--num",
        "2",
    ]
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
def test_the_key_is_written_nowhere(
    call, server, tmp_path, monkeypatch, caplog, is_refused
):
    """Even where the server repeats it."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    echo = f"You sent {KEY}"
    server.answer = failed(401, echo) if is_refused else said(f"1. {echo}\n2. {KEY}")
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
    assert f"$MY_KEY is not set, and holds the key of {server.url}." in text
    monkeypatch.setenv("MY_KEY", "two words")
    status, text, _ = call(*other)
    assert status == 1 and server.bodies == []
    assert "$MY_KEY holds no key: it has a blank" in text and "two words" not in text
    monkeypatch.setenv("MY_KEY", "other-key")
    assert call(*other)[0] == 0
    assert {h["Authorization"] for h in server.headers} == {"Bearer other-key"}


def test_a_server_without_a_key(call, server):
    assert call()[0] == 0
    assert not any("Authorization" in headers for headers in server.headers)


def test_a_dry_run_asks_nothing(call, server, tmp_path):
    # One text has an answer already.
    call(texts=LINES[:1])
    (tmp_path / "out.jsonl").unlink()
    server.bodies.clear()
    dry = ["--dry_run", "--prices", "1000,0", "--max_requests", "2"]
    status, text, records = call(*dry)
    assert status == 0 and records == [] and server.bodies == []
    assert text.splitlines()[0].endswith("4 inputs, 4 distinct")
    assert "the key $OPENAI_API_KEY is not set" in text
    read = sum(-(-len(prompt) // 4) for prompt in _prompts(LINES[1:]))
    assert (
        f"expected: 3 requests; 1 replies from the cache; about {read} tokens of input, "
        f"48 of output; ${read / 1000:.4f}"
    ) in text
    assert "the limit of 2 requests (max_requests) is too low" in text


def _prompts(texts):
    return [
        templates.filled(templates.find("plain"), text, 2, {}, (), True)
        for text in texts
    ]


def test_the_commands_of_the_page(server, tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs/paraphrasing.md").read_text(encoding="utf-8")
    place = "http://localhost:8000/v1"
    lines = [line for line in page.splitlines() if place in line and line[:4] == "    "]
    *commands, block = [line.replace(place, server.url) for line in lines]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    for command in commands:
        assert cli.main(shlex.split(command)[1:]) == 0
    said = capsys.readouterr().out
    assert "expected: 4 requests;" in said and "; $0.0001; answered by" in said
    assert len((tmp_path / "server.jsonl").read_text().splitlines()) == 20
    assert (tmp_path / "reworded.txt").read_text().splitlines()[
        3
    ] == f"{LINES[3]}, wording a"
    (job,) = registry.made("paraphrase", 0, {"grid": [json.loads(block)]})
    assert job.run(["Number of rooms"])[0][19] == "Number of rooms, wording t"


def test_a_prompt_of_ones_own(call, server, tmp_path):
    prompt = tmp_path / "mine.txt"
    prompt.write_text("Reword.\nKnown: {known}\nText: {text}\n")
    assert call("--prompt", str(prompt), texts=["a {num} b"])[0] == 0
    assert server.prompts == [
        (
            "Reword.\nText: a {num} b\n\n"
            'Answer with a JSON object {"paraphrases": [...]} that holds 2 strings, and '
            "nothing else."
        )
    ]
    for text, message in (
        ("Reword {txt}", "unknown place {txt}; did you mean 'text'?"),
        ("Reword.", "has no place for the text. Write {text} where it goes."),
    ):
        prompt.write_text(text)
        status, said, _ = call("--prompt", str(prompt))
        assert status == 1 and f"prompt {prompt}: {message}" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sampler", "beam"], "--sampler: is for models on this machine"),
        (["--shard", "1/2"], "--shard: is for models on this machine"),
        (["--option", "k=2"], "--option k=2: write it as NAME=VALUE; known: concurrent"),
        (["--option", "temperature=hot"], "temperature='hot': expected a finite number"),
        (["--option", "top_p=2"], "top_p is 2.0: give a number above 0, at most 1."),
        (["--option", "timeout=0"], "timeout is 0.0: give seconds above 0"),
        (["--option", "concurrent=0"], "concurrent is 0: give at least 1."),
        (["--max_requests", "0"], "max_requests is 0: give at least 1."),
        (["--prices", "1"], "--prices 1: give two numbers"),
        (["--prices=-1,0"], "prices are (-1.0, 0.0): give dollars from 0 up."),
        (["--num", "0"], "num is 0: give at least 1."),
        (["--model", "openai:"], "names no model. Write openai:NAME"),
        (["--endpoint", "localhost:8000"], "is no address of a server. Write it with"),
        (["--endpoint", ""], "--endpoint is missing: a model openai:NAME needs"),
        (["--endpoint", "http://u:p4ss@h/v1"], "holds a user, a password or a query"),
        (["--endpoint", "http://h/v1?key=p4ss"], "holds a user, a password or a query"),
        (["--model", "random-tiny", "--sampler", "beam"], "--endpoint: model 'random-"),
        (["--prompt", "plane"], "Use plain or schema, or name a text file with {text}"),
    ],
)  # fmt: skip
def test_wrong_arguments(call, server, options, message):
    status, text, _ = call(*options)
    assert status == 1 and message in text and "p4ss" not in text
    assert server.bodies == []


def test_a_text_that_is_too_long(call, server):
    status, text, _ = call(texts=[*LINES, "word " * 2000])
    assert status == 1 and server.bodies == []
    assert "a text has 9,999 characters, 8,000 are the most" in text


def test_a_file_of_something_else_stays(call, server, tmp_path):
    (tmp_path / "out.jsonl").write_text('{"line": 1}\n')
    status, text, records = call()
    assert status == 1 and records == [{"line": 1}] and server.bodies == []
    assert "is no output of `jaxaug paraphrase` with an endpoint. Remove" in text
