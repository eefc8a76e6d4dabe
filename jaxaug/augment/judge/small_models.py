"""What keeps small language models in check, beside the filters of the paper."""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from jaxaug.augment.judge import measures
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
    """Words of the candidate over words of the source.

    A small model goes on where a paraphrase would end: "City of the event" becomes "City
    of the event with the most visitors".
    """
    pairs = zip(sources, candidates, strict=True)
    return np.array([len(b.split()) / max(1, len(a.split())) for a, b in pairs])


def similarity(model: str = "minilm") -> measures.Metric:
    """`metrics.METRICS["similarity"]` of what the texts say, without technical words.

    "Boolean flag indicating if pets are allowed" and "Whether pets are allowed" say the
    same; sentence embeddings see the flag and call them unlike.
    """
    measure = measures.find("similarity", model=model)

    def metric(
        sources: Sequence[str], candidates: Sequence[str]
    ) -> Float[np.ndarray, " n"]:
        return measure([*map(plain, sources)], [*map(plain, candidates)])

    return metric


def how(sources: Sequence[str], candidates: Sequence[str]) -> Float[np.ndarray, " n"]:
    """1 where the candidate begins with "how" and the source asks for no quantity.

    What a prompt shows once, a small model writes often: "City where the bus leaves"
    becomes "How many buses leave the city".
    """
    pairs = zip(sources, candidates, strict=True)
    found = [b.lower().startswith("how ") and not _QUANTITY.search(a) for a, b in pairs]
    return np.array(found, float)


def keeps_command(source: str, candidates: Sequence[str]) -> list[bool]:
    """Whether each candidate tells to do something, if the source does.

    "Rent a car", but "car you rent". For services and intents: words such as "place to
    visit" look like orders too. Needs spaCy, which takes "book a flight" for the book:
    such words are listed here.
    """
    told, *others = _tells([source, *candidates])
    return [other or not told for other in others]


def _tells(texts: Sequence[str]) -> list[bool]:
    documents = nlp.analyse([f"Please {text}" for text in texts])
    return [
        bool(_ORDER.match(text))
        or (len(document.tokens) > 1 and document.tokens[1].tag in _COMMANDS)
        for text, document in zip(texts, documents, strict=True)
    ]


def plain(text: str) -> str:
    """The text with one word, "whether", for what says that a slot is a flag."""
    return _FLAG.sub("whether", text)
