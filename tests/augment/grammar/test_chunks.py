"""Tests of chunking: noun groups, verbs, and closed-class words."""

import pytest

from jaxaug.augment.grammar import patterns, vocabulary
from jaxaug.augment.grammar.chunks import WORD, chunks
from jaxaug.augment.language.inflection import PARTICIPLE


def written(text: str, is_verb_phrase: bool = False) -> str:
    return " | ".join(
        chunk.text
        + ("" if chunk.kind == WORD else f" {chunk.cls}")
        + (f" {chunk.form}" if chunk.form else "")
        for chunk in chunks(text, is_verb_phrase)
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("city where the hotel is located",
         "city CITY | where | the hotel SITE | is | located LOCATE participle"),
        ("waiting time for the cab", "waiting time TIME | for | the cab VEHICLE"),
        ("time at which bags are still kept",
         "time TIME | at | which | bags THING | are | still kept OTHER participle"),
        ("where does the walk begin",
         "where | does | the walk THING | begin START base"),
        ("number of seats to reserve",
         "number COUNT | of | seats ITEM | to | reserve RESERVE base"),
        ("phone number of the vet", "phone number PHONE | of | the vet PERSON"),
        ("album the song belongs to",
         "album WORK | the song WORK | belongs BELONG third | to"),
        ("whether the bar has live music",
         "whether | the bar SITE | has HAVE third | live music MASS"),
        ("is the parcel insured", "is | the parcel THING | insured OTHER participle"),
        ("is the produce organic", "is | the produce THING | organic THING"),
        ("whether it can still be read",
         "whether | it | can | still THING | be | read GET participle"),
        ("farm that grows the crops",
         "farm SITE | that | grows OTHER third | the crops THING"),
        ("total cost of the stay", "total cost MONEY | of | the stay EVENT"),
        ("languages the applicant should speak",
         "languages LANGUAGE | the applicant PERSON | should | speak OTHER base"),
        ("number of copies available",
         "number COUNT | of | copies THING | available THING"),
    ],
)  # fmt: skip
def test_slots(text: str, parts: str) -> None:
    assert written(text) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("book a room", "book RESERVE base | a room ITEM"),
        (
            "find and book hotels",
            "find FIND base | and | book RESERVE base | hotels SITE",
        ),
        (
            "service for searching and booking houses",
            "service APP | for | searching FIND gerund | and | "
            + "booking RESERVE gerund | houses SITE",
        ),
        (
            "manage accounts and transfer money",
            (
                "manage OTHER base | accounts THING | and | transfer SEND base | money "
                "MASS"
            ),
        ),
        ("gild the frame", "gild OTHER base | the frame THING"),
        (
            "returns a list of orders",
            "returns OTHER third | a list THING | of | orders EVENT",
        ),
        (
            "does the company pay for it",
            "does | the company SITE | pay for BUY base | it",
        ),
        (
            "search for flights by city and date",
            "search for FIND base | flights EVENT | by | city CITY | and | date DATE",
        ),
    ],
)
def test_orders(text: str, parts: str) -> None:
    assert written(text, is_verb_phrase=True) == parts


@pytest.mark.parametrize("kind", ["NOBODY", "V.never", "BUY.past tense", "="])
def test_a_pattern_with_an_unknown_class_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=r"not a (class|variable)"):
        patterns.compiled("{x:" + kind + "}")


def test_verbs_of_the_tagger_are_verbs() -> None:
    text = "where the guest boards the ship"
    verbs = [c for c in chunks(text, verbs=frozenset(["boards"])) if c.form]
    assert [(c.text, c.base, c.form) for c in verbs] == [("boards", "board", "third")]
    assert not [
        c for c in chunks("number of boards", verbs=frozenset(["boards"])) if c.form
    ]


def test_an_adverb_stays_with_its_verb() -> None:
    verb = chunks("whether bags are still accepted")[-1]
    assert verb.inflected("admit", "gerund") == ("still", "admitting")


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("touched", "touch"),
        ("destroyed", "destroy"),
        ("adorned", "adorn"),
        ("sealed", "seal"),
        ("raised", "raise"),
        ("notarized", "notarize"),
        ("climbed", "climb"),
        ("pruned", "prune"),
        ("typed", "type"),
        ("dangled", "dangle"),
    ],
)
def test_an_unknown_verb_has_the_likely_base(word: str, base: str) -> None:
    assert vocabulary.any_verb(word, PARTICIPLE)[0] == base


def test_a_question_ends_with_its_adjective_and_what_follows_it() -> None:
    words = ["is", "the", "toy", "safe", "for", "children"]
    found = chunks(" ".join(words), True, adjectives={"safe"})
    assert [one.text for one in found] == ["is", "the toy", "safe", "for", "children"]
