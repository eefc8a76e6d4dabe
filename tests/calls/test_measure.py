"""Figures by brute force, and which descriptions break."""

import statistics

import numpy as np
import pytest

from jaxaug.calls import better, measure
from jaxaug.calls.cases import Case, Source
from jaxaug.calls.match import Call, Expected
from jaxaug.calls.models import TOOL_CALLS, Reply
from jaxaug.formats.json_tools import function_tool, object_schema, string_property
from jaxaug.schemas import read_tools, tools_of


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


def test_figures_by_brute_force():
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 3, (5, 12)) / 2
    scores[1:, 4] = 0.0
    found = measure.figures(scores, [f"d{n // 3}" for n in range(12)])
    others = scores[1:].T.tolist()
    defined = [
        statistics.stdev(row) / statistics.mean(row) for row in others if any(row)
    ]
    assert found["original"].value == pytest.approx(scores[0].mean())
    assert found["reworded"].value == pytest.approx(scores[1:].mean())
    assert found["ss"].value == pytest.approx(statistics.mean(defined))
    assert found["ss_all"].value == pytest.approx(sum(defined) / 12)
    for one in found.values():
        assert 0 <= one.low < one.value < one.high


def test_one_group_has_no_interval_and_one_rewording_no_sensitivity():
    found = measure.figures(np.array([[1.0, 0.0], [1.0, 1.0]]), ["a", "a"])
    assert found["original"] == measure.Figure(0.5, None, None)
    assert found["ss"] == measure.Figure(None, None, None)


def test_descriptions_that_break():
    wordings = {
        "original": [case("a"), case("b")],
        "r1": [case("a", "place to go"), case("b", "place to go")],
        "r2": [case("a", "target"), case("b", "target")],
    }
    replies = {
        "original": [reply("Oslo"), reply("Rome")],
        "r1": [reply("Oslo"), reply("oslo")],
        "r2": [reply("Rome"), reply(None)],
    }
    found = measure.measure(wordings, replies)
    assert found.scores["exact"].tolist() == [[1, 0], [1, 1], [0, 0]]
    argument, itself = found.descriptions
    options = (("city of the trip", 0.5), ("place to go", 1.0), ("target", 0.0))
    assert (argument.tool, argument.argument, argument.options) == ("go", "to", options)
    assert argument.best[0] == "place to go" and argument.worst[0] == "target"
    # Of six times, the tool was not called once.
    assert itself.options == (("travel", pytest.approx(5 / 6)),)


def test_better_texts_are_checked_on_other_cases():
    found = read_tools([tool()], "tools")
    given = tuple(tools_of(found, found.schema))
    names = "abcdef"
    own = [Case(n, n, case(n).messages, given, case(n).expected) for n in names]
    asked = {"original": own, "r1": [case(n, "place to go") for n in names]}
    replies = {"original": [reply("Rome")] * 6, "r1": [reply("Oslo")] * 6}

    def model(cases, done=None):
        texts = [one.tools[0]["function"]["parameters"]["properties"] for one in cases]
        assert [one["to"]["description"] for one in texts] == ["place to go"] * 3
        assert [one.id for one in cases] == ["b", "d", "f"]
        return [reply("Oslo"), reply("Oslo"), reply("Rome")]

    made = better.find(Source(found, own), asked, replies, model, list)
    assert made.texts == {("go", "to"): "place to go"}
    assert (made.cases, made.given, made.advised) == (3, 0, pytest.approx(2 / 3))
    assert made.difference.value == pytest.approx(2 / 3)
    (service,) = made.schema.services
    assert service.slots[0].description == "place to go" and service.name == "go"
    replies["r1"] = replies["original"]
    none = better.find(Source(found, own), asked, replies, model, list)
    assert none.texts == {} and none.given == none.advised == 0
