"""Evaluation examples that are read from TensorFlow once."""

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from t5x.inference import evaluator
from t5x.inference.evaluator import held


def counted(size):
    """Returns a dataset of dictionaries, and a list that grows at each pass over it."""
    read = []

    def examples():
        for i in range(size):
            read.append(i)
            yield {"ids": np.arange(i), "text": f"text {i}"}

    spec = {
        "ids": tf.TensorSpec([None], tf.int64),
        "text": tf.TensorSpec([], tf.string),
    }
    return tf.data.Dataset.from_generator(examples, output_signature=spec), read


def as_lists(examples):
    return [(e["ids"].tolist(), e["text"].decode()) for e in examples]


def test_all_passes_see_the_same_of_one_reading():
    dataset, read = counted(5)
    expected = as_lists(tfds.as_numpy(dataset))
    read.clear()
    found = held(dataset)
    for _ in range(3):
        assert as_lists(tfds.as_numpy(found)) == expected
        assert as_lists(found.as_numpy_iterator()) == expected
    assert read == [0, 1, 2, 3, 4]
    assert found.element_spec == dataset.element_spec
    # Changes to an example in one pass do not affect the next pass.
    for example in found:
        del example["ids"]
    assert as_lists(tfds.as_numpy(found)) == expected
    # Transformations are the dataset's.
    batch = next(iter(found.skip(3).padded_batch(2)))
    assert batch["ids"].numpy().tolist() == [[0, 1, 2, 0], [0, 1, 2, 3]]


def test_a_pass_that_stops_is_not_kept():
    dataset, read = counted(5)
    found = held(dataset)
    assert next(iter(found))["text"] == b"text 0"
    assert len(as_lists(tfds.as_numpy(found))) == 5
    assert read[-5:] == [0, 1, 2, 3, 4]


def test_too_many_examples_are_read_again(monkeypatch):
    monkeypatch.setattr(evaluator, "MOST_EXAMPLES", 4)
    for size, times in ((4, 1), (5, 2)):
        dataset, read = counted(size)
        found = held(dataset)
        assert as_lists(tfds.as_numpy(found)) == as_lists(tfds.as_numpy(found))
        assert read == times * list(range(size))
