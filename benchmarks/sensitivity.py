"""Simulates `jaxaug sensitivity`: how often it calls servers sensitive.

    python benchmarks/sensitivity.py [--seeds 200] [--permutations 199]

A server answers a case rightly with a probability. Wording-blind servers have the same
probability under all wordings; "sensitive" is then a false alarm. Planted losses lower
the accuracy under one of five rewordings: a *steady* server loses some cases for good,
and a *noisy* server is right less often in every case. "Needed" rows have the number of
cases that a report of a smaller run says would show a loss.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jaxaug.metrics import excess

REWORDINGS = 5


class Setting(NamedTuple):
    """A simulated server and the run that measures it.

    Attributes:
        server: "blind", "steady", or "noisy".
        accuracy: accuracy under the wordings without a loss.
        cases: number of cases.
        repeats: answers to each case under each wording; the control adds as many.
        loss: lost accuracy under one rewording.
    """

    server: str
    accuracy: float
    cases: int
    repeats: int = 1
    loss: float = 0.0


def wordings_of(repeats: int) -> np.ndarray:
    """Returns the wording of each answer: the original twice, then the rewordings."""
    return np.repeat([0, 0, *range(1, 1 + REWORDINGS)], repeats)


def draw(setting: Setting, rng: np.random.Generator) -> np.ndarray:
    """Returns scores [cases, answers]."""
    wordings = wordings_of(setting.repeats)
    shape = setting.cases, len(wordings)
    if setting.server == "steady":
        right = rng.random((setting.cases, 1)) < setting.accuracy
        lost = rng.random((setting.cases, 1)) < setting.loss / setting.accuracy
        return (right & ~(lost & (wordings == REWORDINGS))).astype(float)
    chance = setting.accuracy - setting.loss * (wordings == REWORDINGS)
    return (rng.random(shape) < chance).astype(float)


def found(setting: Setting, seeds: int, permutations: int) -> float:
    """Returns the share of seeds with a p-value of at most the level."""
    wordings, clusters = wordings_of(setting.repeats), np.arange(setting.cases)
    number = 0
    for seed in range(seeds):
        scores = draw(setting, np.random.default_rng([seed, setting.cases]))
        test = excess.permutation_test(scores, wordings, clusters, permutations, seed)
        number += test.p <= excess.ALPHA
    return number / seeds


def needed(setting: Setting, seed: int = 0) -> Setting:
    """Returns the setting with the number of cases that a blind run says it needs."""
    blind = setting._replace(loss=0.0)
    scores = draw(blind, np.random.default_rng(seed))
    wordings, clusters = wordings_of(setting.repeats), np.arange(setting.cases)
    cases = excess.cases_needed(scores, wordings, clusters, setting.loss)
    return setting._replace(cases=cases)


def settings() -> Iterator[Setting]:
    """Yields the rows of the table."""
    for accuracy in (0.5, 0.8, 0.95):
        for cases in (30, 100, 300):
            yield Setting("blind", accuracy, cases)
            yield Setting("blind", accuracy, cases, 2)
    for accuracy in (0.8, 0.95):
        for repeats in (1, 2, 5):
            yield Setting("steady", accuracy, 100, repeats, 0.1)
            yield Setting("noisy", accuracy, 100, repeats, 0.1)
    for server in ("steady", "noisy"):
        yield needed(Setting(server, 0.8, 100, 1, 0.05))
        yield needed(Setting(server, 0.95, 100, 2, 0.05))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--permutations", type=int, default=199)
    arguments = parser.parse_args()
    print("server  accuracy  cases  repeats  loss  sensitive")
    for one in settings():
        share = found(one, arguments.seeds, arguments.permutations)
        print(
            f"{one.server:<8}{100 * one.accuracy:8.0f}{one.cases:7}{one.repeats:9}"
            f"{100 * one.loss:6.0f}{100 * share:10.1f}%",
            flush=True,
        )


if __name__ == "__main__":
    main()
