"""Verdicts, coverage, and which descriptions break."""

import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from jaxaug.formats.json_tools import function_tool, object_schema, string_property
from jaxaug.tools import measure, report
from jaxaug.tools.cases import Case
from jaxaug.tools.match import Call, Expected
from jaxaug.tools.models import TOOL_CALLS, Reply


def tool(text="city of the trip"):
    return function_tool(
        "go", "travel", object_schema({"to": string_property(text, ())})
    )


def case(name, text="city of the trip", want="Oslo"):
    message = {"role": "user", "content": name}
    return Case(
        name, name, (message,), (tool(text),), (Expected("go", {"to": (want,)}),)
    )


def reply(value):
    return Reply((Call("go", {"to": value}),) if value else (), TOOL_CALLS)


def wordings_of(**texts):
    """Cases a and b under each text; the control repeats the original."""
    return {name: [case("a", text), case("b", text)] for name, text in texts.items()}


BLIND = {"original": "city of the trip", "control": "city of the trip"}


def test_descriptions_that_break():
    asked = wordings_of(**BLIND, r1="place to go", r2="target")
    replies = {
        "original": [[reply("Oslo"), reply("Rome")]],
        "control": [[reply("Oslo"), reply("Oslo")]],
        "r1": [[reply("Oslo"), reply("oslo")]],
        "r2": [[reply("Rome"), reply(None)]],
    }
    found = measure.measure(asked, replies)
    assert found.scores["exact"][:, 0].tolist() == [[1, 0], [1, 1], [1, 1], [0, 0]]
    argument, itself = found.descriptions
    # The original and the control have one text, so that 3 of 4 answers were right.
    options = (("city of the trip", 0.75), ("place to go", 1.0), ("target", 0.0))
    assert (argument.tool, argument.argument, argument.options) == ("go", "to", options)
    assert argument.best[0] == "place to go" and argument.worst[0] == "target"
    assert (argument.cases, itself.cases) == (2, 1 + 1)
    # Of eight times, the tool was not called once. Its text is always the same.
    assert itself.options == (("travel", pytest.approx(7 / 8)),) and itself.p is None
    # SS of the cases (1, 0) and (1, 0) under r1 and r2.
    assert found.ss["exact"] == pytest.approx(math.sqrt(2))
    assert found.flips == (None, 0.5, 0.5, 0.5)
    covered = found.coverage
    assert (covered.reworded["all"], covered.texts["all"]) == (1, 2)


def test_a_description_that_costs_is_named():
    """The argument's text matters, the tool's text and chance do not."""
    rng = np.random.default_rng(0)
    names, cases = [f"c{n}" for n in range(30)], {}
    texts = {**BLIND, "r1": "place to go", "r2": "target"}
    for name, text in texts.items():
        cases[name] = [case(n, text) for n in names]
    right = {name: rng.random((2, 30)) < 0.9 for name in texts}
    right["r2"] = rng.random((2, 30)) < 0.4
    replies = {
        name: [[reply("Oslo" if one else "Rome") for one in row] for row in rows]
        for name, rows in right.items()
    }
    found = measure.measure(cases, replies)
    shown = [(one.argument, one.worst[0]) for one in found.descriptions if one.is_shown]
    assert shown == [("to", "target")]
    assert found.result.verdict == measure.SENSITIVE and found.result.wording == "r2"
    assert found.result.excess.low > 0
    assert report.failure(found, 0.01) and not report.failure(found, 0.9)


@pytest.mark.parametrize(
    ("number", "reworded", "verdict"),
    [
        (109, "place to go", measure.TOO_FEW),
        (110, "place to go", measure.NOT_SHOWN),
        (110, "city of the trip", measure.NOT_REWORDED),
    ],
)
def test_a_model_that_is_always_right(number, reworded, verdict):
    names = [f"c{n}" for n in range(number)]
    asked = {
        name: [case(n, text) for n in names]
        for name, text in {**BLIND, "r1": reworded}.items()
    }
    found = measure.measure(asked, {n: [[reply("Oslo")] * number] for n in asked})
    assert found.result.verdict == verdict
    assert found.result.p == 1 and found.result.excess.value == 0
    assert report.failure(found, 0) == ""
    (skip,) = [verdict != measure.NOT_SHOWN]
    suite = ElementTree.fromstring(report.junit(found, "title", 0))
    assert (suite.get("skipped"), suite.get("failures")) == (str(int(skip)), "0")


def test_answers_that_change_in_both_directions_name_no_wording():
    """Each of two wordings is right about half of the cases."""
    names = [f"c{n}" for n in range(40)]
    asked = {
        name: [case(n, text) for n in names]
        for name, text in {**BLIND, "r1": "place to go"}.items()
    }
    even, odd = ([reply("Oslo" if n % 2 == k else "Rome") for n in range(40)]
                 for k in (0, 1))  # fmt: skip
    replies = {"original": [even] * 2, "control": [even] * 2, "r1": [odd] * 2}
    found = measure.measure(asked, replies)
    assert found.result.verdict == measure.SENSITIVE and found.result.p_loss > 0.5
    assert "no wording is shown to be right more" in report.sentence(found)


def test_rare_mistakes_by_chance_leave_0_in_the_interval():
    """Most samples lack the rare cases that balance small negative excesses."""
    names, found = ["original", "control", "r1", "r2", "r3", "r4", "r5"], []
    covered = measure.Coverage({"all": 1}, {"all": 1})
    for seed in range(10):
        scores = (np.random.default_rng(seed).random((7, 2, 50)) < 0.95).astype(float)
        one = measure.result(names, scores, np.arange(50), covered)
        found.append(one.excess.low <= 0 <= one.excess.high)
    assert all(found)


def test_texts_inside_arguments_count():
    def nested(text, inside):
        one = tool(text)
        properties = one["function"]["parameters"]["properties"]
        properties["via"] = {
            "type": "array",
            "description": "stops",
            "items": {
                "properties": {"description": {"description": inside}},
                "default": {"description": "no text of ours"},
            },
        }
        return replace(case("a"), tools=(one,))

    long = "the name of a stop " * 6
    asked = {"original": [nested("city", long)], "r1": [nested("town", long)]}
    found = measure.coverage(asked)
    assert found.texts == {
        "all": 4, "tools": 1, "arguments": 2, "inside arguments": 1,
        "1 to 5 words": 3, "over 20 words": 1,
    }  # fmt: skip
    assert {k: v for k, v in found.reworded.items() if v} == {
        "all": 1, "arguments": 1, "1 to 5 words": 1,
    }  # fmt: skip
