"""Batches from token caches: seeded, packed, and resumable, without TensorFlow.

All hosts walk through the same order of rows (`jaxaug.feed.order`). A global batch is a
piece of this order, and each host takes its rows of it. The state of the iterator is
the position of a block of rows and the number of rows used from it.

A layout turns rows of examples into features of T5X models, like SeqIO's converters.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from jaxtyping import Int

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, shown, write_text
from jaxaug.core.suggestion import nearest
from jaxaug.feed.order import BLOCK, Order, Position, Row, Stage, Task
from jaxaug.feed.tokens import Examples, Ids, Lengths

# Part of a saved position: increase it when the same seed gives another order.
_ORDER = 3
_FIX = "Start the data anew by not restoring the dataset."


class _Saved(msgspec.Struct):
    """A saved position, with the number of rows used from its block."""

    position: Position
    used: Annotated[int, msgspec.Meta(ge=0, le=2 * BLOCK)]


class ArraySpec(NamedTuple):
    """Shape and type of one array of a batch."""

    shape: tuple[int, ...]
    dtype: np.dtype


class TokenBatches:
    """Endless (or counted) batches of one host; can be saved and restored.

    A batch is a dict of int32 arrays [rows, length], the features of SeqIO's converter
    for the class of models.
    """

    def __init__(
        self,
        tasks: Sequence[Examples],
        lengths: Lengths,
        batch_size: int,
        *,
        stages: Sequence[Stage] = (),
        seed: int = 0,
        shuffle: bool = True,
        pack: bool = False,
        layout: str = "enc_dec",
        shard: tuple[int, int] = (0, 1),
        num_epochs: int | None = None,
        wordings: int = 1,
    ):
        """Prepares the iterator.

        Args:
            lengths: lengths of `inputs` and `targets`, end of sequence included.
            batch_size: rows of a global batch.
            stages: rates of the tasks by step; by default all are equal.
            shuffle: whether each epoch has a new random order.
            pack: whether a row holds several examples.
            layout: "enc_dec" or "prefix_lm".
            shard: (index, number) of this host among those that share the data.
            num_epochs: stop when a task was read this many times; None never stops.
                Rows that do not fill a global batch are dropped.
            wordings: number of consecutive rows with the same examples in different
                tasks, whose examples correspond by number (`recipes.aligned`). An
                example with other targets in a further task is repeated instead.

        Raises:
            UserError: the batch size is not divisible by the number of hosts times the
                number of wordings, a task has no example, no tasks correspond, or the
                seed is negative.
        """
        if batch_size % (shard[1] * wordings):
            raise UserError(
                f"DatasetConfig.batch_size = {batch_size} does not divide by "
                f"{shard[1]} hosts times {wordings} wordings. Choose a multiple."
            )
        for task in tasks:
            if not len(task):
                raise UserError(
                    f"task {task.name!r} has no example to train on. Look at the data "
                    "with `jaxaug data check` and `jaxaug tasks`: are there dialogues, "
                    "and frames of users?"
                )
        self._tasks, self._lengths = list(tasks), dict(lengths)
        self._batch_size, self._shard, self._pack = batch_size, shard, pack
        self._layout, self._wordings = layout_of(layout), wordings
        stages = stages or [Stage(1, (1.0,) * len(self._tasks))]
        sizes = [self._layout.sizes(task.cut_lengths(lengths)) for task in tasks]
        if wordings > 1:
            sizes = _largest(sizes)
        self._order = Order(
            [Task(task.name, size) for task, size in zip(tasks, sizes, strict=True)],
            stages,
            batch_size // wordings,
            seed=seed,
            shuffle=shuffle,
            room=self._layout.room(lengths) if pack else None,
            num_epochs=num_epochs,
        )
        self._stream = json.loads(
            json.dumps(
                {
                    "order": _ORDER,
                    "tasks": [[task.name, task.cache.name] for task in tasks],
                    "stages": stages,
                    "lengths": self._lengths,
                    "batch_size": batch_size,
                    "seed": seed,
                    "shuffle": shuffle,
                    "pack": pack,
                    "layout": layout,
                    **({"wordings": wordings} if wordings > 1 else {}),
                }
            )
        )
        self.reset()

    @property
    def element_spec(self) -> dict[str, ArraySpec]:
        """Shape and type of every array of a batch."""
        rows = self._batch_size // self._shard[1]
        empty = self._layout.fill([[]] * rows, self._lengths, self._pack)
        return {name: ArraySpec(v.shape, v.dtype) for name, v in empty.items()}

    def __iter__(self) -> "TokenBatches":
        return self

    def __next__(self) -> dict[str, np.ndarray]:
        rows = [self._next_row() for _ in range(self._batch_size // self._wordings)]
        size = len(rows) // self._shard[1]
        mine = rows[self._shard[0] * size :][:size]
        examples = [each for row in mine for each in self._examples(*row)]
        return self._layout.fill(examples, self._lengths, self._pack)

    def _examples(self, number: int, row: Row) -> list[list[dict[str, Ids]]]:
        """Returns the examples of a row, and of the same row in other wordings."""
        first = [self._tasks[which].get(index, self._lengths) for which, index in row]
        found = [first]
        if self._wordings > 1:
            for other in self._order.other_wordings(number, row, self._wordings - 1):
                pairs = zip(other, first, strict=True)
                found.append([self._reworded(*pair) for pair in pairs])
        return found

    def _reworded(
        self, place: tuple[int, int], first: dict[str, Ids]
    ) -> dict[str, Ids]:
        example = self._tasks[place[0]].get(place[1], self._lengths)
        same = np.array_equal(example["targets"], first["targets"])
        return example if same else first

    def _next_row(self) -> tuple[int, Row]:
        """Returns the number of the next row, and its examples."""
        while self._used >= len(self._rows):
            if self._after.ended:
                raise StopIteration
            self._go_to(self._after, 0)
        self._used += 1
        return self._position.row + self._used - 1, self._rows[self._used - 1]

    def _go_to(self, position: Position, used: int) -> None:
        self._position, self._used = position, used
        self._rows, self._after = self._order.block(position)

    def reset(self) -> None:
        """Restarts from the first batch."""
        self._go_to(self._order.start(), 0)

    def save(self, path: PathLike) -> None:
        """Writes the position to the file `path` + `.json`."""
        position = dataclasses.asdict(self._position)
        state = {"position": position, "used": self._used, "stream": self._stream}
        write_text(f"{path}.json", json.dumps(state))

    def restore(self, path: PathLike) -> None:
        """Continues at the position of the iterator that wrote `path`.

        Hosts of one run have the same position.

        Raises:
            UserError: the file is missing or damaged, or comes from other data or
                another seed, batch size, length, or schedule.
        """
        source = f"{path}.json"
        state = read_json(source, _FIX)
        stream = state.get("stream") if isinstance(state, dict) else None
        if not isinstance(stream, dict):
            raise UserError(f"{source}: is no saved position of token batches. {_FIX}")
        for name in sorted({*self._stream, *stream}):
            if name not in self._stream or stream.get(name) != self._stream[name]:
                raise UserError(
                    f"{source}: was saved with {shown(name)} "
                    f"{shown(stream.get(name))}, "
                    f"this run has {shown(self._stream.get(name))}. Use the same "
                    f"settings, or do not restore the dataset."
                )
        try:
            saved = msgspec.convert(state, _Saved)
        except msgspec.ValidationError as error:
            raise UserError(
                f"{source}: is no saved position of token batches: {error}. {_FIX}"
            ) from None
        position, sizes = saved.position, [len(task) for task in self._tasks]
        if (
            position.ended
            or not len(position.counts) == len(position.waiting) == len(sizes)
            or any(
                index >= size
                for size, queue in zip(sizes, position.waiting, strict=True)
                for index in queue
            )
        ):
            raise UserError(
                f"{source}: is no saved position of token batches: it belongs to other "
                f"tasks. {_FIX}"
            )
        self._go_to(position, saved.used)


def _largest(sizes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the largest size of each example among the tasks of the same length.

    Raises:
        UserError: no two tasks have the same number of examples.
    """
    counts = [len(size) for size in sizes]
    if len({*counts}) == len(counts):
        raise UserError(
            f"wordings > 1 with tasks of {shown(counts)} examples: training on several "
            "wordings needs a mixture of schema variants, such as d3st_tree_6x."
        )
    return [
        np.max([other for other in sizes if len(other) == count], axis=0)
        for count in counts
    ]


Pairs = Sequence[Sequence[Mapping[str, Ids]]]
"""The examples of each row, with ids of `inputs` and `targets`."""

Batch = dict[str, Int[np.ndarray, "rows length"]]
Sizes = Mapping[str, Int[np.ndarray, " examples"]]


class Layout(NamedTuple):
    """Layout of rows for one class of models.

    Attributes:
        room: returns the tokens of a row for each of its features.
        sizes: returns the tokens of each example in each feature of a row.
        fill: returns the features of rows, packed or not.
    """

    room: Callable[[Lengths], tuple[int, ...]]
    sizes: Callable[[Sizes], Int[np.ndarray, "examples features"]]
    fill: Callable[[Pairs, Lengths, bool], Batch]


def _encoder_decoder(rows: Pairs, lengths: Lengths, pack: bool) -> Batch:
    """Returns features equal to `seqio.EncDecFeatureConverter`."""
    inputs, targets = (
        _placed([[example[name] for example in row] for row in rows], lengths[name])
        for name in ("inputs", "targets")
    )
    batch = {
        "encoder_input_tokens": inputs.tokens,
        "decoder_target_tokens": targets.tokens,
        "decoder_input_tokens": targets.shifted(pack),
        "decoder_loss_weights": (targets.segments > 0).astype(np.int32),
    }
    if pack:
        batch |= {
            "encoder_segment_ids": inputs.segments,
            "decoder_segment_ids": targets.segments,
            "encoder_positions": inputs.positions,
            "decoder_positions": targets.positions,
        }
    return batch


def _prefix_lm(rows: Pairs, lengths: Lengths, pack: bool) -> Batch:
    """Returns features equal to `seqio.PrefixLMFeatureConverter`.

    Inputs and targets are in one sequence.
    """
    joined = [
        [np.concatenate([e["inputs"], e["targets"]]) for e in row] for row in rows
    ]
    prefixes = [
        [np.full(len(both), len(e["inputs"])) for both, e in zip(*pair, strict=True)]
        for pair in zip(joined, rows, strict=True)
    ]
    length = lengths["inputs"] + lengths["targets"]
    placed, prefix = _placed(joined, length), _placed(prefixes, length).tokens
    inside = placed.segments > 0
    batch = {
        "decoder_target_tokens": placed.tokens,
        "decoder_input_tokens": placed.shifted(pack),
        "decoder_loss_weights": inside & (placed.positions >= prefix),
        "decoder_causal_attention": inside & (placed.positions <= prefix),
    }
    if pack:
        batch["decoder_segment_ids"] = placed.segments
        batch["decoder_positions"] = placed.positions
    return {name: value.astype(np.int32) for name, value in batch.items()}


LAYOUTS: Mapping[str, Layout] = {
    "enc_dec": Layout(
        lambda lengths: (lengths["inputs"], lengths["targets"]),
        lambda sizes: np.stack([sizes["inputs"], sizes["targets"]], axis=1),
        _encoder_decoder,
    ),
    "prefix_lm": Layout(
        lambda lengths: (lengths["inputs"] + lengths["targets"],),
        lambda sizes: (sizes["inputs"] + sizes["targets"])[:, None],
        _prefix_lm,
    ),
}


def layout_of(name: str) -> Layout:
    """Returns a layout.

    Raises:
        UserError: there is no layout with that name.
    """
    if name not in LAYOUTS:
        raise UserError(
            f"{name!r} is no layout of batches. There are {', '.join(LAYOUTS)}."
            f"{nearest(name, LAYOUTS)}"
        )
    return LAYOUTS[name]


class _Placed(NamedTuple):
    """Consecutive sequences in each row.

    Attributes:
        tokens: ids of the sequences, 0 for padding.
        segments: 1, 2, ... for the sequences of a row, 0 for padding.
        positions: 0, 1, ... in each sequence.
    """

    tokens: Int[np.ndarray, "rows length"]
    segments: Int[np.ndarray, "rows length"]
    positions: Int[np.ndarray, "rows length"]

    def shifted(self, pack: bool) -> Int[np.ndarray, "rows length"]:
        """Returns the token before each one, 0 before the first one of a sequence.

        Without packing, the end of sequence is shifted too, as in SeqIO.
        """
        before = np.pad(self.tokens[:, :-1], ((0, 0), (1, 0)))
        if not pack:
            return before
        return np.where(self.positions > 0, before, 0)


def _placed(rows: Sequence[Sequence[Any]], length: int) -> _Placed:
    arrays = [np.zeros((len(rows), length), np.int32) for _ in range(3)]
    for number, row in enumerate(rows):
        start = 0
        for segment, ids in enumerate(row, 1):
            place = number, slice(start, start + len(ids))
            for found, value in zip(
                arrays, (ids, segment, np.arange(len(ids))), strict=True
            ):
                found[place] = value
            start += len(ids)
    return _Placed(*arrays)
