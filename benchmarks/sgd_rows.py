"""Packed rows of a decoder-only tracker, in an order that any stop can resume.

The order is a function of the seed alone: window n draws `WINDOW` examples with a
generator seeded by (seed, n), and example k of a set is entry k of the set's permutation
for that epoch. A window is packed by best fit (`t5x.feed.packing`).
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Int
from t5x.feed import packing

from jaxaug.feed.batches import TokenCache

WINDOW = 256
_DRAWS, _ORDER = 0, 1
Batch = dict[str, Int[np.ndarray, "rows length"]]


class PackedRows:
    """Batches of rows that hold several examples, inputs and targets in one sequence."""

    def __init__(
        self,
        caches: Sequence[TokenCache],
        weights: Callable[[int], Sequence[float]],
        rows: int,
        length: int,
        eos_id: int,
        seed: int,
    ):
        """Prepares the order; reads nothing.

        Args:
            caches: a set of examples each, without EOS.
            weights: step -> probability of each set.
            rows: rows of a batch.
            length: tokens of a row. Longer examples lose the left end of their inputs.
            eos_id: ends inputs and targets.
            seed: of the order.
        """
        self._caches, self._weights = caches, weights
        self._rows, self._length = rows, length
        self._eos_id, self._seed = eos_id, seed
        self._orders: dict[tuple[int, int], np.ndarray] = {}

    def cut(self) -> float:
        """Returns the share of examples that are longer than a row."""
        sizes = [
            np.diff(cache.offsets["inputs"]) + np.diff(cache.offsets["targets"]) + 2
            for cache in self._caches
        ]
        return float(np.mean(np.concatenate(sizes) > self._length))

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Yields the batches from step `start` on, without end."""
        skipped = start * self._rows
        pending: list[list[np.ndarray]] = []
        for rows in self._windows():
            dropped = min(skipped, len(rows))
            skipped -= dropped
            pending += rows[dropped:]
            while len(pending) >= self._rows:
                yield self._batch(pending[: self._rows])
                pending = pending[self._rows :]

    def _windows(self) -> Iterator[list[list[np.ndarray]]]:
        """Yields the rows of each window: lists of examples [2, tokens]."""
        counts = [0] * len(self._caches)
        number = made = 0
        while True:
            draw = np.random.default_rng((self._seed, _DRAWS, number))
            shares = self._weights(made // self._rows)
            chosen = draw.choice(len(self._caches), WINDOW, p=shares).tolist()
            examples = []
            for which in chosen:
                examples.append(self._example(which, counts[which]))
                counts[which] += 1
            lengths = np.array([[example.shape[1]] for example in examples])
            rows = packing.assign(lengths, np.array([self._length]))
            yield [[examples[index] for index in row] for row in rows]
            number, made = number + 1, made + len(rows)

    def _example(self, which: int, count: int) -> Int[np.ndarray, "2 tokens"]:
        """Returns tokens and loss weights of example `count` of a set."""
        cache = self._caches[which]
        epoch, place = divmod(count, len(cache))
        key = which, epoch
        if key not in self._orders:
            draw = np.random.default_rng((self._seed, _ORDER, which, epoch))
            self._orders[key] = draw.permutation(len(cache))
        index = int(self._orders[key][place])
        targets = [*cache.get("targets", index), self._eos_id][: self._length // 2]
        inputs = [*cache.get("inputs", index), self._eos_id]
        inputs = inputs[max(0, len(inputs) + len(targets) - self._length) :]
        weights = [0] * len(inputs) + [1] * len(targets)
        return np.array([[*inputs, *targets], weights], np.int32)

    def _batch(self, rows: Sequence[Sequence[np.ndarray]]) -> Batch:
        examples = [
            {"tokens": example[0], "weights": example[1]}
            for row in rows
            for example in row
        ]
        ends = np.cumsum([0, *map(len, rows)]).tolist()
        places = [range(first, end) for first, end in itertools.pairwise(ends)]
        room = {"tokens": self._length, "weights": self._length}
        filled = packing.fill(examples, places, room)
        tokens, positions = filled["tokens"], filled["tokens_positions"]
        before = np.pad(tokens[:, :-1], ((0, 0), (1, 0)))
        return {
            "decoder_target_tokens": tokens,
            "decoder_input_tokens": np.where(positions == 0, 0, before),
            "decoder_loss_weights": filled["weights"],
            "decoder_segment_ids": filled["tokens_segment_ids"],
            "decoder_positions": positions,
        }
