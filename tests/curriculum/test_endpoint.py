"""`jaxaug levels` with a model behind an endpoint."""

import json

import numpy as np
import pytest

from jaxaug import cli
from jaxaug.curriculum import levels
from jaxaug.curriculum import options as measures
from jaxaug.curriculum.options import Scorers
from jaxaug.models.endpoint import asking
from tests.support.chat_server import failed, good, said, slow

TEXTS = ["I like dogs", "My car is red", "I like dogs"]


@pytest.fixture
def call(server, tmp_path, monkeypatch, capsys):
    """Runs the command; returns its exit status and output."""
    # All but the first wording pass; a later one is less similar.
    scores = Scorers(
        lambda pairs: np.array([0.8 - 0.1 * (ord(t[-1]) - ord("b")) for _, t in pairs]),
        lambda pairs: np.array([not t.endswith("a") for _, t in pairs]),
    )
    monkeypatch.setattr(measures, "load", lambda *names: scores)
    monkeypatch.setattr(measures, "identity", lambda name: name)
    out = tmp_path / "levels.jsonl"

    def run(*more, texts=TEXTS):
        asking.of.cache_clear()  # As in a new process.
        (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
        arguments = ["levels", "--in", str(tmp_path / "in.txt"), "--out", str(out)]
        arguments += ["--similarity=minilm", "--implication=mine", "--beta=1"]
        arguments += ["--levels=2", "--oversample=1", "--model=openai:tiny"]
        status = cli.main([*arguments, f"--endpoint={server.url}", *more])
        said = capsys.readouterr()
        return status, said.out + said.err

    run.out = out
    return run


def test_a_server_fills_the_quota_and_is_told_what_is_there(call, server):
    status, text = call("--quota=sampling=2", "--option", "temperature=0.5")
    assert status == 0, text
    (first, second) = levels.read(call.out)
    # Of a and b one passes; the second round is told of both, and gives c and d.
    kept = [text for (text,) in first.levels[1:]]
    assert [text[:-1] for text in kept] == ["I like dogs, wording "] * 2
    assert [text[-1] for text in kept] in (["b", "c"], ["b", "d"], ["c", "d"])
    assert second.text == TEXTS[1]
    assert len(server.bodies) == 4 and server.bodies[0]["temperature"] == 0.5
    known = "; write others: I like dogs, wording a; I like dogs, wording b\n"
    assert [known in f"{prompt}\n" for prompt in server.prompts].count(True) == 1
    assert "sampling: of 8 outputs 8 are new" in text
    assert "openai:tiny: 4 requests; 0 replies from the cache; 400 tokens" in text
    # Limits and prices are no part of what a file was made of.
    status, text = call(
        "--quota=sampling=2", "--option", "temperature=0.5", "--prices=1,2"
    )
    assert status == 0 and "is complete, nothing to do" in text
    status, text = call("--quota=sampling=2")
    assert status == 1 and "was made with models {" in text


def test_the_default_quota_is_the_size_of_the_papers(call, server):
    status, text = call("--rounds=1", "--levels=5")
    assert status == 0, text
    assert "sampling: of 40 outputs 40 are new" in text and len(server.bodies) == 4


def test_a_dry_run_asks_nothing(call, server):
    status, text = call("--dry_run", "--prices=10,20")
    assert status == 0 and server.bodies == [] and not call.out.exists()
    assert "a dry run: nothing was asked or written; 3 inputs, 2 distinct" in text
    assert "the key $OPENAI_API_KEY is not set" in text
    assert "expected: 4 requests" in text and "$" in text


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (failed(401, "who are you"),
         "HTTP 401: who are you. It is not set; set the key"),
        (failed(503, "busy"), "HTTP 503: busy (tried 1 time). Try again later"),
        (slow(1.0), "no reply within 0.3 s (tried 1 time). Give a longer timeout"),
        (lambda body: (200, {}, b'{"cho'),
         "the reply is not a complete chat completion"),
    ],
    ids=["no key", "busy", "slow", "cut"],
)  # fmt: skip
def test_a_failed_run_goes_on(call, server, fault, message):
    server.script = [good]
    server.answer = fault
    limits = ["--option", "retries=0", "timeout=0.3"]
    status, text = call("--rounds=1", "--quota=sampling=2", *limits)
    assert status == 1 and not call.out.exists()
    assert message in text
    asked = len(server.bodies)
    server.answer = good
    status, text = call("--rounds=1", "--quota=sampling=2")
    assert status == 0 and len(server.bodies) == asked + 1
    assert "1 requests; 1 replies from the cache" in text
    assert json.loads(call.out.with_name("levels.jsonl.json").read_text())["quota"] == {
        "sampling": 2
    }


def test_prose_is_no_paraphrase(call, server):
    server.answer = said("Sure! Here you are.")
    status, text = call(texts=[f"I like {pet}s" for pet in "abcdef"])
    assert status == 1 and not call.out.exists()
    assert "its replies hold no paraphrase that differs from the text" in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--quota", "bottom_k=4", "top_k_top_p=16"],
         "which gives no probabilities of tokens. Write --quota sampling=20."),
        (["--top_k=5"], "--top_k: is for models on this machine, not for openai:tiny"),
        (["--option", "k=5"], "--option k=5: write it as NAME=VALUE"),
        (["--prompt=persona"], "persona: no such file. Use plain or schema"),
        (["--endpoint="], "--endpoint is missing: a model openai:NAME needs"),
        (["--model=smollm2"], "--endpoint: model 'smollm2' runs on this machine"),
        (["--endpoint=http://127.0.0.1:9/v1", "--option", "retries=0"],
         "cannot be reached"),
    ],
)  # fmt: skip
def test_wrong_arguments_end_in_one_line(call, server, flags, message):
    status, text = call(*flags)
    assert status == 1 and message in text and text.count("\n") == 1
    assert server.bodies == []


def test_a_text_that_is_too_long(call, server):
    status, text = call(texts=["a dog " * 1700])
    assert status == 1 and server.bodies == []
    assert "a text has 10,199 characters; 8,000 is the maximum for a request" in text
