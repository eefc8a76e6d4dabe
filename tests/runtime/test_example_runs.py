"""The example runs of T5.1.1 resolve, and so does inference on files."""

import sys
import types
from pathlib import Path

import gin
import pytest
import seqio
import t5x.examples
from t5x import eval as eval_lib
from t5x import gin_utils, infer, train

FOLDER = Path(t5x.examples.__file__).parent / "t5/t5_1_1/examples"
ENDE, ENFR, C4 = "wmt_t2t_ende_v003", "wmt14_enfr_v003", "c4_v220_span_corruption"
WMT19 = "wmt19_ende_v003"
# Width of the model, task, and for training: steps, batch size, beams, period of
# checkpoints.
TRAIN = {
    "base_c4_pretrain": (768, C4, 100_000, 256, None, 1000),
    "small_c4_pretrain": (512, C4, 10_000, 256, None, 1000),
    "base_wmt14enfr_train": (768, ENFR, 100_000, 128, None, 200),
    "base_wmt14enfr_finetune": (768, ENFR, 1_020_000, 128, 4, 5000),
    "base_wmt_finetune": (768, ENDE, 1_020_000, 128, 4, 5000),
    "small_wmt_finetune": (512, ENDE, 1_020_000, 128, None, 5000),
    "base_wmt19_ende_train": (768, WMT19, 5000, 128, 4, 500),
    "base_wmt_from_scratch": (768, ENDE, 50_000, 128, 4, 5000),
    "base_wmt_from_scratch_adamw": (768, ENDE, 50_000, 128, 4, 5000),
    "base_wmt_from_scratch_lion": (768, ENDE, 50_000, 128, 4, 5000),
    "test_train_t5_tiny": (8, WMT19, 3, 8, None, 4),
    "test_train_eval_t5_tiny": (8, WMT19, 0, 8, None, 4),
}
OTHERS = {
    "base_wmt_eval": "evaluate",
    "base_wmt14enfr_eval": "evaluate",
    "base_wmt_infer": "infer",
}


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """Installs `t5` as an empty package, and the programs where gin files look."""
    for name in ("t5", "t5.data", "t5.data.mixtures"):
        package = types.ModuleType(name)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, name, package)
        parent, _, child = name.rpartition(".")
        if parent:
            monkeypatch.setattr(sys.modules[parent], child, package, raising=False)
    main = sys.modules["__main__"]
    for function in (
        train.train,
        eval_lib.evaluate,
        infer.infer,
        infer.create_task_from_tfexample_file,
    ):
        monkeypatch.setattr(main, function.__name__, function, raising=False)
        monkeypatch.setattr(function, "__module__", "__main__")
    gin.clear_config()
    yield
    gin.clear_config()


def parse(*names, bindings=()):
    gin.clear_config()
    includes = [f"include 't5x/{name}.gin'" for name in names]
    start = "from __gin__ import dynamic_registration"
    # Not finalized, because users must give folders and checkpoints.
    gin_utils.parse_gin_flags(
        [], [], [start, *includes, *bindings], finalize_config=False
    )


def bound(name):
    """Returns the value that a parameter resolves to, or None."""
    try:
        value = gin.query_parameter(name)
    except ValueError:
        return None
    macro = str(value)
    return gin.query_parameter(macro) if macro.startswith("%") else value


def test_table_is_complete():
    found = {path.stem for path in FOLDER.glob("*.gin")}
    assert found == {*TRAIN, *OTHERS}


@pytest.mark.parametrize("name", TRAIN)
def test_training(name):
    parse(f"examples/t5/t5_1_1/examples/{name}")
    assert (
        bound("t5.network.T5Config.emb_dim"),
        gin.query_parameter("%MIXTURE_OR_TASK_NAME"),
        bound("train.total_steps"),
        bound("train/utils.DatasetConfig.batch_size"),
        bound("models.EncoderDecoderModel.predict_batch_with_aux.num_decodes"),
        bound("utils.SaveCheckpointConfig.period"),
    ) == TRAIN[name]
    published = bound("utils.RestoreCheckpointConfig.path")
    if TRAIN[name][2] == 1_020_000:
        size = name.split("_")[0]
        assert published == (
            f"gs://t5-data/pretrained_models/t5x/t5_1_1_{size}/checkpoint_1000000"
        )
    else:
        assert not published


def test_optimizers_of_optax():
    for name, rate in (("adamw", 1e-4), ("lion", 5e-5)):
        parse(f"{FOLDER.relative_to(FOLDER.parents[3])}/base_wmt_from_scratch_{name}")
        optimizer = gin.query_parameter("%OPTIMIZER").scoped_configurable_fn()
        assert type(optimizer).__name__ == "OptaxWrapper"
        assert bound("optax.warmup_cosine_decay_schedule.peak_value") == rate
        schedule = gin.query_parameter(f"optax.{name}.learning_rate")
        # The peak after 1,000 steps, and zero at the end of training.
        assert float(schedule.scoped_configurable_fn()(1000)) == pytest.approx(rate)
        assert float(schedule.scoped_configurable_fn()(50_000)) == 0.0


@pytest.mark.parametrize("name", OTHERS)
def test_evaluation_and_inference(name):
    parse(f"examples/t5/t5_1_1/examples/{name}")
    assert bound(f"{OTHERS[name]}.partitioner") is not None
    assert bound("utils.DatasetConfig.split") == "test"
    assert bound("utils.DatasetConfig.batch_size") == 32
    assert bound("utils.RestoreCheckpointConfig.mode") == "specific"


def test_inference_on_files_of_examples(tmp_path):
    import tensorflow as tf

    path = tmp_path / "texts.tfrecord"
    text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"ab"]))
    example = tf.train.Example(features=tf.train.Features(feature={"inputs": text}))
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(example.SerializeToString())
    parse(
        "examples/t5/t5_1_1/tiny",
        "configs/runs/infer_from_tfexample_file",
        bindings=[
            "import seqio",
            "VOCABULARY = @seqio.ByteVocabulary()",
            "DROPOUT_RATE = 0.0",
            f"TF_EXAMPLE_FILE_PATHS = ['{path}']",
            "TF_EXAMPLE_FILE_TYPE = 'tfrecord'",
            "FEATURE_LENGTHS = {'inputs': 8, 'targets': 4}",
            "CHECKPOINT_PATH = 'x'",
            "INFER_OUTPUT_DIR = 'y'",
        ],
    )
    config = gin.query_parameter("infer.dataset_cfg").scoped_configurable_fn()
    try:
        task = seqio.get_mixture_or_task(config.mixture_or_task_name)
        dataset = task.get_dataset(config.task_feature_lengths, config.split)
        (row,) = dataset.as_numpy_iterator()
    finally:
        seqio.TaskRegistry.remove(config.mixture_or_task_name)
    # Byte ids start after padding, EOS, and the unknown token.
    assert row["inputs"].tolist() == [ord("a") + 3, ord("b") + 3, 1]
    assert (config.split, config.batch_size) == ("infer", 32)
