"""Results with numbers per sentence: decoders on Quora, and samplers of PCC.

Figures are ratios of sums over sentences, such as BLEU. Their differences have
intervals over seeds and sentences together.
"""

import functools
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxaug.core.columns import markdown, markdown_head
from jaxaug.core.errors import UserError
from jaxaug.curriculum.difficulty import BETA, kept
from jaxaug.metrics.bootstrap import holm
from jaxaug.metrics.statistics import ALPHA
from jaxaug_papers.shared.seeds import Difference, difference, spread

ROOT = Path(__file__).resolve().parent.parent
Sums = Float[np.ndarray, "seeds sentences numbers"]


class Sentences(NamedTuple):
    """Stored numbers of sentences, and the figures that follow from their sums.

    Attributes:
        rows: row -> numbers of each seed and sentence.
        figures: name -> figure of sums [..., numbers], as a fraction.
    """

    rows: Callable[[], dict[str, Sums]]
    figures: Mapping[str, Callable[[np.ndarray], np.ndarray]]

    def values(self, row: str, name: str) -> Float[np.ndarray, " seeds"]:
        """Returns a figure of each seed."""
        return self.figures[name](self.found(row).sum(axis=1))

    def difference(self, first: str, second: str, name: str) -> Difference:
        """Returns `first` - `second` over seeds and sentences together.

        A figure is no mean of sentences, so its jackknife pseudo-values replace their
        scores (Tukey, 1958).
        """
        ours, theirs = (self._pseudo(self.found(row), name) for row in (first, second))
        mean = (self.values(first, name) - self.values(second, name)).mean()
        return difference(ours, theirs)._replace(mean=float(mean))

    def found(self, row: str) -> Sums:
        """Returns the numbers of a row.

        Raises:
            UserError: it is not stored.
        """
        rows = self.rows()
        if row not in rows:
            raise UserError(f"results/claims.toml: no row {row!r}: {[*rows]}.")
        return rows[row]

    def _pseudo(self, sums: Sums, name: str) -> Float[np.ndarray, "seeds sentences"]:
        figure, number = self.figures[name], sums.shape[1]
        whole = sums.sum(axis=1, keepdims=True)
        return number * figure(whole) - (number - 1) * figure(whole - sums)


@functools.cache
def _quora_rows() -> dict[str, Sums]:
    lines = (ROOT / "results/decoders/quora.jsonl").read_text("utf-8").splitlines()
    # An undefined distinct-n adds nothing, and is not counted.
    found = {}
    for one in map(json.loads, lines):
        numbers = np.array(one["sentences"], float)
        counted = ~np.isnan(numbers[..., :4])
        found[one["row"]] = np.concatenate([np.nan_to_num(numbers), counted], axis=-1)
    return found


def _bleu(sums: np.ndarray) -> np.ndarray:
    """Returns BLEU with n-grams up to 2 of matched and all n-grams and words."""
    matched1, matched2, all1, all2, words, references = np.moveaxis(sums, -1, 0)
    short = np.minimum(1, np.exp(1 - references / words))
    return short * np.sqrt(matched1 / all1 * matched2 / all2)


DISTINCT = tuple(f"distinct-{n}" for n in range(1, 5))
DIPS = ("DiPS final", "DiPS final, normalized", "DiPS final, program")


def _distinct(numbers: Sums, n: int) -> np.ndarray:
    return numbers[..., n] / 100 / numbers[..., 13 + n]


_QUORA = Sentences(
    _quora_rows,
    {
        "BLEU": lambda x: _bleu(x[..., 5:11]),
        "METEOR": lambda x: x[..., 4] / 100 / x[..., 13],
        "TER": lambda x: x[..., 11] / x[..., 12],
        **{name: functools.partial(_distinct, n=n) for n, name in enumerate(DISTINCT)},
    },
)


def quora() -> list[str]:
    """Returns the decoders on Quora, and how the variants of DiPS differ."""
    others = [x for x in _QUORA.rows() if not x.startswith(("DiPS", "copying"))]
    pairs = [(a, b) for a in DIPS for b in others]
    pairs += [(DIPS[1], DIPS[0]), (DIPS[2], DIPS[0]), (DIPS[2], DIPS[1])]
    return _tables("decoder", _QUORA, pairs, ("BLEU", "METEOR", *DISTINCT[:2]))


def _tables(
    head: str,
    store: Sentences,
    pairs: Sequence[tuple[str, str]],
    compared: Sequence[str],
) -> list[str]:
    """Returns all figures, and the differences of some pairs.

    All differences are one family of Holm's correction; * marks p < 0.05.
    """
    rows = [markdown_head([head, *store.figures])]
    for row in store.rows():
        cells = [spread(store.values(row, name)) for name in store.figures]
        rows.append(markdown([row, *cells]))
    rows += ["", markdown_head(["difference", *compared])]
    found = [[store.difference(*pair, name) for name in compared] for pair in pairs]
    corrected = iter(holm(np.array([one.p for row in found for one in row])))
    for (first, second), own in zip(pairs, found, strict=True):
        cells = [_interval(one) + " \\*" * bool(next(corrected) < ALPHA) for one in own]
        rows.append(markdown([f"{first} - {second}", *cells]))
    return rows


def _interval(one: Difference) -> str:
    low, high = (100 * (one.mean + s * one.half_width) for s in (-1, 1))
    return f"{100 * one.mean:+.1f} ({low:.1f} to {high:.1f})"


def cell(store: Sentences, row: str, name: str) -> str:
    """Returns a figure of a row, or the difference of two rows with its interval."""
    first, _, second = row.partition(" - ")
    if not second:
        return spread(store.values(first, name)).partition(" ")[0]
    return _interval(store.difference(first, second, name))


@functools.cache
def _sampler_rows() -> dict[str, Sums]:
    """Returns, for each head and trait, the number of outputs and of kept ones.

    The other numbers are the sum of G over kept outputs, and the number of them in each
    bin of Table 8, from the highest to the lowest.
    """
    lines = (ROOT / "results/pcc/samplers.jsonl").read_text("utf-8").splitlines()
    found: dict[str, list] = {}
    for one in map(json.loads, lines):
        similar, implied = np.array(one["G"]), np.array(one["M"])
        own = kept(implied, similar, BETA)
        bins = [
            (own & (low < similar) & (similar <= high)).sum(axis=1)
            for high, low in itertools.pairwise(_BINS)
        ]
        whole = np.full(len(own), own.shape[1])
        total = np.where(own, similar, 0).sum(axis=1)
        numbers = np.stack([whole, own.sum(axis=1), total, *bins], axis=-1)
        found.setdefault(one["row"], []).append(numbers)
    return {row: np.stack(own, axis=1) for row, own in found.items()}


_BINS = (np.inf, np.nextafter(0.5, 0), np.nextafter(0, -1), -0.5, -np.inf)
_SAMPLERS = Sentences(
    _sampler_rows,
    {
        "kept": lambda x: x[..., 1] / x[..., 0],
        "0.5 and above": lambda x: x[..., 3] / x[..., 1],
        "0 to 0.5": lambda x: x[..., 4] / x[..., 1],
        "-0.5 to 0": lambda x: x[..., 5] / x[..., 1],
        "-0.5 and below": lambda x: x[..., 6] / x[..., 1],
        "mean x 100": lambda x: x[..., 2] / x[..., 1],
    },
)


def samplers() -> list[str]:
    """Returns Table 8 of PCC by distilled G and M, and how bottom-k differs."""
    pairs = [
        ("bottom-k, k=2, N=1", "top-k 120, top-p 0.95"),
        ("released, 4 of bottom-k", "released, 4 without bottom-k"),
    ]
    return _tables("outputs", _SAMPLERS, pairs, [*_SAMPLERS.figures])


STORES: Mapping[str, Sentences] = {"quora": _QUORA, "samplers": _SAMPLERS}
"""Kind of a template of results/claims.toml -> its numbers."""
