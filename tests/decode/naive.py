"""Plain Python versions of the set selectors, for tests and benchmarks."""

import itertools
import math
from collections.abc import Callable, Sequence

Tokens = Sequence[int]
TIE = 1e-5


def edit(a: Tokens, b: Tokens) -> int:
    """Returns the Levenshtein distance, by the textbook table."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y)))
    return row[-1]


def ngrams(tokens: Tokens, n: int) -> set[tuple[int, ...]]:
    return {tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)}


def dissimilarity(a: Tokens, b: Tokens) -> float:
    return edit(a, b) / max(len(a) + len(b), 1)


class Dips:
    """F of sets of indices into `ground`; common terms are computed once."""

    def __init__(
        self,
        ground: Sequence[Tokens],
        source: Tokens,
        embeddings: Sequence[Sequence[float]],
        lam: float,
        overlap_weights: Sequence[float] = (1 / 3, 1 / 2, 1.0),
        distinct_weights: Sequence[float] = (1.0, 1 / 2, 1 / 3),
        mu: Sequence[float] = (1, 1, 1, 1),
        rbf_sigma: float = 0.8,
        variant: str = "equation3",
        unit: bool = True,
    ):
        self.lam, self.distinct_weights, self.size = lam, distinct_weights, len(ground)
        self.root_of_d2 = variant == "normalized"
        if unit:
            embeddings = [
                [x / (math.sqrt(sum(x * x for x in row)) or 1) for x in row]
                for row in embeddings
            ]
        self.overlap = [
            sum(
                w * len(ngrams(x, n) & ngrams(source, n))
                for n, w in enumerate(overlap_weights, 1)
            )
            for x in ground
        ]
        near: dict[int, float] = {}
        for token in {token for x in ground for token in x}:
            squares = (
                sum(
                    (a - b) ** 2
                    for a, b in zip(embeddings[token], embeddings[s], strict=True)
                )
                for s in set(source)
            )
            near[token] = max((math.exp(-d / rbf_sigma**2) for d in squares), default=0)
        self.closeness = [
            sum(near[token] for token in x) / len(x) if x else 0.0 for x in ground
        ]
        self.sets = [
            [ngrams(x, n) for n in range(1, len(distinct_weights) + 1)] for x in ground
        ]
        resemblance = {
            (i, j): 1 - dissimilarity(ground[i], ground[j])
            for i, j in itertools.combinations(range(len(ground)), 2)
        }
        self.centrality = [
            1
            + sum(
                resemblance[min(i, j), max(i, j)] for j in range(len(ground)) if i != j
            )
            for i in range(len(ground))
        ]
        self.scale = list(mu)
        if variant == "normalized":
            whole = self._parts(range(len(ground)))
            whole[3] = math.sqrt(len(ground))
            self.scale = [m / v if v else 0.0 for m, v in zip(mu, whole, strict=True)]

    def _parts(self, chosen: Sequence[int]) -> list[float]:
        coverage = sum(self.centrality[i] for i in chosen)
        return [
            math.sqrt(sum(self.overlap[i] for i in chosen)),
            math.sqrt(sum(self.closeness[i] for i in chosen)),
            sum(
                u * len(set().union(*(self.sets[i][n] for i in chosen)))
                for n, u in enumerate(self.distinct_weights)
            ),
            math.sqrt(coverage) if self.root_of_d2 else coverage,
        ]

    def components(self, chosen: Sequence[int]) -> dict[str, float]:
        l1, l2, d1, d2 = (
            s * v for s, v in zip(self.scale, self._parts(chosen), strict=True)
        )
        total = self.lam * (l1 + l2) + (1 - self.lam) * (d1 + d2)
        return {"l1": l1, "l2": l2, "d1": d1, "d2": d2, "total": total}

    def value(self, chosen: Sequence[int]) -> float:
        return self.components(chosen)["total"]


def greedy(value: Callable[[Sequence[int]], float], size: int, k: int) -> list[int]:
    """Adds the item of largest gain k times; ties take the lowest index."""
    chosen: list[int] = []
    for _ in range(k):
        base = value(chosen) if chosen else 0.0
        gains = {i: value([*chosen, i]) - base for i in range(size) if i not in chosen}
        best = max(gains.values())
        chosen.append(
            min(i for i, gain in gains.items() if gain >= best - TIE * abs(best))
        )
    return chosen


def best_subset(
    value: Callable[[Sequence[int]], float], size: int, k: int
) -> tuple[float, tuple[int, ...]]:
    """Returns the largest value of any set of k items."""
    return max((value(x), x) for x in itertools.combinations(range(size), k))


def beam(
    next_log_probs: Callable[[Tokens], Sequence[float]],
    choose: Callable[[list[list[int]]], Sequence[int]],
    k: int,
    m: int,
    keep: int,
    steps: int,
    eos_id: int,
    norm: Callable[[Tokens], float],
) -> tuple[list[tuple[list[int], float]], list[tuple[list[int], float]]]:
    """Beam search on lists; returns the finished hypotheses, best first, and the beams.

    `choose` selects k of the m candidates, which are sorted, best first. Finished
    hypotheses leave the beam. The best `keep` of the selected and of the k most
    probable ones stay finished, by log probability over `norm`.
    """
    beams: list[tuple[list[int], float]] = [([], 0.0)]
    pool: list[tuple[list[int], float]] = []
    for _ in range(steps):
        grown = [
            ([*tokens, token], score + value)
            for tokens, score in beams
            for token, value in enumerate(next_log_probs(tokens))
        ]
        grown.sort(key=lambda item: -item[1])
        grown = grown[:m]
        chosen = choose([x for x, _ in grown])
        pool += [
            x
            for i, x in enumerate(grown)
            if x[0][-1] == eos_id and (i in chosen or i < k)
        ]
        pool.sort(key=lambda item: -item[1] / norm(item[0]))
        del pool[keep:]
        growing = [i for i, x in enumerate(grown) if x[0][-1] != eos_id]
        first = [i for i in growing if i in chosen]
        first += [i for i in growing if i not in chosen]
        beams = [grown[i] for i in sorted(first[:k])]
        if len(pool) == keep:
            break
    return pool, beams
