"""SDT-ind text: golden examples, which turns are shown, inversion, wrong input."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data.demonstrations import Demonstration
from jaxaug.data.schema import Schema
from jaxaug.data.sgd import Dialogue, Frame, State, Turn
from jaxaug.feed import cache, parallel
from jaxaug.formats.sdt_ind import SDTIndFormatter, SDTIndOptions, said_in
from jaxaug.formats.t5dst import parse, slot_of
from tests.formats.test_t5dst import SERVICE

SHOWN = Demonstration(
    "Events_1",
    (
        ("USER", "A  match"),
        ("SYSTEM", "In Rome?"),
        ("USER", "Yes"),
        ("SYSTEM", "How many?"),
        ("USER", "Just 1, not 12 for $2,500"),
    ),
    (("city", "Rome"), ("seats", "1")),
    "NONE",
)
OPTIONS = SDTIndOptions(demonstrations=(SHOWN,))


def examples(values, options=OPTIONS, epoch=0):
    frame = Frame("Events_1", State("NONE", (), values))
    dialogue = Dialogue("1_1", ("Events_1",), (Turn("USER", "Music", (frame,)),))
    return list(SDTIndFormatter(Schema((SERVICE,)), options).dialogue(dialogue, epoch))


def test_golden_text():
    found = examples({"city": ("Oslo", "Oslo City"), "kind": ("Team Sports",)})
    context = "[context] [user] music"
    assert [(item.inputs, item.targets) for item in found] == [
        (
            f"[example] [system] in rome? [user] yes [slot] city=rome {context}",
            "oslo | oslo city",
        ),
        (
            (
                "[example] [user] a match [system] in rome? [user] yes [system] how many? "
                "[user] just 1, not 12 for $2,500 [slot] kind=none of possible values a) music b) none "
                f"c) team sports {context}"
            ),
            "c",
        ),
        (
            (
                "[example] [user] just 1, not 12 for $2,500 [slot] seats=a of possible values a) 1 b) 2 "
                f"{context}"
            ),
            "none",
        ),
    ]
    assert [slot_of(item.key) for item in found] == ["city", "kind", "seats"]


def test_case_is_kept_where_asked():
    options = dataclasses.replace(OPTIONS, lowercase=False)
    found = examples({"city": ("Oslo",)}, options)[0]
    assert found.inputs == (
        "[example] [system] In Rome? [user] Yes [slot] city=Rome [context] [user] Music"
    )
    assert found.targets == "Oslo"


@pytest.mark.parametrize(
    ("value", "turns"),
    [
        ("match", SHOWN.turns[:1]),
        ("rome", SHOWN.turns[1:3]),
        ("2", SHOWN.turns),  # 12 and 2,500 are other numbers
        ("many", SHOWN.turns[3:]),
        ("a+", SHOWN.turns),
    ],
)
def test_the_turns_that_say_a_value(value, turns):
    assert said_in(SHOWN, value) == turns


def test_shuffled_order_changes_with_the_epoch_only():
    options = dataclasses.replace(OPTIONS, order="shuffled")
    values = {"kind": ("Team Sports",), "seats": ("2",)}
    assert examples(values, options) == examples(values, options)
    prompts, orders = set(), set()
    for epoch in range(12):
        found = examples(values, options, epoch)
        orders.add(tuple(slot_of(item.key) for item in found))
        parsed = {}
        for item in found:
            prompts.add(item.inputs)
            parsed |= parse(item.targets, item.key).slot_values
        assert parsed == values
    assert len(orders) > 3 and len(prompts) > 6


WORDS = st.text(st.characters(categories=["Ll", "Nd"]), min_size=1)


@given(st.lists(WORDS, min_size=1, max_size=3).filter(lambda v: v != ["none"]))
def test_parse_inverts_format(values):
    found = examples({"city": tuple(values)})[0]
    assert parse(found.targets, found.key).slot_values == {"city": tuple(values)}


def test_what_cannot_be_shown_is_an_error():
    with pytest.raises(UserError, match="SDT-ind option order='any': use one of"):
        SDTIndOptions(order="any")
    with pytest.raises(UserError, match="'Events_1' has no example dialogue.*DEMONSTR"):
        examples({}, SDTIndOptions(demonstrations=()))
    wrong = dataclasses.replace(SHOWN, slot_values=(("citi", "Rome"),))
    with pytest.raises(UserError, match="'citi' is no slot of service 'Events_1'"):
        examples({}, SDTIndOptions(demonstrations=(wrong,)))
    with pytest.raises(UserError, match="slot 'when' is no slot of service 'Events_1'"):
        examples({"when": ("now",)})


def test_a_demonstration_is_no_example_and_variants_have_their_names(
    sgd_tree, tmp_path
):
    train = parallel.Corpus(str(sgd_tree), "train")
    built = cache.build(cache.Recipe(train, SDTIndOptions()), 1, tmp_path)
    assert {item.dialogue_id for item in built.read()} == {"2_00000"}
    variant = parallel.Corpus(str(sgd_tree), "test", "v2")
    built = cache.build(cache.Recipe(variant, SDTIndOptions()), 1, tmp_path)
    trips = [item for item in built.read() if item.service == "Trains_12"]
    assert any("[slot] city_v2=oslo [context]" in item.inputs for item in trips)


def test_format_writes_what_the_cache_holds(sgd_tree, tmp_path):
    out = tmp_path / "x.tsv"
    command = ["format", "sdtind", "--data_dir", str(sgd_tree), "--split", "dev"]
    assert main([*command, "--workers", "1", "--out", str(out)]) == 0
    corpus = parallel.Corpus(str(sgd_tree), "dev")
    found = cache.build(cache.Recipe(corpus, SDTIndOptions()), 1, tmp_path).read()
    rows = [line.split("\t") for line in out.read_text().splitlines()]
    assert rows[0] == ["inputs", "targets", "dialogue_id", "turn", "service", "slot"]
    assert [(row[0], row[1], row[5]) for row in rows[1:]] == [
        (item.inputs, item.targets, slot_of(item.key)) for item in found
    ]
