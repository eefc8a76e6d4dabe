"""A paraphraser of numbered outputs, and scores by number."""

from collections.abc import Sequence

import numpy as np

from jaxaug.curriculum import generate, levels
from jaxaug.curriculum.options import Pairs
from jaxaug.paraphrase.generation import Setting

OPTIONS = generate.Options(model="smollm2", implication="none", beta=0.5)


class Paraphraser:
    """Output i of a text is `<text> <letter><i>`: b for bottom-k, t for top-k, else s.

    Round n counts from 100 n.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def __call__(
        self, number: int, setting: Setting, texts: Sequence[str]
    ) -> list[list[str]]:
        self.calls.append((setting.sampler, setting.num, len(texts)))
        letter, first = setting.sampler[0], 100 * number
        return [[f"{t} {letter}{first + i}" for i in range(setting.num)] for t in texts]


def by_number(pairs: Pairs) -> np.ndarray:
    """Output 0 has similarity 0.98; each further output has 0.02 less."""
    return np.array([0.98 - 0.02 * int(text.split()[-1][1:]) for _, text in pairs])


def flat(item: levels.Levelled) -> list[str]:
    return [text for level in item.levels[1:] for text in level]
