"""Parts of a text that are no words stay letter by letter, for every generator."""

import random
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment.grammar import engine
from jaxaug.augment.grammar.rules import Context
from jaxaug.augment.plain import wordings
from jaxaug.augment.schemes.sentences import METHODS
from jaxaug.paraphrase import candidates, literals

LITERALS = (
    "bob@example.com", "https://example.com/a?b=1&c=2", "www.example.com/",
    "/home/a_b/c.d-e", "C:\\temp\\x", "${HOME}", "$HOME", "{place.name}", "{{ user }}",
    "<user name>", "%(name)s", "%USER%", "&amp;", "&#x27;", "🌡️", "👩‍💻", ":smile:",
    "10:30am", "2024-01-05T10:30:00Z", "2024-01-31", "2024-01-31 08:30", "08:30",
    "3.5 GB", "10%", "10 %", "$5", "€ 20", "1,000", "12 000", "10\u00a0km", "v1.2.3",
    "ISO 8601", "UTF-8", "123e4567-e89b-12d3-a456-426614174000", r"^\d+[a-z]*$", "<b>",
    "</b>", "<br/>", "[the page](https://example.com/a_(b))", "`x = 1`", "**bold**",
    "$x^2 + y$", r"\alpha_1", "*.py", "src/**/*.ts", "--dry-run", "--out=a/b", "-n",
    "snake_case", "camelCase", "PascalCase", "dotted.name", "foo(a, b)",
    '{"a": [1, {"b": 2}]}', "[1, 2]", "#topic", "@somebody", "日本語", "مرحبا",
    "cafe\u0301", '"hello, you"', "'bye'", "“so”", "«si»", "+1 (555) 010-9999",
    "192.168.0.1", "::1", "3rd", "24-hour", "C++", "AT&T", "YYYY-MM-DD", "key=value",
    "application/json", "e.g.", "->", "≥5", "-5",
)  # fmt: skip
PROSE = (
    "name of the hotel",
    "Find a cheap restaurant in the city",
    "time of the visit",
    "I want to book a room for the night",
    "the users' names and what it's for",
)
TEXTS = st.builds(
    lambda first, parts, end: first + "".join(f"{s}{x}{w}" for s, x, w in parts) + end,
    st.sampled_from(PROSE),
    st.lists(
        st.tuples(
            st.sampled_from(
                [", such as ", " or ", "\n\nArgs:\n    to: ", "\n- ", " ("]
            ),
            st.sampled_from(LITERALS),
            st.sampled_from([" for the price", ", and the date", "", "\n"]),
        ),
        max_size=3,
    ),
    st.sampled_from(["", ".", "?", " \n"]),
)


def breaks(text):
    return [mark for mark in text if mark in "\n\t"]


def check(source, output):
    assert Counter(literals.found(source)) <= Counter(literals.found(output)), output
    for literal in LITERALS:
        assert output.count(literal) == source.count(literal), (literal, output)
    assert breaks(output) == breaks(source)


@pytest.mark.parametrize("literal", LITERALS)
def test_the_literal_is_found_whole(literal):
    for text in (
        "name of {} in the text",
        "name, such as {}.",
        "such as this ({}), it is here",
    ):
        assert literals.found(text.format(literal)) == (literal,)
    # A text in another script has words.
    is_foreign = literal in ("日本語", "مرحبا")
    assert bool(literals.framed(f" {literal}\n").pieces) == is_foreign


def test_words_and_the_marks_of_sentences_are_no_literals():
    text = "Don't check-in (yet), the users' well-known names; and/or: naïve — why?!"
    assert literals.found(text) == ()
    assert literals.framed(text).pieces[0].masked == text
    assert literals.found("用户的名字") == literals.found("мои слова") == ()
    # Numbers need no mask.
    (piece,) = literals.framed("for 2 nights at 08:30 with bob@example.com").pieces
    assert piece.masked == "for 2 nights at 08:30 with [1]"


def test_the_frame_is_no_prose():
    text = (
        "Sends a mail.\n\nArgs:\n    to (str): address of the receiver\n"
        "    :param x: count\tof items\n- [ ] a point\n> a quote\n| a | b |\n"
        "```\ncode of it\n```\nParameters\n----------\nname : str\n    The name.  It."
        "\nA long line that does not end with its sentence and\ngoes on here.\n"
    )
    framed = literals.framed(text)
    assert [piece.source for piece in framed.pieces] == [
        "Sends a mail.", "address of the receiver", "count", "of items", "a point",
        "a quote", "The name.", "It.",
    ]  # fmt: skip
    assert framed.filled({}) == text


def test_outputs_without_a_literal_are_dropped():
    text = "mail to bob@example.com, 2 times"
    outputs = [
        "2 mails to [1]", "mails to [1]", "2 to [1] [1]", "2 to a@b.c", "2 [1] [2]",
    ]  # fmt: skip
    asked = []

    def generate(texts):
        asked.extend(texts)
        return [outputs]

    assert literals.reworded([text, "🌡️"], generate) == [
        ["2 mails to bob@example.com"],
        [],
    ]
    assert asked == ["mail to [1], 2 times"]
    kept = literals.reworded(["a\n b x_y"], lambda texts: [["c", "d"], ["[1] e"]])
    assert kept == [["c\n x_y e", "d\n x_y e"]]


def test_the_form_of_a_candidate_spares_literals():
    source = "https://example.com/ is the page of e.g."
    text = "https://example.com/: the page e.g."
    assert candidates.tidied(source, text) == text
    assert candidates.tidied("a\n- b", "A\n- b.") == "a\n- b"


@given(TEXTS, st.sampled_from(sorted(METHODS)), st.integers(0, 99))
def test_methods_on_sentences(text, name, seed):
    check(text, METHODS[name](text, np.random.default_rng(seed)))


@given(TEXTS, st.sampled_from(["slot", "intent", "service"]))
def test_rules(text, kind):
    for one in engine.reword(text, Context(kind), 30):
        check(text, one.text)
    for one in wordings.reword(text, 30):
        check(text, one.text)


@given(TEXTS, st.randoms(use_true_random=False))
def test_models(text, draws: random.Random):
    """A model loses, doubles, moves, and adds words and masks."""

    def generate(texts):
        return [
            [
                " ".join(draws.choices(words, k=len(words)))
                if draws.random() < 0.5
                else " ".join(draws.sample(words, len(words)))
                for _ in range(8)
            ]
            for words in ([*text.split(), "more"] for text in texts)
        ]

    for one in literals.reworded([text], generate)[0]:
        check(text, one)


def test_marks_between_words_keep_their_blanks():
    for text in ("Find a cheap hotel / inn…", "Find a hotel - and book it"):
        found = engine.reword(text, Context("intent"), 30)
        assert found
        for one in found:
            assert one.text.count(" / ") == text.count(" / ")
            assert one.text.count(" - ") == text.count(" - ") and " …" not in one.text


def test_unclosed_marks_take_linear_time():
    marks = ("{", "<a ", "'a ", '"a\n', "$a ", "[a](b ", "`a\n", "\\( ", "<!--", "‘a ")
    start = time.perf_counter()
    for mark in (*marks, "1 ", "a.", ":a", "&a", "{a{b", "[a[b", "f(", "x: "):
        literals.framed(mark * 20_000)
    assert time.perf_counter() - start < 30


def test_addresses_that_are_no_postal_address():
    for text in (
        "address of the page, such as https://example.com",
        "address of the customer, such as bob@example.com",
        "address of the hotel server",
    ):
        for one in engine.reword(text, Context("slot"), 300):
            assert not {"postal", "street", "mailing"} & {*one.text.split()}
    found = engine.reword("address of the hotel", Context("slot"), 300)
    assert any("street address" in one.text for one in found)
