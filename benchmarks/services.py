"""Intervals that resample the services of a test set together with its dialogues.

The wordings of a schema belong to services, so a figure of v1-5 depends on the choice
of services, too. A resample draws services and dialogues with replacement, and each
frame counts the product of its two numbers (Owen, 2007, the pigeonhole bootstrap). Such
intervals are too wide rather than too narrow.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from jaxaug.metrics.bootstrap import (
    FIGURES,
    RESAMPLES,
    Bootstrap,
    dialogue_sums,
    figures_of,
)
from jaxaug.metrics.frames import FrameTable
from jaxaug.metrics.sensitivity import VARIANTS


class ServiceBootstrap(Bootstrap):
    """A bootstrap over services, dialogues, and seeds.

    The units of sums and counts are cells, service by service: a cell has the frames of
    one service in one dialogue. t has the degrees of freedom of the services that
    define a figure.
    """

    def __init__(
        self,
        sums: Float[np.ndarray, "runs means cells"],
        counts: Float[np.ndarray, "runs means cells"],
        *others: Any,
        services: int,
    ):
        """Draws services and dialogues; `others` are arguments of `Bootstrap`."""
        self._services = services
        super().__init__(sums, counts, *others)
        each = (a.reshape(*a.shape[:2], services, -1).sum(-1) for a in (sums, counts))
        defined = self._figures(*(np.moveaxis(one, -1, 0) for one in each))
        self._defining = (~np.isnan(defined)).sum(axis=0)

    @classmethod
    def of_frames(
        cls,
        tables: Sequence[FrameTable],
        resamples: int = RESAMPLES,
        seed: int = 0,
        chunk: int = 1 << 23,
    ) -> Self:
        """Creates a bootstrap of `FIGURES`; all tables must have the same frames."""
        first = tables[0]
        services, dialogues = len(first.services), len(first.dialogues)
        cells = np.arange(services * dialogues).astype(str)
        place = first.service * dialogues + first.dialogue
        parts = [
            dialogue_sums(replace(one, dialogues=cells, dialogue=place))
            for one in tables
        ]
        sums, counts = (np.array(each) for each in zip(*parts, strict=True))
        highest = np.array(
            [math.sqrt(len(VARIANTS)) if "ss_" in name else 1.0 for name in FIGURES]
        )
        others = (figures_of, highest, resamples, seed, chunk)
        return cls(sums, counts, *others, services=services)

    def _draw(
        self,
        sums: Float[np.ndarray, "runs means cells"],
        counts: Float[np.ndarray, "runs means cells"],
        rows: int,
    ) -> None:
        services, shape = self._services, sums.shape[:2]
        cells = np.concatenate([sums, counts]).reshape(-1, sums.shape[-1])
        dialogues = cells.shape[1] // services
        columns = cells.reshape(-1, dialogues).T.copy()
        rng = np.random.default_rng(self._seed)

        def drawn(size: int, number: int) -> Float[np.ndarray, "number size"]:
            even = np.full(size, 1 / size)
            return rng.multinomial(size, even, number).astype(float)

        for start in range(0, self.resamples, rows):
            number = min(rows, self.resamples - start)
            by_service = (drawn(dialogues, number) @ columns).reshape(
                number, -1, services
            )
            totals = np.einsum("rcs,rs->rc", by_service, drawn(services, number))
            both = totals.reshape(number, 2, *shape)
            self._draws[start : start + number] = self._figures(both[:, 0], both[:, 1])
