"""Word classes, fixed pairs, and questions: words of a source that get synonyms."""

import pytest

from jaxaug.augment.grammar import engine, senses
from jaxaug.augment.grammar.chunks import NOUN, VERB
from jaxaug.augment.grammar.rules import Context
from jaxaug.augment.language import nlp
from jaxaug.core.errors import UserError

INTENT = Context("intent")


@pytest.fixture(params=["spaCy", "none"])
def tagger(request, monkeypatch) -> str:
    if request.param == "none":
        monkeypatch.setattr(nlp, "installed", lambda: "")
    elif not nlp.installed():
        pytest.skip("spaCy or its English model is not installed")
    engine._source.cache_clear()
    yield request.param
    engine._source.cache_clear()


def texts(text: str, context: Context | None = None) -> list[str]:
    return [one.text for one in engine.reword(text, context, 400)]


@pytest.mark.parametrize(
    ("text", "context", "spared"),
    [
        ("service for ordering custom prints", Context("service"), (VERB, "print")),
        ("whether to approve it before printing starts", None, (NOUN, "start")),
        ("whether to approve it before printing starts", None, (VERB, "print")),
        ("branch where the finished prints will be kept", None, (VERB, "print")),
    ],
)
def test_a_word_of_the_other_class_is_left_alone(tagger, text, context, spared) -> None:
    assert spared not in senses.read_source(text, context is not None).known


@pytest.mark.parametrize(
    ("text", "is_intent", "kept"),
    [
        ("print a document", True, (VERB, "print")),
        ("number of copies to print", False, (VERB, "print")),
        ("start of the tour", False, (NOUN, "start")),
        ("when the tour starts", False, (VERB, "start")),
        ("cost of the ride", False, (NOUN, "cost")),
        ("service for ordering meals", False, (VERB, "order")),
    ],
)
def test_a_word_of_a_clear_class_may_change(tagger, text, is_intent, kept) -> None:
    assert kept in senses.read_source(text, is_intent).known


def test_the_tag_decides_if_the_neighbors_do_not(tagger) -> None:
    known = senses.read_source("service for custom prints of photos", False).known
    assert ((NOUN, "print") in known) == (tagger == "spaCy")
    assert (VERB, "print") not in known


def test_a_plural_that_looks_like_a_third_person_stays_a_noun(tagger) -> None:
    for text in texts("Service for ordering custom prints", Context("service")):
        assert "custom prints" in text


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        (
            "name of the customer placing the order",
            "purchase",
            "name of the client placing the order",
        ),
        (
            "day on which the order was placed",
            "purchase",
            "day when the order was placed",
        ),
        # The noun is free if its verb is not part of a fixed pair.
        (
            "reason for cancelling the booking",
            "making",
            "reason for cancelling the reservation",
        ),
    ],
)
def test_a_fixed_pair_keeps_its_words(text, wrong, right) -> None:
    found = texts(text, Context(service=frozenset(["shop"])))
    assert right in found
    assert not [one for one in found if wrong in one.removesuffix("the purchase")]


def test_a_synonym_from_the_table_of_pairs_is_free() -> None:
    found = texts("make a reservation for a table", INTENT)
    assert "make a booking for a table" in found


@pytest.mark.parametrize("line", ["make", "make order\nmake bid"])
def test_a_wrong_table_of_pairs_is_refused(tmp_path, monkeypatch, line) -> None:
    path = tmp_path / "collocations.txt"
    path.write_text(line + "\n")
    monkeypatch.setattr(senses, "_FILE", path)
    with pytest.raises(UserError, match="is not a new verb with nouns"):
        senses.collocations.__wrapped__()


def test_only_questions_keep_the_mark_of_a_question() -> None:
    found = texts(
        "Does the guest want to pay before boarding starts?", Context(is_flag=True)
    )
    assert "Whether the guest wants to pay before boarding starts" in found
    assert "Does the guest wish to pay before boarding starts?" in found
    for one in found:
        assert one.endswith("?") == one.startswith("Does ")
        assert not one.startswith("If ")


@pytest.mark.parametrize(
    ("clumsy", "plain"),
    [
        ("tells if to ship abroad", "tells whether to ship abroad"),
        ("true when to ship abroad", "true when the parcel is shipped"),
        ("which entire amount is paid", "the entire amount that is paid"),
        ("what the size, either small or large is",
         "what the size is, either small or large"),
        ("how many seats the user want", "how many seats does the user want"),
        ("assist in booking a room and pay for it",
         "assist in booking a room and paying for it"),
        ("booking a room and pay for it", "book a room and pay for it"),
        ("does the guest would like to pay", "does the guest want what he would get"),
        ("if it is paid before boarding starts or not",
         "whether it is paid before boarding starts"),
    ],
)  # fmt: skip
def test_a_broken_shape_and_its_whole_neighbor(clumsy, plain) -> None:
    assert engine.faults(clumsy)
    assert not engine.faults(plain)
