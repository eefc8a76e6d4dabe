"""The judge: the probability that a rewording is well formed and faithful.

`jaxaug augment judge` gives a verdict on each pair of a file.

A logistic regression combines the log odds of a network (see `network`), the similarity
of both texts, and features of their words. With the model of rewordings it also has log
probabilities (see `likelihood`). `benchmarks/train_judge.py` fits it to
labels of texts that the network has not seen, so its output is a probability.
"""

import functools
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from etils import epath
from jaxaug_base.files import absolute
from jaxtyping import Float

from jaxaug.augment.arguments import Judge
from jaxaug.augment.judge import features, filters, likelihood, network
from jaxaug.augment.judge.features import SLOT, Pair
from jaxaug.core.digests import code_digest, digest_of, file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, shown, write_text
from jaxaug.core.progress import progress
from jaxaug.core.suggestion import suggestion

COEFFICIENTS = epath.Path(__file__).parent / "coefficients.json"
NAMES = {
    "": features.WORDS,
    network.BASE: (*features.WORDS, "unlike", "network"),
    likelihood.MODEL: (*features.WORDS, "unlike", "network", "forward", "back"),
}
"""Model -> inputs of the regression: features of words, 1 - similarity, log odds, and
log-likelihoods. Without a model, which needs no download, there are only the first."""
LEAST = 0.5
"""Least probability at which a candidate is kept."""
TRIVIAL, UNFAITHFUL = "trivial", "unfaithful"

_DIGITS = 4


class Verdict(NamedTuple):
    """The verdict on a rewording.

    Attributes:
        keep: whether it is kept.
        reasons: codes of `filters.CHECKS`, or else `trivial`; and `unfaithful` for a
            probability below the threshold. Empty if it is kept.
        faithful: the probability.
    """

    keep: bool
    reasons: tuple[str, ...]
    faithful: float


class Regression(NamedTuple):
    """A logistic regression on columns of `NAMES`."""

    bias: float
    weights: Float[np.ndarray, " features"]

    def probabilities(
        self, columns: Float[np.ndarray, "pairs features"]
    ) -> Float[np.ndarray, " pairs"]:
        """Returns the probability of each row."""
        return 1.0 / (1.0 + np.exp(-(columns @ self.weights + self.bias)))


def columns(
    pairs: Sequence[Pair], model: str = network.BASE
) -> Float[np.ndarray, "pairs features"]:
    """Returns the columns of a model, a key of `NAMES`.

    Raises:
        UserError: a model is not on this machine and cannot be fetched.
    """
    if not model:
        return features.words(pairs)
    found = network.load()
    both = [1.0 - found.similarity(pairs), found.log_odds(pairs)]
    parts = [features.words(pairs), np.stack(both, axis=1)]
    if model == likelihood.MODEL:
        parts.append(likelihood.both(pairs))
    return np.concatenate(parts, axis=1)


def faithful(
    pairs: Sequence[Pair], model: str = network.BASE, least: Sequence[float] = ()
) -> Float[np.ndarray, " pairs"]:
    """Returns the probability that each rewording is well formed and faithful.

    A trivial rewording is faithful.

    Args:
        model: a key of `NAMES`.
        least: least probability of interest of each pair. Where it cannot be reached
            whatever the likelihoods are, they are not computed, and the result is the
            upper bound.

    Raises:
        UserError: see `columns`.
    """
    if not pairs:
        return np.zeros(0)
    judge = regression(model)
    if model == likelihood.MODEL and least:
        # Log-likelihoods are at most 0, and their weights are positive.
        known = np.pad(columns(pairs), [(0, 0), (0, 2)])
        most = np.round(judge.probabilities(known), _DIGITS)
        left = np.flatnonzero(most >= np.array(least)).tolist()
        if left:
            known[left, -2:] = likelihood.both([pairs[place] for place in left])
    else:
        known = columns(pairs, model)
    # Further digits differ between machines.
    return np.round(judge.probabilities(known), _DIGITS)


def verdicts(pairs: Sequence[Pair], least: float = LEAST) -> list[Verdict]:
    """Returns the verdict on each rewording.

    Args:
        least: least probability of a rewording that is kept.

    Raises:
        UserError: see `columns`.
    """
    found = []
    for pair, probability in zip(pairs, faithful(pairs).tolist(), strict=True):
        (codes,) = filters.reasons(pair.original, [pair.candidate], names=())
        if not codes and features.is_trivial(pair):
            codes = (TRIVIAL,)
        if probability < least:
            codes = (*codes, UNFAITHFUL)
        found.append(Verdict(not codes, codes, probability))
    return found


class Metric:
    """The metric `faithful`.

    Attributes:
        by_kind: marks a metric that takes the kinds of the texts.
    """

    by_kind = True

    def __init__(self, model: str = network.BASE):
        """
        Args:
            model: a key of `NAMES`.

        Raises:
            UserError: there is no such key.
        """
        if model not in NAMES:
            raise UserError(
                f"metric 'faithful': model {model!r}: give {network.BASE!r}, "
                f"{likelihood.MODEL!r}, or '' for the words alone."
            )
        self._model = model

    def __call__(
        self,
        sources: Sequence[str],
        candidates: Sequence[str],
        kinds: Sequence[str] | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Returns the probability of each pair; without kinds, all are slots."""
        kinds = [SLOT] * len(sources) if kinds is None else kinds
        rows = zip(kinds, sources, candidates, strict=True)
        return faithful([Pair(*row) for row in rows], self._model)


@functools.cache
def regression(model: str) -> Regression:
    """Returns the numbers of `coefficients.json` for a key of `NAMES`."""
    known = json.loads(COEFFICIENTS.read_text())[model or "words"]
    weights = np.array([known["weights"][name] for name in NAMES[model]])
    return Regression(known["bias"], weights)


def identity(model: str = network.BASE) -> str:
    """Returns the identity of the judge in keys: its code, numbers, and weights.

    Raises:
        UserError: see `columns`.
    """
    code = code_digest("jaxaug.augment.judge", "jaxaug.augment.language")
    paths = [COEFFICIENTS, *(network.files() if model else ())]
    more = [likelihood.identity()] if model == likelihood.MODEL else []
    return digest_of([code, *map(file_digest, paths), *more])


HEADER = ("kind", "original", "candidate")
KINDS = ("slot", "intent", "service", "name", "sentence")

_FIX = (
    "Write a UTF-8 file with a header line and three columns with tabs between: "
    f"{', '.join(HEADER)}."
)
# Pairs that are judged together: a step of the progress bar.
_BLOCK = 256


def run(arguments: Judge) -> int:
    """Runs the verb; see `jaxaug augment judge --help`."""
    if absolute(arguments.input) == absolute(arguments.out):
        raise UserError(f"--out {arguments.out}: is the input. Name another file.")
    pairs = read(arguments.input)
    found = judged(pairs, arguments.least)
    write_text(arguments.out, written(pairs, found))
    kept = sum(one.keep for one in found)
    trivial = sum(TRIVIAL in one.reasons for one in found)
    print(
        f"{kept:,} of {len(pairs):,} candidates kept ({trivial:,} dropped as trivial); "
        f"wrote {arguments.out}"
    )
    return 0


def read(path: PathLike) -> list[Pair]:
    """Returns the pairs of a file.

    Fields are separated by tabs and are not quoted.

    Raises:
        UserError: the file is missing or not UTF-8, the header is not `HEADER`, or a
            line has another number of columns, an unknown kind, or an empty text; names
            the line.
    """
    text = read_text(path, _FIX)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if tuple(lines[0].split("\t")) != HEADER:
        raise UserError(
            f"{path}: line 1 is {shown(lines[0])}, expected the header "
            f"{shown(chr(9).join(HEADER))}. {_FIX}"
        )
    return [_pair(line, f"{path}: line {n}") for n, line in enumerate(lines[1:], 2)]


def _pair(line: str, where: str) -> Pair:
    fields = line.split("\t")
    if len(fields) != len(HEADER):
        raise UserError(
            f"{where}: {len(fields)} columns, expected {len(HEADER)}. {_FIX}"
        )
    kind, *texts = fields
    if kind not in KINDS:
        raise UserError(f"{where}: kind {kind!r}; {suggestion(kind, KINDS)}")
    for name, text in zip(HEADER[1:], texts, strict=True):
        if not text.strip():
            raise UserError(f"{where}: the {name} is empty. Leave the line out.")
    return Pair(kind, *texts)


def judged(pairs: Sequence[Pair], least: float) -> list[Verdict]:
    """Returns the verdicts on many pairs, with a progress bar."""
    starts = range(0, len(pairs), _BLOCK)
    return [
        verdict
        for start in progress(starts, desc="judging", unit="block")
        for verdict in verdicts(pairs[start : start + _BLOCK], least)
    ]


def written(pairs: Sequence[Pair], found: Sequence[Verdict]) -> str:
    """Returns the verdicts as JSON lines, in the order of the pairs."""
    lines = [
        json.dumps(
            {
                "kind": pair.kind,
                "original": pair.original,
                "candidate": pair.candidate,
                "keep": verdict.keep,
                "reasons": verdict.reasons,
                "faithful": verdict.faithful,
            },
            ensure_ascii=False,
        )
        for pair, verdict in zip(pairs, found, strict=True)
    ]
    return "".join(f"{line}\n" for line in lines)
