"""SeqIO feature converters that pack a window of examples at a time (`t5x.feed.packing`).

In a gin file, with `DatasetConfig.pack = True`:

    models.EncoderDecoderModel.feature_converter_cls = @packed_converters.enc_dec
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from t5x.feed import packing


def pack_dataset(
    dataset: Any, room: Mapping[str, int], window: int = packing.WINDOW
) -> Any:
    """Packed rows of a dataset of examples.

    The rows depend on the order of the examples alone, and the dataset's iterators can
    be saved and restored as those of its parts can.

    Args:
        dataset: `tf.data.Dataset` of examples, with a vector of tokens for each feature of `room`.
        room: positions of a row for each feature.
        window: examples that are packed together.
    """
    import tensorflow as tf

    specs = dataset.element_spec
    outputs = {}
    for name, length in room.items():
        outputs[name] = tf.TensorSpec((None, length), specs[name].dtype)
        for suffix in ("segment_ids", "positions"):
            outputs[f"{name}_{suffix}"] = tf.TensorSpec((None, length), tf.int32)

    def rows_of(*flat: np.ndarray) -> list[np.ndarray]:
        # Values and lengths of one feature after the other.
        parts = {
            name: np.split(values, np.cumsum(lengths)[:-1])
            for name, values, lengths in zip(room, flat[::2], flat[1::2], strict=True)
        }
        number = len(flat[1])
        examples = [{name: parts[name][i] for name in room} for i in range(number)]
        packed = packing.pack(examples, room)
        return [packed[name] for name in outputs]

    def packed_window(examples: Mapping[str, Any]) -> dict[str, Any]:
        flat = [
            part
            for name in room
            for part in (examples[name].flat_values, examples[name].row_lengths())
        ]
        types = [spec.dtype for spec in outputs.values()]
        rows = tf.numpy_function(rows_of, flat, types, stateful=False)
        return {
            name: tf.ensure_shape(row, spec.shape)
            for (name, spec), row in zip(outputs.items(), rows, strict=True)
        }

    features = dataset.map(lambda example: {name: example[name] for name in room})
    return features.ragged_batch(window).map(packed_window).unbatch()


def _packed(parent: type) -> type:
    """The feature converter with another packing."""

    def pack_or_pad(self: Any, ds: Any, packed_lengths: Mapping[str, int]) -> Any:
        if self.pack:
            return pack_dataset(ds, packed_lengths)
        return parent._pack_or_pad(self, ds, packed_lengths)  # type: ignore[attr-defined]

    return type(f"Packed{parent.__name__}", (parent,), {"_pack_or_pad": pack_or_pad})


def enc_dec(*args: Any, **kwargs: Any) -> Any:
    """`seqio.EncDecFeatureConverter` that packs a window at a time."""
    import seqio

    return _packed(seqio.EncDecFeatureConverter)(*args, **kwargs)


def prefix_lm(*args: Any, **kwargs: Any) -> Any:
    """`seqio.PrefixLMFeatureConverter` (inputs and targets in one sequence), likewise."""
    import seqio

    return _packed(seqio.PrefixLMFeatureConverter)(*args, **kwargs)
