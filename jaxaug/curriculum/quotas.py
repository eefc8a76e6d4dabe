"""Quotas of samplers: how many paraphrases of a text to keep, and which ones.

In Lu and Lam (2023), appendix A, 4 of the 20 paraphrases per text come from bottom-k (2
for COVID-Q), and the others from top-k with top-p.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.core.text import spaced
from jaxaug.paraphrase import candidates

SAMPLERS = ("bottom_k", "top_k_top_p", "sampling")
PAPER = {"bottom_k": 4, "top_k_top_p": 16}
BEHIND = {"sampling": 20}
"""Default for a model behind an endpoint, which gives texts and no probabilities."""
_EXAMPLE = "bottom_k=4 top_k_top_p=16"


class Candidate(NamedTuple):
    """A candidate paraphrase.

    Attributes:
        text: the paraphrase.
        sampler: sampler that produced it; of two, the one whose quota comes first.
        similarity: similarity to its text.
        implied: whether it and its text imply each other; False without an implication
            model.
        passed: whether it passed the filter.
    """

    text: str
    sampler: str
    similarity: float
    implied: bool
    passed: bool


def parse(texts: Iterable[str]) -> dict[str, int]:
    """Parses quotas such as `bottom_k=4`, in their order.

    Raises:
        UserError: a number is missing, or a sampler is unknown or repeated.
    """
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name in found or not re.fullmatch("[0-9]{1,6}", number):
            raise UserError(
                f"--quota {text!r}: write each sampler once, with how many of its "
                f"paraphrases are kept, at most 999999: {_EXAMPLE}."
            )
        found[name] = int(number)
    check(found)
    return found


def check(quota: Mapping[str, int]) -> None:
    """Raises `UserError` for unknown samplers, negative numbers, or all zeros."""
    for name, number in quota.items():
        if name not in SAMPLERS:
            raise UserError(
                f"--quota: {name!r} gives no levels; {suggestion(name, SAMPLERS)}"
            )
        if number < 0:
            raise UserError(f"--quota {name}={number}: give 0 or more.")
    if not any(quota.values()):
        raise UserError(f"--quota: keeps nothing. Give numbers, such as {_EXAMPLE}.")


def distinct(
    text: str, outputs: Mapping[str, Sequence[str]], known: Iterable[str] = ()
) -> list[tuple[str, str]]:
    """Returns the distinct (paraphrase, sampler) pairs of a text.

    It drops copies of the text and of known paraphrases; case and white space are
    ignored.

    Args:
        text: the source text.
        outputs: sampler -> outputs.
        known: paraphrases that already exist.
    """
    seen = {spaced(one).casefold() for one in (text, "", *known)}
    kept = []
    for found in candidates.merged(text, outputs.items()):
        key = spaced(found.text).casefold()
        if key not in seen:
            kept.append((found.text, found.settings[0]))
            seen.add(key)
    return kept


def lacking(quota: Mapping[str, int], found: Sequence[Candidate]) -> dict[str, int]:
    """Returns the number of missing paraphrases per sampler below its quota."""
    passed = Counter(one.sampler for one in found if one.passed)
    return {n: number - passed[n] for n, number in quota.items() if number > passed[n]}


def chosen(
    text: str, quota: Mapping[str, int], found: Sequence[Candidate], seed: int
) -> list[Candidate]:
    """Returns a random draw of each sampler's quota from the candidates that passed.

    The draw is random, so that hard paraphrases stay as frequent as the sampler makes
    them. It depends on text and seed only.
    """
    rng = np.random.default_rng((seed, zlib.crc32(text.encode())))
    kept = []
    for name, number in quota.items():
        own = [one for one in found if one.passed and one.sampler == name]
        kept += [own[place] for place in rng.permutation(len(own))[:number]]
    return kept
