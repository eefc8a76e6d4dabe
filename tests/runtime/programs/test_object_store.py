"""A run in gs://, for which TensorFlow's in-memory file system stands in.

epath uses TensorFlow for gs://. Here each gs:// path that it passes on becomes ram://,
so everything else is as on the store: folders cannot be renamed, files cannot be
appended to, and Python's `open` cannot write.
"""

import json
import os
import types

import jax
import pytest
from etils import epath
from flax import serialization
from jaxaug_base.event_files import read_scalars
from t5x import checkpoints, digests, gin_utils, utils
from t5x.logs.metrics_writer import TensorBoardWriter
from t5x.trainer import PreemptionError
from toy_run import Numbers, same_params

tf = pytest.importorskip("tensorflow")


def swap(value, old, new):
    if isinstance(value, str):
        return new + value[len(old) :] if value.startswith(old) else value
    if isinstance(value, (list, tuple)):
        return type(value)(swap(item, old, new) for item in value)
    return value


@pytest.fixture
def bucket(request, monkeypatch):
    """Returns an empty folder in gs://."""
    from etils.epath import backend

    def on_ram(name):
        def call(*args, **kwargs):
            paths = [swap(os.fspath(a), "gs://", "ram://") for a in args[:2]]
            return swap(
                getattr(tf.io.gfile, name)(*paths, *args[2:], **kwargs),
                "ram://",
                "gs://",
            )

        return call

    def open_file(path, mode):
        # Unlike in the store, files in memory keep their earlier content.
        if "w" in mode and gfile.exists(path):
            gfile.remove(path)
        return on_ram("GFile")(path, mode)

    names = ("exists", "isdir", "listdir", "glob", "makedirs", "mkdir")
    names += ("rmtree", "remove", "rename", "stat")
    gfile = types.SimpleNamespace(
        GFile=open_file, **{name: on_ram(name) for name in names}
    )
    monkeypatch.setattr(backend._TfBackend, "gfile", gfile)
    folder = epath.Path("gs://bucket") / request.node.name.replace("[", "_").strip("]")
    folder.mkdir(parents=True)
    return folder


class StoredNumbers(Numbers):
    """Saves its position through epath."""

    def save(self, path):
        epath.Path(f"{os.fspath(path)}.json").write_text(json.dumps(self.position))

    def restore(self, path):
        text = epath.Path(f"{os.fspath(path)}.json").read_text()
        self.position = json.loads(text)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_event_files(bucket):
    writer = TensorBoardWriter(os.fspath(bucket / "train"))
    writer.write_scalars(1, {"loss": 2.5})
    writer.flush()
    assert read_scalars(bucket / "train") == {"loss": {1: 2.5}}
    writer.write_scalars(2, {"loss": 0.5})
    assert read_scalars(bucket / "train") == {"loss": {1: 2.5}}
    writer.close()
    assert read_scalars(bucket / "train") == {"loss": {1: 2.5, 2: 0.5}}
    assert len(names(bucket / "train")) == 1


class StoreManager(checkpoints.OrbaxCheckpointManagerInterface):
    """Writes one msgpack file, because orbax cannot write to files in memory."""

    def save(self, train_state, state_transformation_fns=(), force=True):
        del state_transformation_fns, force
        step = int(train_state.step)
        folder = epath.Path(checkpoints.get_checkpoint_dir(self.directory, step))
        folder.mkdir(parents=True, exist_ok=True)
        self._dataset.save(folder)
        tree = {"version": 3, "optimizer": jax.device_get(train_state.state_dict())}
        (folder / "checkpoint").write_bytes(serialization.msgpack_serialize(tree))
        digests.write(folder)


def test_training(bucket, run_train, tmp_path):
    def run(folder, stop_at=None, **kwargs):
        def on_batch(number):
            if number == stop_at:
                raise PreemptionError("stopped")

        def get_dataset(cfg, shard_id, num_shards, converter):
            return StoredNumbers(on_batch=on_batch)

        return run_train(
            os.fspath(folder),
            get_dataset_fn=get_dataset,
            summarize_config_fn=gin_utils.summarize_gin_config,
            checkpoint_cfg=utils.CheckpointConfig(
                save=utils.SaveCheckpointConfig(
                    period=4, checkpoint_manager_cls=StoreManager
                )
            ),
            **kwargs,
        )

    _, straight = run(tmp_path / "straight")
    with pytest.raises(PreemptionError, match=f"is saved in {bucket}; run the same"):
        run(bucket, stop_at=6)
    assert "unfinished_run.json" in names(bucket)
    _, resumed = run(bucket)
    same_params(straight, resumed)
    assert names(bucket) == [
        "checkpoint_4", "checkpoint_6", "checkpoint_8", "config.gin",
        "config_digest.json", "finished_run.json", "inference_eval", "model-info.txt",
        "train",
    ]  # fmt: skip
    assert checkpoints.all_steps(bucket) == [4, 6, 8]
    assert names(bucket / "checkpoint_8") == [
        "checkpoint",
        "digests.json",
        "train_ds-000-of-001.json",
        "train_ds-000-of-001.pending.json",
        "train_ds-000-of-001.pending.npz",
    ]
    losses = read_scalars(bucket / "train")["loss"]
    assert sorted(losses) == [4, 6, 8]
    assert losses[4] == read_scalars(tmp_path / "straight" / "train")["loss"][4]
