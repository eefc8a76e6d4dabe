"""Checks for small language models, in addition to the filters of the paper."""

import re
import zlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from jaxaug.augment.judge import features, measures
from jaxaug.augment.judge.features import Pair
from jaxaug.augment.language import nlp

_FLAG = re.compile(
    r"^(?:(?:a |the )?(?:boolean )?flag |boolean )?"
    r"(?:(?:that |which )?(?:indicat|say|tell|show)\w* )?(?:if|whether)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"\b(?:how|number|amount|count|total|price|cost|fare|fee|rent|size|time|duration|"
    r"length|age|rating|temperature|humidity|wind|percentage|balance)\b",
    re.IGNORECASE,
)
_COMMANDS = frozenset({"VB", "VBP"})
_ORDER = re.compile(
    r"(?:book|reserve|purchase|rent|schedule|order|mail|plan|search|transfer)\s+"
    r"(?!of\b|from\b|in\b|on\b|is\b)\w",
    re.IGNORECASE,
)


def length(
    sources: Sequence[str], candidates: Sequence[str]
) -> Float[np.ndarray, " n"]:
    """Returns the words of the candidate divided by the words of the source.

    A small model often continues past the end of a paraphrase: "City of the event"
    becomes "City of the event with the most visitors".
    """
    pairs = zip(sources, candidates, strict=True)
    return np.array([len(b.split()) / max(1, len(a.split())) for a, b in pairs])


def chance(
    sources: Sequence[str], candidates: Sequence[str]
) -> Float[np.ndarray, " n"]:
    """Returns a random number below 1 for each pair, always the same for its texts."""
    pairs = zip(sources, candidates, strict=True)
    return np.array([zlib.crc32("\n".join(pair).encode()) / 2**32 for pair in pairs])


def similarity(model: str = "minilm") -> measures.Metric:
    """Returns the metric `similarity`, computed without technical words.

    "Boolean flag indicating if pets are allowed" and "Whether pets are allowed" have
    the same meaning. Sentence embeddings see the flag and find them dissimilar.
    """
    measure = measures.find("similarity", model=model)

    def metric(
        sources: Sequence[str], candidates: Sequence[str]
    ) -> Float[np.ndarray, " n"]:
        return measure([*map(plain, sources)], [*map(plain, candidates)])

    return metric


def trivial(
    sources: Sequence[str], candidates: Sequence[str]
) -> Float[np.ndarray, " n"]:
    """Returns 1 for a candidate with the same content words in the same order."""
    pairs = zip(sources, candidates, strict=True)
    found = [features.is_trivial(Pair(features.SLOT, *pair)) for pair in pairs]
    return np.array(found, float)


def how(sources: Sequence[str], candidates: Sequence[str]) -> Float[np.ndarray, " n"]:
    """Returns 1 for a candidate with "how" if the source asks for no quantity, else 0.

    A small model overuses the examples of its prompt: "City where the bus leaves"
    becomes "How many buses leave the city".
    """
    pairs = zip(sources, candidates, strict=True)
    found = [b.lower().startswith("how ") and not _QUANTITY.search(a) for a, b in pairs]
    return np.array(found, float)


def keeps_command(source: str, candidates: Sequence[str]) -> list[bool]:
    """Returns whether each candidate is a command if the source is one.

    "Rent a car" is a command, "car you rent" is not. This is for services and intents,
    as words such as "place to visit" look like orders too. It needs spaCy, which reads
    "book a flight" as the noun "book"; such verbs are listed here.
    """
    source_tells, *others = _tells([source, *candidates])
    return [other or not source_tells for other in others]


def _tells(texts: Sequence[str]) -> list[bool]:
    documents = nlp.analyse([f"Please {text}" for text in texts])
    return [
        bool(_ORDER.match(text))
        or (len(document.tokens) > 1 and document.tokens[1].tag in _COMMANDS)
        for text, document in zip(texts, documents, strict=True)
    ]


def plain(text: str) -> str:
    """Returns the text with "whether" for all phrases that mark a flag."""
    return _FLAG.sub("whether", text)
