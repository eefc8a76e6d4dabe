"""EDA, token substitution, pervasive dropout, and SwitchOut."""

import collections
import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from jaxaug.augment.language import lexicon, words
from jaxaug.augment.schemes import sentences
from jaxaug.augment.schemes.sentences import METHODS
from jaxaug.core.errors import UserError

TEXT = "Find a cheap hotel in the city, for 2 people or {count} guests."
PERSONA = "i have two dogs and i love to cook."


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def many(method, text, count=200, **options) -> list[str]:
    return [method(text, rng(seed), **options) for seed in range(count)]


def bag(text: str) -> collections.Counter:
    return collections.Counter(text.lower().replace(".", "").replace(",", "").split())


def test_the_methods_have_names():
    assert list(METHODS) == [
        "eda", "token_substitution", "pervasive_dropout", "switch_out", "typos",
        "disfluency",
    ]  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_equal_seeds_give_equal_texts(name):
    first, again = many(METHODS[name], TEXT, 20), many(METHODS[name], TEXT, 20)
    assert first == again and len(set(first)) > 3


@pytest.mark.parametrize("name", METHODS)
@given(text=st.text(max_size=40), seed=st.integers(0, 1000))
def test_any_text_stays_a_text(name, text, seed):
    changed = METHODS[name](text, rng(seed))
    assert bool(changed.split()) == bool(text.split())


@pytest.mark.parametrize("name", METHODS)
def test_numbers_placeholders_and_protected_texts_stay(name):
    heavy = {
        "eda": {"replace": 1.0, "insert": 0.5, "swap": 0.5, "delete": 0.9},
        "token_substitution": {"rate": 1.0},
        "pervasive_dropout": {"rate": 0.95},
        "switch_out": {"temperature": 100.0},
        "typos": {"rate": 1.0},
        "disfluency": {"rate": 1.0},
    }[name]
    text = "The Round Trip fare of flight 12 for <name> and 3.50 dollars"
    for changed in many(METHODS[name], text, protected=("round trip",), **heavy):
        for part in ("Round Trip", "12", "<name>", "3.50"):
            assert part.lower() in changed.lower(), changed


@pytest.mark.parametrize("name", METHODS)
def test_form_of_the_sentence_stays(name):
    for changed in many(METHODS[name], "Search for a movie, by its name.", 60):
        assert changed.endswith(".") and not changed.endswith("..")
        assert changed[0].isupper() and changed.split()[0][1:].islower()


def test_eda_draws_its_four_operations_equally():
    before, kinds = bag(TEXT), collections.Counter()
    for changed in many(sentences.eda, TEXT, 800, insert=0.1, swap=0.1):
        after, size = bag(changed), sum(bag(changed).values())
        if after == before:
            kinds["swap"] += 1
        elif size < sum(before.values()) and not after - before:
            kinds["delete"] += 1
        elif not before - after:
            kinds["insert"] += 1
        else:
            kinds["replace"] += 1
    assert set(kinds) == {"swap", "delete", "insert", "replace"}
    assert all(150 < count < 250 for count in kinds.values()), kinds


def test_only_operations_with_a_rate_are_drawn():
    none = {"replace": 0, "insert": 0, "swap": 0, "delete": 0}
    for changed in many(sentences.eda, TEXT, 50, **(none | {"swap": 0.05})):
        assert bag(changed) == bag(TEXT) and changed != TEXT
    for changed in many(sentences.eda, TEXT, 50, **(none | {"delete": 0.01})):
        assert not bag(changed) - bag(TEXT) and bag(changed) != bag(TEXT)
    with pytest.raises(UserError, match="all four rates are 0"):
        sentences.eda(TEXT, rng(), **none)


def test_the_number_of_replaced_words_follows_the_rate():
    text = "Price of the hotel room and the flight ticket"  # 9 words, 5 to replace
    for rate, count in ((0.1, 1), (0.25, 2), (0.34, 3), (1.0, 5)):
        for changed in many(sentences.token_substitution, text, 30, rate=rate):
            # `ticket price` replaces one word by two, so the removed words are counted.
            gone = bag(text) - bag(changed)
            assert sum(gone.values()) == count, changed


def test_replacements_are_synonyms_in_the_form_of_the_word():
    for changed in many(sentences.token_substitution, "Cities and prices", 30):
        assert changed in {
            "Towns and prices", "Municipalities and prices", "Cities and costs",
            "Cities and charges",
        }  # fmt: skip
    found = set(many(sentences.token_substitution, "a HOTEL", 30))
    assert found == {"an INN", "a LODGE"}


def test_a_word_that_comes_twice_is_replaced_twice():
    found = set(many(sentences.token_substitution, "hotel to hotel"))
    assert found == {"inn to inn", "lodge to lodge"}


def test_words_without_synonyms_stay():
    for text in ("", "the of and", "Xyzzy 12", "-- ! --"):
        assert set(many(sentences.token_substitution, text, 5)) == {text}
    assert sentences.token_substitution(TEXT, rng(), rate=0.0) == TEXT


def test_dropout_leaves_out_words_at_its_rate_but_never_all():
    text = " ".join(["word"] * 20)
    lengths = [
        len(t.split()) for t in many(sentences.pervasive_dropout, text, rate=0.3)
    ]
    assert np.mean(lengths) == pytest.approx(14, abs=0.6)
    for changed in many(sentences.pervasive_dropout, PERSONA, rate=1.0):
        (word,) = changed.rstrip(".").split()
        assert word in PERSONA
    found = {
        t.rstrip(".") for t in many(sentences.pervasive_dropout, PERSONA, rate=1.0)
    }
    assert len(found) == len(set(PERSONA.rstrip(".").split()))
    assert sentences.pervasive_dropout(PERSONA, rng(), rate=0.0) == PERSONA


def test_switch_out_changes_each_word_at_a_drawn_rate():
    """The number n gives a rate of n/4; n = 2 may change 0 to 4 of the words."""
    text, vocabulary = "w x y z", ["Q"]
    for temperature in (1.0, 3.0):
        drawn = many(
            sentences.switch_out,
            text,
            2000,
            temperature=temperature,
            vocabulary=vocabulary,
        )
        counts = np.bincount([t.count("Q") for t in drawn], minlength=5) / len(drawn)
        weights = np.exp(-np.arange(5) / temperature)
        rates = np.arange(5) / 4
        of_count = [stats.binom.pmf(k, 4, rates) @ weights for k in range(5)]
        expected = np.array(of_count) / weights.sum()
        np.testing.assert_allclose(counts, expected, atol=0.035)
        places = np.mean([[w == "Q" for w in t.split()] for t in drawn], axis=0)
        assert np.ptp(places) < 0.05
    assert sentences.switch_out(text, rng(), temperature=1e-9) == text
    known = {*lexicon.built_in().words, *text.split()}
    for changed in many(sentences.switch_out, text, 20, temperature=9.0):
        assert set(changed.split()) <= known
    drawn = many(sentences.switch_out, text, 2000, rate=0.25, vocabulary=vocabulary)
    counts = np.bincount([t.count("Q") for t in drawn], minlength=5) / len(drawn)
    expected = stats.binom.pmf(np.arange(5), 4, 0.25)
    np.testing.assert_allclose(counts, expected, atol=0.035)


SPACED = "  find a   hotel  in peru ? "


@given(text=st.text(max_size=60))
def test_text_without_an_edit_stays_byte_for_byte(text):
    assert words.edited(text, list) == text


@pytest.mark.parametrize(
    "text", ["Wal-Mart buys it", "U.S. elections", "İstanbul !  !"]
)
def test_a_capital_that_stays_is_written_as_it_was(text):
    assert words.edited(text, list) == text


def test_white_space_and_final_marks_outside_the_edited_words_stay():
    only = {"replace": 0, "insert": 0, "swap": 0, "delete": 0}

    def of(operation):
        return set(many(sentences.eda, SPACED, **(only | {operation: 0.001})))

    assert of("replace") == {
        "  discover a   hotel  in peru ? ",
        "  locate a   hotel  in peru ? ",
        "  look up a   hotel  in peru ? ",
        "  find an   inn  in peru ? ",
        "  find a   lodge  in peru ? ",
    }
    assert of("delete") == {
        "  a   hotel  in peru ? ",
        "  find   hotel  in peru ? ",
        "  find a  in peru ? ",
        "  find a   hotel peru ? ",
        "  find a   hotel  in ? ",
    }
    assert "  peru a   hotel  in find ? " in of("swap")
    for one in of("swap"):
        assert re.findall(r"\s+", one) == re.findall(r"\s+", SPACED)
    inserted = of("insert")
    assert "  find a   hotel  in peru lodge ? " in inserted
    assert "  inn find a   hotel  in peru ? " in inserted
    assert all(one[:2] == "  " and one[-3:] == " ? " for one in inserted)


def test_switch_out_leaves_marks_alone_and_white_space():
    text = "yes  -- we\tcan , of course !"
    for changed in many(sentences.switch_out, text, 40, rate=0.9, vocabulary=["Q"]):
        assert re.findall(r"\W+", changed) == re.findall(r"\W+", text)


@pytest.mark.parametrize("name", METHODS)
def test_the_time_for_a_long_text_is_linear(name):
    """Distinct numbers, punctuation, and unclosed brackets were each quadratic."""
    for text in (
        " ".join(f"the hotel {number}" for number in range(7000)),
        "a" + "=" * 100_000 + "b",
        "x" + " " * 100_000 + "y",
        "{< [" * 25_000,
    ):
        start = time.perf_counter()
        METHODS[name](text, rng(1))
        assert time.perf_counter() - start < 10


def test_arguments_out_of_range_are_named():
    for method, options, text in (
        (sentences.eda, {"swap": 1.5}, r"swap=1.5: .* number from 0 to 1"),
        (sentences.token_substitution, {"rate": -1}, r"rate=-1"),
        (sentences.pervasive_dropout, {"rate": 2}, r"rate=2"),
        (sentences.switch_out, {"temperature": 0}, r"temperature=0: .* above 0"),
        (sentences.switch_out, {"rate": 1.1}, r"rate=1.1"),
    ):
        with pytest.raises(UserError, match=text):
            method(TEXT, rng(), **options)


def test_words_keep_punctuation_and_protected_spans():
    found = words.split("The (old) town (in New York), for $price!", ["new york"])
    assert [(w.before, w.core, w.after, w.fixed) for w in found] == [
        ("", "The", "", False), ("(", "old", ")", False), ("", "town", "", False),
        ("(", "in", "", False), ("", "New York),", "", True), ("", "for", "", False),
        ("", "$price!", "", True),
    ]  # fmt: skip
