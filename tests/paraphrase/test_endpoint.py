"""`jaxaug paraphrase` with a scripted server: outputs, faults, and the key."""

import json
import shlex
from pathlib import Path

import pytest

from jaxaug import cli
from jaxaug.augment.schemes import registry
from jaxaug.paraphrase import templates
from tests.support.chat_server import EXPECTED, LINES, failed, good, outputs, said, slow

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-very-secret-0123456789"


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
    # Another seed sends new requests, the same seed does not.
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
        f"expected: 3 requests; 1 replies from the cache; about {read} tokens of "
        f"input, 48 of output; ${read / 1000:.4f}"
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


def test_a_user_defined_prompt(call, server, tmp_path):
    prompt = tmp_path / "mine.txt"
    prompt.write_text("Reword.\nKnown: {known}\nText: {text}\n")
    assert call("--prompt", str(prompt), texts=["a {num} b"])[0] == 0
    assert server.prompts == [
        (
            "Reword.\nText: a [1] b\n\n"
            'Answer with a JSON object {"paraphrases": [...]} that holds 2 strings, '
            "and nothing else."
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
        (["--option", "k=2"], "--option k=2: write it as NAME=VALUE; known: "),
        (["--option", "temperature=hot"], "temperature='hot': expected a finite"),
        (["--option", "top_p=2"], "top_p=2.0: expected a finite number above 0, at"),
        (["--option", "timeout=0"], "timeout is 0.0: give a finite number above 0"),
        (["--option", "concurrent=0"], "concurrent is 0: give a whole number"),
        (["--max_requests", "0"], "max_requests is 0: give a whole number from 1"),
        (["--prices", "1"], "--prices 1: give two numbers"),
        (["--prices=-1,0"], "prices is (-1.0, 0.0): give (a finite number"),
        (["--num", "0"], "num is 0: give a whole number from 1"),
        (["--model", "openai:"], "names no model. Write openai:NAME"),
        (["--endpoint", "localhost:8000"], "is not the address of a server. Write it"),
        (["--endpoint", ""], "--endpoint is missing: a model openai:NAME needs"),
        (["--endpoint", "http://u:p4ss@h/v1"], "holds a user, a password, or a query"),
        (["--endpoint", "http://h/v1?key=p4ss"], "holds a user, a password, or a"),
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
    assert "a text has 9,999 characters; 8,000 is the maximum" in text


def test_foreign_files_stay(call, server, tmp_path):
    (tmp_path / "out.jsonl").write_text('{"line": 1}\n')
    status, text, records = call()
    assert status == 1 and records == [{"line": 1}] and server.bodies == []
    assert "is no output of `jaxaug paraphrase` with an endpoint. Remove" in text
