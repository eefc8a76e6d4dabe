"""Lays out rows of examples as features of T5X models, like SeqIO's converters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import nearest
from jaxaug.feed.tokens import Ids, Lengths

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


def find(name: str) -> Layout:
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
