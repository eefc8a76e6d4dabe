"""Candidates: the distinct outputs for a text.

Algorithm 2 of Coca et al. (2023) applies a grid of settings to every text (see
`jaxaug.paraphrase.generation`). Outputs with the same words become one candidate with a
count and the labels of its settings.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jaxaug.core.text import is_single_spaced
from jaxaug.paraphrase import literals

_MARKS = ".!?;,:"
_AUXILIARY = (
    "is|are|was|were|do|does|did|has|have|had"
    "|can|could|will|would|should|may|might|must"
)
_SUBJECT = (
    "the|a|an|this|that|these|those|my|your|his|her|its|our|their|you|they|we|i|it"
)
# "Does the guest pay", "how long is the visit", but not "how long the visit is".
_QUESTION = re.compile(
    rf"(?:(?:{_AUXILIARY})|(?:on |in |at |for |to )?"
    r"(?:who|what|which|when|where|why|how|whose)"
    rf"(?: (?!(?:{_SUBJECT})\b)[\w'’-]+)*? (?:{_AUXILIARY}))\b"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A distinct output for one text.

    Attributes:
        count: number of outputs with these words.
    """

    text: str
    count: int
    settings: tuple[str, ...]


def merged(
    source: str, outputs: Iterable[tuple[str, Sequence[str]]], tidy: bool = True
) -> list[Candidate]:
    """Returns the distinct outputs of one text, the most common first.

    Equally common outputs keep their order. Outputs that differ only in case are the
    same.

    Args:
        tidy: whether outputs take the form of the text, see `tidied`. The paper does
            not do this; without it, only runs of blanks are collapsed, unless the text
            has some itself.
    """
    spellings: dict[str, dict[str, int]] = {}
    labels: dict[str, dict[str, None]] = {}
    for label, texts in outputs:
        for text in texts:
            text = tidied(source, text) if tidy else _collapsed(source, text)
            forms = spellings.setdefault(text.casefold(), {})
            forms[text] = forms.get(text, 0) + 1
            labels.setdefault(text.casefold(), {})[label] = None
    candidates = [
        Candidate(
            max(forms, key=lambda t: forms[t]), sum(forms.values()), (*labels[k],)
        )
        for k, forms in spellings.items()
    ]
    return sorted(candidates, key=lambda candidate: -candidate.count)


def is_question(text: str) -> bool:
    """Returns whether a text is a whole question, without regard to its mark."""
    return _QUESTION.match(text.lower()) is not None


def tidied(source: str, text: str) -> str:
    """Returns an output with the first letter's case and the end mark of its input.

    Generators capitalize and punctuate inconsistently. A tracker would learn from such
    marks if only some descriptions had them. The literals of the text (see `literals`)
    stay as they are.
    """
    text = _collapsed(source, text)
    result = _tidied(source.strip(), text)
    return result if literals.keeps(source, result) else text


def _collapsed(source: str, text: str) -> str:
    """Returns a text with single spaces, or with its own if the source has others."""
    return " ".join(text.split()) if is_single_spaced(source) else text


def _tidied(source: str, text: str) -> str:
    if source[-1:] not in _MARKS:
        text = text.rstrip(".;,: ")
    elif text and text[-1] not in _MARKS:
        # "Says whether the guest pays" is not a question; "does the guest pay?" is one.
        states = source[-1] == "?" and is_question(source) and not is_question(text)
        text += "" if states else source[-1]
    # Words such as "ID" or "iPhone" keep their case.
    first = "".join(text.split(maxsplit=1)[:1])
    if source[:1].isupper() and first.islower():
        return text[0].upper() + text[1:]
    capital = first[:1].isupper() and (first[1:].islower() or first == "A")
    if source[:1].islower() and capital:
        return text[0].lower() + text[1:]
    return text
