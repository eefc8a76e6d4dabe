"""The data of an evaluator: its cache, and how it is traced."""

import functools

import pytest
import seqio
import tensorflow as tf
from t5x.feed.registered import DatasetConfig
from t5x.inference.evaluator import InferenceEvaluator


class Model:
    """The part of a model that the data of an evaluation use."""

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


def evaluator(task, in_memory=True):
    cfg = DatasetConfig(
        mixture_or_task_name=task, task_feature_lengths={"inputs": 4, "targets": 4},
        split="test", batch_size=2, shuffle=False, seed=0, use_memory_cache=in_memory,
    )  # fmt: skip
    return InferenceEvaluator(cfg, seqio.Evaluator, Model, None)._evaluator


@pytest.mark.parametrize("in_memory", [True, False])
def test_an_evaluation_holds_what_it_keeps_in_memory(task, in_memory):
    datasets = evaluator(task, in_memory).cached_task_datasets
    first, second = (list(datasets[task]) for _ in range(2))
    assert [e["targets"].numpy().tolist() for e in first] == [[103], [104, 105]]
    assert (first[1]["targets"] is second[1]["targets"]) == in_memory


def test_a_step_that_is_evaluated_again_has_one_line(task, tmp_path):
    cfg = DatasetConfig(task, {"inputs": 4, "targets": 4}, "test", 2, False, 0)
    cls = functools.partial(seqio.Evaluator, logger_cls=[seqio.JSONLogger])
    found = InferenceEvaluator(cfg, cls, Model, None, log_dir=str(tmp_path))
    (logger,) = found._evaluator.loggers
    path = tmp_path / "inference_eval" / f"{task}-metrics.jsonl"

    def log(step, value):
        metrics = {"score": seqio.metrics.Scalar(value)}
        logger(task, step, metrics, None, None, None)

    log(4, 0.25)
    log(8, 0.5)
    path.write_text(path.read_text() + "damaged\n[1]\n")
    log(8, 0.75)
    log(12, 1.0)
    assert path.read_text().splitlines() == [
        '{"step": 4, "score": 0.25}',
        "damaged",
        "[1]",
        '{"step": 8, "score": 0.75}',
        '{"step": 12, "score": 1.0}',
    ]


class Deciding(seqio.EncDecFeatureConverter):
    """A decision over tensors, which only AutoGraph can trace."""

    def _convert_features(self, ds, task_feature_lengths):
        def negated_where_there_are_two(features):
            tokens = features["encoder_input_tokens"]
            if tf.math.count_nonzero(tokens) == 2:
                tokens = -tokens
            return features | {"encoder_input_tokens": tokens}

        found = super()._convert_features(ds, task_feature_lengths)
        return found.map(negated_where_there_are_two)


def test_a_converter_of_ones_own_may_need_autograph(task, monkeypatch):
    monkeypatch.setattr(Model, "FEATURE_CONVERTER_CLS", Deciding)
    found = evaluator(task).cached_model_datasets[task].as_numpy_iterator()
    inputs = [features["encoder_input_tokens"].tolist() for _, features in found]
    assert inputs == [[100, 0, 0, 0], [-101, -102, 0, 0]]


def test_converters_of_seqio_do_without(task, monkeypatch):
    monkeypatch.setattr(Model, "FEATURE_CONVERTER_CLS", Deciding)
    monkeypatch.setattr(Deciding, "__module__", seqio.EncDecFeatureConverter.__module__)
    with pytest.raises(TypeError, match=r"tf.Tensor.* as a Python `bool`"):
        evaluator(task)
