"""The table of rewordings, and the filter that compares whole sentences by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment.judge import verdicts
from jaxaug.augment.plain import faithful, wordings

RULES = wordings.table().rules


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_has_an_example_and_a_sentence_that_stays(rule):
    assert wordings.apply_rule(rule, rule.example) == rule.result
    assert wordings.apply_rule(rule, rule.stays) is None


def test_rules_and_words_combine():
    found = {one.text: one.steps for one in wordings.reword("He starts on Monday.")}
    assert found == {
        "On Monday, he starts.": ("front-time",),
        "He begins on Monday.": ("starts -> begins",),
        "On Monday, he begins.": ("front-time", "starts -> begins"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "I had a good start.",  # The noun.
        # If "tomorrow" came first, it would modify "remind".
        "Remind me to call her tomorrow.",
        "He asked me when the bus leaves.",
        "It rained. We left when it stopped.",
        "Anna met Ben.",
        "",
        "?!",
    ],
)
def test_doubtful_texts_stay(text):
    assert wordings.reword(text) == []


@given(st.text(max_size=60))
def test_any_text_is_read(text):
    for one in wordings.reword(text, 5):
        assert one.text and one.steps
    assert isinstance(faithful.doubts(text, text[::-1]), tuple)


SOURCE = "The app crashes when I open the settings."


@pytest.mark.parametrize(
    ("source", "candidate", "strict", "light"),
    [
        (SOURCE, "When I open the settings, the app crashes.", (), ()),
        (SOURCE, SOURCE.upper(), ("copy", "same_words"), ("copy", "same_words")),
        (SOURCE, "An app crashes when I open settings.",
         ("same_words",), ("same_words",)),
        (SOURCE, "The app crashes when you open the settings.",
         ("persons", "words"), ("persons",)),
        (SOURCE, "Opening the settings makes the app crash on me.",
         ("words",), ()),
        (SOURCE, "The settings crash when I open the app.", ("words",), ()),
        (SOURCE, "Does the app crash when I open the settings?",
         ("mark", "words"), ("mark",)),
        ("The dog bit the man.", "The man bit the dog.", ("order",), ()),
        ("Can you pick up the kids?", "Pick up the children.", (), ()),
        ("Please turn off the light.", "Turn the light off.", (), ()),
        ("It lasts up to 12 hours.", "It lasts up to 12 days.", ("words",), ()),
        ("It lasts 12 hours.", "It lasts 10 hours.",
         ("lost_value", "added_number", "words"), ("lost_value", "added_number")),
        ("I don't eat meat.", "I eat meat.",
         ("changed_negation", "words"), ("changed_negation",)),
        ("We couldn't pay.", "We could not pay.", ("same_words",), ("same_words",)),
    ],
)  # fmt: skip
def test_reasons(source, candidate, strict, light):
    assert faithful.reasons(source, candidate) == light
    assert (*light, *faithful.doubts(source, candidate)) == strict


@pytest.mark.parametrize(
    ("source", "candidate", "probability", "reasons"),
    [
        (SOURCE, "When I open the settings, the app crashes.", 0.5, ()),
        (SOURCE, "When I open the settings, the app crashes.", 0.49, ("unfaithful",)),
        ("Delete it.", "I want it to be deleted.", 0.84, ("persons",)),
        ("I want a refund.", "I'd like to be refunded.", 0.84, ("unfaithful",)),
        ("I want a refund.", "I'd like to be refunded.", 0.85, ()),
        # The judge overlooks replaced words.
        ("I lost my blue bag.", "I lost my red bag.", 0.99, ("words",)),
    ],
)
def test_sure_judgments_excuse_words(
    source, candidate, probability, reasons, monkeypatch
):
    monkeypatch.setattr(
        verdicts, "faithful", lambda pairs, *_: np.full(len(pairs), probability)
    )
    ((found, value),) = faithful.judged([source], [candidate], [False], True)
    assert found == reasons
    assert value == (0 if reasons in [("persons",), ("words",)] else probability)
