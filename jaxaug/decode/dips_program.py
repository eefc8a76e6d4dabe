"""The selection of the DiPS authors' program (malllabiisc/DiPS), on the host.

The program departs from the equations of the paper (Kumar et al. 2019):

- L1, L2, and D1 are divided by their values on the ground set V, and the root of D2 by
  the root of the size of V;
- L1 of a set X of m candidates is the root of m times the weighted number of n-grams
  that the union of X shares with the source; a new candidate adds its n-grams to the
  square of that;
- L2 averages over the words of the source, not of the candidate; the similarity of
  words is the Gaussian kernel for V and for the chosen set, and the cosine for a new
  candidate;
- D1 counts n-grams of the candidates written one after the other, so also those across
  two candidates;
- R of D2 is the ratio of difflib's `SequenceMatcher`. The chosen set is compared with
  V, but a new candidate with the source: the program passes the text of the source for
  V, and so compares the candidate with each of its characters. Ids have no characters,
  so it is compared with each word of the source here.

F is therefore not submodular. The program visits candidates in the order of a Python
set; here it is the order of the beam, and ties take the lowest index. EOS is no word.
"""

import difflib
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

Words = tuple[int, ...]


def _ngrams(words: Words, n: int) -> set[Words]:
    return {words[i : i + n] for i in range(len(words) - n + 1)}


class _Program:
    """F of the program for one source; see the head of this module."""

    def __init__(
        self,
        ground: Sequence[Words],
        source: Words,
        vectors: Float[np.ndarray, "words d"] | None,
        weights: tuple[Sequence[float], Sequence[float]],
        sigma: float,
        unit: bool,
    ):
        self.ground, self.weights = ground, weights
        self.shared = [
            [_ngrams(x, n) & _ngrams(source, n) for x in ground]
            for n in range(1, len(weights[0]) + 1)
        ]
        self.kernel, self.cosine = self._similarities(source, vectors, sigma, unit)
        self.ratios = [
            sum(difflib.SequenceMatcher(None, v, x).ratio() for v in ground)
            for x in ground
        ]
        alone = [(word,) for word in source]
        self.added = [
            sum(difflib.SequenceMatcher(None, v, x).ratio() for v in alone)
            for x in ground
        ]
        every = range(len(ground))
        self.norms = (
            self.overlap(every),
            math.sqrt(sum(self.kernel)),
            self.distinct(every),
            math.sqrt(len(ground)),
        )

    def _similarities(
        self,
        source: Words,
        vectors: Float[np.ndarray, "words d"] | None,
        sigma: float,
        unit: bool,
    ) -> tuple[list[float], list[float]]:
        """Returns each candidate's similarity to the source: kernel and cosine."""
        if vectors is None or not source:
            return [0.0] * len(self.ground), [0.0] * len(self.ground)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        angles = vectors / np.where(lengths > 0, lengths, 1)
        table = angles if unit else vectors
        kernel, cosine = [], []
        for words in map(list, self.ground):
            if not words:
                kernel.append(0.0)
                cosine.append(0.0)
                continue
            apart = table[list(source)][:, None] - table[words]
            near = np.exp(-(apart**2).sum(axis=2) / sigma**2)
            kernel.append(float(near.max(axis=1).mean()))
            products = angles[list(source)] @ angles[words].T
            cosine.append(float(products.max(axis=1).mean()))
        return kernel, cosine

    def overlap(self, chosen: Sequence[int]) -> float:
        """Returns L1 of a set before its division."""
        unions = (set().union(*(row[i] for i in chosen)) for row in self.shared)
        score = sum(w * len(x) for w, x in zip(self.weights[0], unions, strict=True))
        return math.sqrt(len(chosen) * score)

    def distinct(self, chosen: Sequence[int]) -> float:
        """Returns D1 of candidates in the given order before its division."""
        words = tuple(word for i in chosen for word in self.ground[i])
        return sum(u * len(_ngrams(words, n)) for n, u in enumerate(self.weights[1], 1))

    def scores(self, chosen: Sequence[int], new: int) -> tuple[float, ...]:
        """Returns L1, L2, D1, and D2 of the chosen candidates and a new one."""
        own = (len(row[new]) for row in self.shared)
        added = sum(w * count for w, count in zip(self.weights[0], own, strict=True))
        close = sum(self.kernel[i] for i in chosen) + self.cosine[new]
        parts = (
            math.sqrt(self.overlap(chosen) ** 2 + added),
            math.sqrt(max(close, 0.0)),
            self.distinct([*chosen, new]),
            math.sqrt(sum(self.ratios[i] for i in chosen) + self.added[new]),
        )
        return tuple(
            part / norm if norm else 0.0
            for part, norm in zip(parts, self.norms, strict=True)
        )


def selected(
    ground: Sequence[Words],
    source: Words,
    k: int,
    *,
    vectors: Float[np.ndarray, "words d"] | None,
    lam: float = 0.5,
    mu: Sequence[float] = (1, 1, 1, 1),
    overlap_weights: Sequence[float] = (1 / 3, 1 / 2, 1.0),
    distinct_weights: Sequence[float] = (1.0, 1 / 2, 1 / 3),
    sigma: float = 1.0,
    unit: bool = False,
) -> list[int]:
    """Returns k candidates as the program chooses them, in order of selection."""
    weights = overlap_weights, distinct_weights
    program = _Program(ground, source, vectors, weights, sigma, unit)
    factors = np.array(mu, float) * [lam, lam, 1 - lam, 1 - lam]
    chosen: list[int] = []
    left = list(range(len(ground)))
    while left and len(chosen) < k:
        totals = [factors @ program.scores(chosen, i) for i in left]
        chosen.append(left.pop(int(np.argmax(totals))))
    return chosen


def choose(
    sequences: Int[Array, "n length"],
    lengths: Int[Array, " n"],
    valid: Bool[Array, " n"],
    source: Int[Array, " source_length"],
    source_length: Int[Array, ""],
    k: int,
    *,
    embeddings: Float[Array, "vocab d"] | None,
    options: Any,
) -> Int[Array, " k"]:
    """Calls `selected` from a compiled function; fillers are chosen last, in order."""

    def on_host(sequences, lengths, valid, source, length, table, options):
        real = [i for i in range(len(valid)) if valid[i]]
        words = [tuple(sequences[i, : lengths[i]].tolist()) for i in real]
        ids = tuple(source[:length].tolist())
        found = selected(
            words,
            ids,
            k,
            vectors=np.asarray(table, np.float32) if table.size else None,
            lam=float(options.lam),
            mu=[float(x) for x in options.mu],
            overlap_weights=[float(x) for x in options.overlap_weights],
            distinct_weights=[float(x) for x in options.distinct_weights],
            sigma=float(options.sigma),
            unit=options.of_unit_length,
        )
        rest = [i for i in range(len(valid)) if not valid[i]]
        return np.array(([real[i] for i in found] + rest)[:k], np.int32)

    table = jnp.zeros((0, 0)) if embeddings is None else embeddings
    return jax.pure_callback(
        on_host,
        jax.ShapeDtypeStruct((k,), jnp.int32),
        *(sequences, lengths, valid, source, source_length, table, options),
        vmap_method="sequential",
    )
