"""Preprocessors of the tasks; tf.data ops only, so that streams can be saved."""

from collections.abc import Mapping

import seqio
import tensorflow as tf


def truncate_inputs_left(
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    sequence_length: Mapping[str, int] | None = None,
) -> tf.data.Dataset:
    """Cuts tokenised inputs from the left, so that the last turns are kept.

    Leaves room for the end of sequence where the feature has one. SeqIO by itself
    would cut from the right. `jaxaug.feed.lengths` counts them.
    """
    limit = (sequence_length or {}).get("inputs")
    if limit is None:
        return dataset
    keep = limit - int(output_features["inputs"].add_eos)

    def truncate(example: Mapping[str, tf.Tensor]) -> Mapping[str, tf.Tensor]:
        inputs = example["inputs"]
        start = tf.maximum(tf.shape(inputs)[0] - keep, 0)
        return {**example, "inputs": inputs[start:]}

    return dataset.map(truncate, num_parallel_calls=tf.data.AUTOTUNE)
