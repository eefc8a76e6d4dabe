"""Preprocessors of the tasks; they use only tf.data ops, so streams can be saved."""

from collections.abc import Mapping

import seqio
import tensorflow as tf


def truncate_inputs_left(
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    sequence_length: Mapping[str, int] | None = None,
) -> tf.data.Dataset:
    """Cuts tokenized inputs from the left, so that the last turns are kept.

    It leaves room for the end of sequence if the feature has one. SeqIO would cut from
    the right. `jaxaug.feed.lengths` counts the cut inputs.
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
