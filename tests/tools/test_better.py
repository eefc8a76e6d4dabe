"""Better descriptions: chosen on half of the cases, tested on the other half."""

from dataclasses import replace

import numpy as np
import pytest

from jaxaug.formats.json_tools import function_tool, object_schema, string_property
from jaxaug.tools import better, read_tools, tools_of
from jaxaug.tools.better import KNOWN, LEAK, LONG, Failure, Target
from jaxaug.tools.cases import Case, Source
from jaxaug.tools.match import ABSENT, Call, Expected
from jaxaug.tools.models import TOOL_CALLS, Reply

CITY = "city of the trip"
TOOL = function_tool(
    "go",
    "travel",
    object_schema(
        {
            "to": string_property(CITY, ()),
            "by": string_property("means of transport", ("train", "car")),
        }
    ),
)


def source_of(number):
    """Returns cases whose right call goes to Oslo."""
    found = read_tools([TOOL], "tools")
    offered, expected = tuple(tools_of(found, found.schema)), Expected(
        "go", {"to": ("Oslo",)}
    )  # fmt: skip
    return Source(
        found,
        [
            Case(f"{n}", f"{n}", ({"role": "user", "content": "?"},), offered,
                 (expected,))
            for n in range(number)
        ],
    )  # fmt: skip


def city_of(case):
    return case.tools[0]["function"]["parameters"]["properties"]["to"]["description"]


def reply(is_right):
    return Reply((Call("go", {"to": "Oslo" if is_right else "Rome"}),), TOOL_CALLS)


def reworded(cases, text):
    texts = {("go", "to"): text}
    source = source_of(len(cases))
    return better.tools.with_tools(source, better.tools.advised(source, texts))


def test_rewordings_are_tested_on_other_cases():
    source = source_of(20)
    asked = dict.fromkeys(("original", "control"), source.cases)
    asked["r1"] = reworded(source.cases, "place to go")
    replies = {name: [[reply(name == "r1")] * 20] for name in asked}
    right = [True] * 9 + [False]

    def ask(cases, name):
        assert {city_of(one) for one in cases} == {"place to go"}
        assert [one.id for one in cases] == [str(n) for n in range(1, 20, 2)]
        return [[reply(one) for one in right]]

    made = better.find_better(source, asked, replies, ask)
    assert made.texts == {("go", "to"): "place to go"} and made.is_gain
    assert (made.cases, made.given, made.advised) == (10, 0, pytest.approx(0.9))
    assert made.difference.value == pytest.approx(0.9)
    (service,) = made.schema.services
    assert service.slots[0].description == "place to go" and service.name == "go"
    right[:8] = [False] * 8  # One right case of ten may be chance.
    assert not better.find_better(source, asked, replies, ask).is_gain
    replies["r1"] = replies["original"]
    same = better.find_better(source, asked, replies, ask)
    assert same.texts == {} and same.given == same.advised == 0 and not same.is_gain


def test_proposals_of_a_writer_that_sees_failing_cases():
    source, seen = source_of(20), []
    asked = dict.fromkeys(("original", "control"), source.cases)
    replies = {name: [[reply(False)] * 20] for name in asked}

    def write(target):
        seen.append(target)
        return ["city such as Oslo", "the target", "where to go"]

    def ask(cases, name):
        names.append(name)
        return [[reply(city_of(one) == "where to go") for one in cases]]

    names = []
    made = better.find_better(source, asked, replies, ask, write)
    assert names == ["proposal 1", "proposal 2", "advised"]
    assert made.texts == {("go", "to"): "where to go"} and made.is_gain
    assert (made.proposed, made.refused) == (3, {LEAK: 1})
    # Only the failing description is rewritten, with cases of the first half.
    (target,) = seen
    assert (target.key, target.text) == (("go", "to"), CITY)
    assert [one.case.id for one in target.failures] == [
        str(n) for n in range(0, 20, 2)
    ]  # fmt: skip
    assert better.most_requests(source.cases, 1) == 3 * 10 + 10 + 5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("the town, such as Oslo", LEAK),
        ("the town, such as OSLO-S", LEAK),
        ("a town near Bergen", LEAK),
        ("a town near new  york", LEAK),
        ("at most 31 letters", LEAK),
        ("例如北京市", LEAK),
        # A part of a word, a part of a value, and values that the tool has.
        ("the Oslofjord", ""),
        ("a new town", ""),
        ("city to reach by train or car", ""),
        (" ", KNOWN),
        ("City of the trip", KNOWN),
        ("travel", KNOWN),
        ("word " * 61, LONG),
        ("x" * 601, LONG),
    ],
)
def test_proposals_are_checked(text, reason):
    (case,) = source_of(1).cases
    accepted = {
        "to": ("Oslo", "new york", ABSENT),
        "by": ("train",),
        "n": ({"m": (31,)},),
    }
    case = replace(case, expected=(Expected("go", accepted),))
    wrong = Reply(
        (Call("go", {"to": ["near Bergen", None], "by": "北京"}),), TOOL_CALLS
    )
    target = Target(("go", "to"), CITY, [Failure(case, wrong)])
    assert better.fault(text, target) == reason


def test_noise_is_no_gain():
    """A server that does not read the wording; a writer proposes three texts."""
    source, gains = source_of(40), 0
    asked = dict.fromkeys(("original", "control"), source.cases)
    asked["r1"] = reworded(source.cases, "place to go")
    texts = ["the target", "where to go", "place of arrival"]
    for seed in range(100):
        rng = np.random.default_rng(seed)

        def draw(cases, _, rng=rng):
            return [[reply(one) for one in rng.random(len(cases)) < 0.8]]

        replies = {name: draw(source.cases, name) for name in asked}
        made = better.find_better(source, asked, replies, draw, lambda _: texts)
        gains += made.is_gain
    assert gains <= 5


def test_a_diff():
    before, after = '{\n "a": 1,\n "b": 2\n}\n', '{\n "a": 1,\n "b": 3\n}\n'
    assert better.diff(before, after, ("t.json", "u.json")).split("\n") == [
        "--- t.json", "+++ u.json", "@@ -1,4 +1,4 @@",
        " {", '  "a": 1,', '- "b": 2', '+ "b": 3', " }",
    ]  # fmt: skip
