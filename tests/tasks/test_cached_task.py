"""Tracing of the preprocessors of our tasks."""

import pytest

pytest.importorskip("seqio")

import seqio
import tensorflow as tf

from tasks.cached_task import CachedTask


def doubled_where_short(example):
    if tf.size(example["targets"]) < 2:
        return {"targets": 2 * example["targets"]}
    return example


def stream(function):
    source = seqio.FunctionDataSource(
        lambda split, shuffle_files, seed=None: tf.data.Dataset.from_tensor_slices(
            {"targets": tf.ragged.constant([[1], [2, 3]])}
        ).map(lambda example: {"targets": example["targets"]}),
        splits=["train"],
    )
    task = CachedTask(
        "short_targets",
        source=source,
        preprocessors=[lambda ds: ds.map(function)],
        output_features={"targets": seqio.Feature(seqio.PassThroughVocabulary(9))},
    )
    found = task.get_dataset(None, "train", shuffle=False)
    return [example["targets"].tolist() for example in found.as_numpy_iterator()]


def test_a_preprocessor_that_decides_over_tensors_is_a_tf_function():
    assert stream(tf.function(doubled_where_short)) == [[2], [2, 3]]
    with pytest.raises(TypeError, match="as a Python `bool`.*@tf.function"):
        stream(doubled_where_short)
