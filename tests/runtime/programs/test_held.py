"""Examples of an evaluation that are read from TensorFlow once."""

import numpy as np
import pytest
import seqio
import tensorflow as tf
import tensorflow_datasets as tfds
from t5x.feed.data_config import DatasetConfig
from t5x.inference import held as held_lib
from t5x.inference.evaluator import InferenceEvaluator
from t5x.inference.held import held


def counted(size):
    """A dataset of dictionaries, and a list that grows whenever one is read."""
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
    # What a pass does to an example is not seen by the next.
    for example in found:
        del example["ids"]
    assert as_lists(tfds.as_numpy(found)) == expected
    # Transformations are those of the dataset.
    batch = next(iter(found.skip(3).padded_batch(2)))
    assert batch["ids"].numpy().tolist() == [[0, 1, 2, 0], [0, 1, 2, 3]]


def test_a_pass_that_stops_is_not_kept():
    dataset, read = counted(5)
    found = held(dataset)
    assert next(iter(found))["text"] == b"text 0"
    assert len(as_lists(tfds.as_numpy(found))) == 5
    assert read[-5:] == [0, 1, 2, 3, 4]


def test_too_many_examples_are_read_again(monkeypatch):
    monkeypatch.setattr(held_lib, "MOST_EXAMPLES", 4)
    for size, times in ((4, 1), (5, 2)):
        dataset, read = counted(size)
        found = held(dataset)
        assert as_lists(tfds.as_numpy(found)) == as_lists(tfds.as_numpy(found))
        assert read == times * list(range(size))


class Model:
    """As much of a model as the data of an evaluation take."""

    FEATURE_CONVERTER_CLS = seqio.EncDecFeatureConverter


@pytest.fixture
def task():
    name = "held_letters"
    source = seqio.FunctionDataSource(
        lambda split, shuffle_files, seed=None: tf.data.Dataset.from_tensor_slices(
            {"inputs": ["a", "bc"], "targets": ["d", "ef"]}
        ),
        splits=["test"],
    )
    feature = seqio.Feature(seqio.ByteVocabulary())
    seqio.TaskRegistry.add(
        name,
        source=source,
        preprocessors=[seqio.preprocessors.tokenize],
        output_features={"inputs": feature, "targets": feature},
        metric_fns=[lambda targets, predictions: {}],
    )
    yield name
    seqio.TaskRegistry.remove(name)


@pytest.mark.parametrize("in_memory", [True, False])
def test_an_evaluation_holds_what_it_keeps_in_memory(task, in_memory):
    cfg = DatasetConfig(
        mixture_or_task_name=task,
        task_feature_lengths={"inputs": 4, "targets": 4},
        split="test",
        batch_size=2,
        shuffle=False,
        seed=0,
        use_memory_cache=in_memory,
    )
    evaluator = InferenceEvaluator(cfg, seqio.Evaluator, Model, None)._evaluator
    first, second = (list(evaluator.cached_task_datasets[task]) for _ in range(2))
    assert [e["targets"].numpy().tolist() for e in first] == [[103], [104, 105]]
    assert (first[1]["targets"] is second[1]["targets"]) == in_memory
