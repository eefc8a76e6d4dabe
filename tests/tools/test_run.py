"""`jaxaug sensitivity` with a scripted server, and with a tracker."""

import json
import random
from xml.etree import ElementTree

import pytest

import jaxaug
from jaxaug import cli
from jaxaug.tools.models import INVALID, PROSE, TEXT, TOOL_CALLS, parsed
from tests.support.chat_server import called, failed, said

pytestmark = pytest.mark.usefixtures("judge_network")

GIVEN = "city of the weather report"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "find the weather of a city",
            "parameters": {
                "type": "object",
                "required": ["city"],
                "properties": {
                    "city": {
                        "type": "string",
                        "description": GIVEN,
                    },
                    "days": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "number of days",
                    },
                },
            },
        },
    }
]
RIGHT = ("weather", {"city": "Oslo"})
CASES = [
    {"id": n, "messages": [{"role": "user", "content": f"Oslo, {n}?"}], "calls": calls}
    for n, calls in (
        ("a", [{"name": "weather", "arguments": {"city": "Oslo"}}]),
        ("b", [{"name": "weather", "arguments": {"city": "Oslo"}}]),
        ("c", []),
        ("d", [{"name": "weather", "arguments": {"city": "Oslo"}}]),
    )
]


@pytest.fixture
def call(server, tmp_path, capsys):
    """Runs the command; returns its exit status, output, and report."""
    schema, cases = tmp_path / "tools.json", tmp_path / "cases.jsonl"
    schema.write_text(json.dumps(TOOLS))
    cases.write_text("".join(json.dumps(one) + "\n" for one in CASES))
    out = tmp_path / "report.json"

    def run(*more, files=True, model=True):
        arguments = ["sensitivity", "--json", str(out)]
        arguments += ["--schema", str(schema), "--in", str(cases)] if files else []
        if model:
            arguments += ["--model", "openai:tiny", "--endpoint", server.url]
        status = cli.main([*arguments, *more])
        told = capsys.readouterr()
        found = json.loads(out.read_text()) if out.exists() else None
        return status, told.out + told.err, found

    return run


def test_a_description_that_breaks(call, server, tmp_path):
    """The model understands only the given text of the argument."""

    def answer(body):
        (tool,) = body["tools"]
        text = tool["function"]["parameters"]["properties"]["city"]["description"]
        assert tool["function"]["parameters"]["properties"]["days"]["minimum"] == 1
        if "c?" in body["messages"][-1]["content"]:
            return said("No tool fits.")(body)
        value = "Oslo" if text == "city of the weather report" else "Rome"
        return called(("weather", {"city": value}))(body)

    server.answer = answer
    page, out = tmp_path / "page.html", tmp_path / "better.json"
    status, text, found = call(
        "--wordings", "3", "--html", str(page), "--out", str(out)
    )
    assert status == 0, text
    assert found["exact"]["accuracy"] == {
        "original": 1,
        "control": 1,
        "r1": 0.25,
        "r2": 0.25,
        "r3": 0.25,
    }
    assert found["exact"]["cases"]["a"] == [1, 1, 0, 0, 0]
    # Cases without a score under the rewordings do not count.
    assert found["exact"]["ss"] == 0
    assert found["replies"] == {TOOL_CALLS: 30, PROSE: 10}
    # Three of four cases break under each of three rewordings: 3 of 6 pairs of texts.
    result = found["result"]
    assert (result["between"], result["within"]) == (pytest.approx(3 / 8), 0)
    assert found["coverage"]["all"] == {"reworded": 3, "texts": 3}
    worst = found["descriptions"][0]
    assert (worst["argument"], worst["texts"][0]["right"]) == ("city", 1)
    assert {one["right"] for one in worst["texts"][1:]} == {0}
    assert "no gain" in text and not out.exists()
    assert "40 requests" in text and "temperature 0" in text
    assert "weather.city" in page.read_text()
    requests = len(server.bodies)
    assert "40 replies from the cache" in call("--wordings", "3")[1]
    assert len(server.bodies) == requests
    assert {body["temperature"] for body in server.bodies} == {0}
    # Another repeat is asked, and answers to the first two are known.
    call("--wordings", "3", "--repeats", "3")
    assert len(server.bodies) == requests + 20


def test_noise_is_no_sensitivity_and_a_copy_is_asked_again(call, server, tmp_path):
    """The answers are right by chance, and no wording is in the requests twice."""
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps(TOOLS))
    rng = random.Random(0)
    server.answer = lambda body: called(
        ("weather", {"city": rng.choice(["Oslo", "Rome"])})
    )(body)
    status, _, found = call("--wordings_from", str(copy), "--option", "concurrent=1")
    assert status == 0 and len(server.bodies) == 24
    assert len({body["seed"] for body in server.bodies}) == 24
    assert found["result"]["within"] > 0
    assert found["result"]["verdict"] == "no verdict"
    assert found["coverage"]["all"] == {"reworded": 0, "texts": 3}


@pytest.fixture
def picky(server, tmp_path):
    """Makes a model that understands one text of a city; returns this setter."""
    lines = [json.dumps(CASES[0] | {"id": f"n{n}"}) for n in range(20)]

    def make(known, write=None):
        def answer(body):
            if "tools" not in body:
                return write(body)
            city = body["tools"][0]["function"]["parameters"]["properties"]["city"]
            value = "Oslo" if city["description"] == known else "Rome"
            return called(("weather", {"city": value}))(body)

        (tmp_path / "cases.jsonl").write_text("\n".join(lines))
        server.answer = answer

    return make


def test_options_of_the_server(call, server):
    server.answer = called(RIGHT)
    given = {
        "reasoning_effort": "low",
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "stop": ["x", 1],
        "seed": 1,
        "max_completion_tokens": 9,
        "user": "7",
        "logprobs": None,
    }
    texts = [f"{k}={v if v == 'low' else json.dumps(v)}" for k, v in given.items()]
    status, text, found = call("--wordings", "1", "--option", *texts)
    assert status == 0 and "reasoning_effort 'low'" in text
    assert found["about"]["parameters"] == {"temperature": 0} | given
    own = {"model", "messages", "tools"}
    assert {k: v for k, v in server.bodies[0].items() if k not in own} == {
        "temperature": 0, **given,
    }  # fmt: skip
    # An option of the user is not left out when the server refuses it.
    server.answer = failed(400, "seed is not supported")
    assert call("--wordings", "2", "--option", "seed=2")[0] == 1


def test_a_gate_for_ci(call, picky, tmp_path):
    picky(GIVEN)
    suite = tmp_path / "suite.xml"
    gate = ("--wordings", "2", "--junit", str(suite), "--fail_above")
    status, text, found = call(*gate, "10")
    assert status == 3 and "above 10" in text
    assert found["result"]["verdict"] == "sensitive"
    assert found["result"]["excess"] == pytest.approx(2 / 3)
    assert ElementTree.parse(suite).getroot().get("failures") == "1"
    assert call(*gate, "70")[0] == 0
    assert ElementTree.parse(suite).getroot().get("failures") == "0"


def test_better_texts_are_written(call, server, picky, tmp_path):
    """The model understands one text of the argument, which only the writer knows."""
    good, out = "name of the place to look up", tmp_path / "better.json"
    texts = ["a city such as Oslo", "target of the search", good]
    picky(good, said(json.dumps({"paraphrases": texts})))
    ask = ("--wordings", "1", "--out", str(out))
    assert "--out: at most 85 more requests" in call(*ask, "--dry_run")[1]
    status, text, found = call(*ask)
    assert status == 0 and found["better"]["gain"]
    assert (
        "gain: 3 texts proposed (refused: 1 has a value of the cases); 1 text" in text
    )
    assert "0.0 as given, 100.0 advised, difference 100.0 [" in text
    changed = (
        f'-            "description": "{GIVEN}"\n+            "description": "{good}"'
    )
    assert f"--- {tmp_path / 'tools.json'}\n+++ {out}\n" in text and changed in text
    before = json.dumps(TOOLS, indent=2)
    assert out.read_text() == before.replace(GIVEN, good) + "\n"
    (prompt,) = [text for body, text in zip(server.bodies, server.prompts, strict=True)
                 if "tools" not in body]  # fmt: skip
    assert GIVEN in prompt and "USER: Oslo, a?" in prompt
    assert 'RIGHT: [{"name": "weather", "arguments": {"city": "Oslo"}}]' in prompt
    assert 'GIVEN: [{"name": "weather", "arguments": {"city": "Rome"}}]' in prompt
    out.unlink()
    # Another model is the writer, and nothing that it proposes is understood.
    picky("", said('{"paraphrases": ["place of interest"]}'))
    text = call("--wordings", "2", *ask[2:], "--writer", "openai:big")[1]
    assert "no gain: 1 text proposed; no text is shown to be better" in text
    assert not out.exists() and "openai:big: 1 requests" in text


def one_call(**function):
    return {"tool_calls": [{"type": "function", "function": {"name": "f"} | function}]}


@pytest.mark.parametrize(
    ("message", "calls", "form"),
    [
        ({"content": '{"name": "f", "arguments": {"x": 1}}'}, [("f", {"x": 1})], TEXT),
        ({"content": 'Sure!\n```json\n[{"name": "f", "parameters": {}}]\n```'},
         [("f", {})], TEXT),
        ({"content": '<tool_call>{"name": "f", "arguments": "{}"}</tool_call> [1] {'},
         [("f", {})], TEXT),
        ({"content": "f(x=1) is what I call"}, [], PROSE),
        ({"content": None}, [], PROSE),
        ({"content": [{"text": '{"function": {"name": "f", "arguments": {}}}'}]},
         [("f", {})], TEXT),
        ({"content": "[" * 100_000}, [], PROSE),
        # Reading from each bracket would take time that is quadratic in the content.
        ({"content": "[" * 1000 + '{"name": "f", "arguments": {}}'}, [], PROSE),
        (one_call(arguments=""), [("f", {})], TOOL_CALLS),
        (one_call(arguments="{x"), [], INVALID),
        ({"tool_calls": [{"function": None}, 3]}, [], INVALID),
        ({"tool_calls": "f"}, [], PROSE),
        (one_call(arguments=None), [("f", {})], TOOL_CALLS),
        (one_call(arguments="null"), [("f", {})], TOOL_CALLS),
        (one_call(), [("f", {})], TOOL_CALLS),
        (one_call(arguments='{"a.b": "c"}'), [("f", {"a.b": "c"})], TOOL_CALLS),
        ({"function_call": {"name": "f", "arguments": ""}}, [("f", {})], TOOL_CALLS),
        ({"function_call": {"name": "f", "arguments": '{"n": 2}'}, "content": None},
         [("f", {"n": 2})], TOOL_CALLS),
        (one_call(arguments="[]"), [], INVALID),
        (one_call(name=None, arguments="{}"), [], INVALID),
    ],
)  # fmt: skip
def test_forms_of_replies(message, calls, form):
    assert parsed(message) == (tuple(calls), form)


def test_calls_of_a_reply_are_bounded():
    one = {"function": {"name": "f", "arguments": "{}"}}
    assert len(parsed({"tool_calls": [one] * 20_000}).calls) == 1_000


def test_in_python(server, tmp_path):
    server.answer = called(RIGHT)
    (tmp_path / "t.json").write_text(json.dumps(TOOLS))
    (tmp_path / "c.jsonl").write_text(json.dumps(CASES[0]) + "\n")
    files = tmp_path / "c.jsonl", tmp_path / "t.json"
    found = jaxaug.sensitivity(*files, "openai:tiny", server.url, wordings=2)
    assert found["exact"]["accuracy"] == {
        "original": 1, "control": 1, "r1": 1, "r2": 1,
    }  # fmt: skip
    assert found["result"]["verdict"] == "too few cases"
    assert found["result"]["cases"] == 1


def test_a_server_that_lies(call, server):
    server.answer = called(("weather", '{"city": "Oslo"'), ("invented", {}))
    status, text, found = call("--wordings", "1")
    assert status == 0 and found["replies"] == {INVALID: 24}
    assert found["exact"]["accuracy"]["original"] == 0
    server.answer = lambda body: (200, {}, b'{"choices": [{"message": 5}]}')
    status, text, _ = call("--wordings", "2", "--option", "retries=0")
    assert status == 1 and "is not a complete chat completion" in text
    server.answer = failed(400, "tools are not supported")
    status, text, _ = call("--wordings", "3", "--option", "retries=0")
    assert status == 1 and "tools are not supported" in text


def test_examples_and_tools_in_the_prompt(call, server):
    server.answer = called(RIGHT)
    status, _, found = call("--shots", "1", "--wordings", "1", "--tools_in_prompt")
    assert status == 0 and [*found["exact"]["cases"]] == ["b", "c", "d"]
    (body,) = [b for b in server.bodies if "b?" in b["messages"][-1]["content"]][:1]
    system, user = body["messages"]
    assert "tools" not in body and user["content"] == "Oslo, b?"
    told = 'USER: Oslo, a?\nCALLS: [{"name": "weather", "arguments": {"city": "Oslo"}}]'
    assert told in system["content"] and '"minimum": 1' in system["content"]


def test_dry_run_and_other_wordings(call, server, tmp_path):
    other = json.loads(json.dumps(TOOLS))
    other[0]["function"]["description"] = "tell how warm it is"
    (tmp_path / "warm.json").write_text(json.dumps(other))
    files = ("--wordings_from", str(tmp_path / "warm.json"))
    status, text, _ = call(*files, "--dry_run")
    assert status == 0 and not server.bodies
    assert "4 cases, 2 wordings" in text and "expected: 24 requests" in text
    server.answer = called(RIGHT)
    assert call(*files)[2]["wordings"] == ["original", "control", "warm"]
    sent = {body["tools"][0]["function"]["description"] for body in server.bodies}
    assert sent == {"find the weather of a city", "tell how warm it is"}
    other[0]["function"]["name"] = "climate"
    del other[0]["function"]["parameters"]["properties"]["days"]
    (tmp_path / "warm.json").write_text(json.dumps(other))
    status, text, _ = call(*files)
    assert status == 1 and "has other tools or arguments than --schema" in text


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--run", "R"), "either --model openai:NAME, or --run RUN"),
        (("--data_dir", "D"), "--data_dir: --in names cases already"),
        (("--shots", "9"), "has 4 cases, and none is left"),
        (("--split", "test"), "--split: --in names cases already"),
        (("--writer", "openai:w"), "--writer: writes texts for --out. Add --out."),
        (("--out", "o", "--writer", "w"), "--writer w: write it openai:NAME"),
        (("--repeats", "0"), "--repeats is 0: give a whole number from 1"),
        (
            ("--fail_above", "nan"),
            "--fail_above is nan: give a finite number from 0 to 100",
        ),
        (("--wordings", "0"), "--wordings is 0: give a whole number from 1"),
        (("--option", "json=true"), "--option json: is for paraphrases"),
        (("--model", "smollm2"), "--model smollm2: write it openai:NAME"),
        (("--option", "stop=[1"), "--option stop=[1: truncated JSON"),
        (("--option", "top_k=NaN"), "--option top_k=NaN: Out of range"),
        (("--option", "reasoning_effort="), "write it as NAME=VALUE"),
        (("--option", "a=1", "a=2"), "--option a: comes twice"),
        (("--option", "temprature=1"), "did you mean 'temperature'?"),
        (("--option", "stream=true"), "--option stream: replies are read whole"),
        (("--option", "seed=1", "temperature=1"), "--option seed=1: one seed"),
    ],
)
def test_mistakes_of_arguments(call, server, more, text):
    status, told, _ = call(*more)
    assert status == 1 and text in told and not server.bodies


def test_dialogues_under_the_variants_of_sgdx(call, server, sgd_tree, tmp_path):
    """A server that calls nothing is right about empty states alone."""
    server.answer = said("Hello.")
    out = tmp_path / "better.json"
    data = ("--data_dir", str(sgd_tree), "--out", str(out))
    status, text, found = call(*data, files=False)
    assert status == 0 and not out.exists(), text
    assert found["wordings"] == ["original", "control", "v1", "v2", "v3", "v4", "v5"]
    empty = sum(row[0] for row in found["fuzzy"]["cases"].values())
    assert 0 <= empty < len(found["fuzzy"]["cases"]) and "fuzzy (JGA)" in text
    asked = [body["tools"] for body in server.bodies if "tools" in body]
    names = {tools[0]["function"]["name"][-2:] for tools in asked}
    assert {"_1", "11", "15"} <= names  # As in SGD-X, the digit of the variant follows.


def test_a_tracker(call, trained):
    run, data = trained
    status, text, found = call(
        "--run", str(run), "--data_dir", str(data), "--limit", "1", "--wordings", "1",
        files=False, model=False,
    )  # fmt: skip
    assert status == 0, text
    assert found["replies"].keys() == {TOOL_CALLS} and found["wordings"] == [
        "original",
        "control",
        "r1",
    ]
    assert found["about"]["temperature"] is None and found["result"]["within"] == 0
    for option in (("--repeats", "2"), ("--seed", "1"), ("--option", "timeout=1")):
        more = ("--run", str(run), *option)
        status, text, _ = call(*more, files=False, model=False)
        assert status == 1 and f"{option[0]}: " in text
    # The tracker was asked once about each wording; the control is a copy.
    assert found["replies"][TOOL_CALLS] == 2 * 3 * found["result"]["cases"]
