"""The legacy layout of the public T5X checkpoints, which is only read."""

import jax
import numpy as np
import pytest
from checkpoint_kit import (
    PARTITIONER,
    assert_same_state,
    folders,
    make_manager,
    make_state,
    write_legacy,
)
from jax import numpy as jnp
from t5x import checkpoints
from t5x.checkpoint import sources
from t5x.errors import UserError

KERNEL = "target/layer/kernel"


@pytest.mark.parametrize(
    "kvstore",
    [
        None,
        lambda path: {"kvstore": {"driver": "gfile", "path": path}},
        lambda path: {
            "kvstore": {"driver": "gcs", "bucket": "t5x-dummy-bucket", "path": path}
        },
        # Old versions had the path at the top level.
        lambda path: {"kvstore": {"driver": "gcs"}, "path": path},
    ],
)
def test_arrays_are_read_where_the_folder_is_now(tmp_path, kvstore):
    state = make_state(step=8, seed=4)
    write_legacy(tmp_path / "checkpoint_8", state, [KERNEL], kvstore)
    assert KERNEL.replace("/", ".") in folders(tmp_path / "checkpoint_8")
    restored = make_manager(tmp_path).restore()
    assert_same_state(restored, state)
    assert tuple(restored.params["layer"]["kernel"].sharding.spec) == (None, "model")
    loaded = checkpoints.load_t5x_checkpoint(tmp_path / "checkpoint_8" / "checkpoint")
    jax.tree.map(np.testing.assert_array_equal, loaded, state.state_dict())


def test_a_run_goes_on_from_its_legacy_checkpoint(tmp_path):
    """The newest checkpoint is kept, and older ones are deleted, in either layout."""
    for step in (1, 2):
        write_legacy(tmp_path / f"checkpoint_{step}", make_state(step), [KERNEL])
    manager = checkpoints.Checkpointer(make_state(), PARTITIONER, str(tmp_path), keep=2)
    assert manager.latest_step() == 2
    assert_same_state(manager.restore(), make_state(2))
    manager.save(make_state(3))
    assert checkpoints.all_steps(tmp_path) == [2, 3]


def test_gs_folders_become_gcs_specs():
    spec = sources._read_spec(
        {"driver": "zarr", "kvstore": {"driver": "file", "path": "target.w/"}},
        "gs://bucket/runs/a/checkpoint_5",
    )
    assert spec["kvstore"] == {
        "driver": "gcs",
        "bucket": "bucket",
        "path": "runs/a/checkpoint_5/target.w/",
    }


@pytest.mark.parametrize("version", [0, 1])
def test_old_versions_are_refused(tmp_path, version):
    write_legacy(tmp_path / "checkpoint_8", make_state(8), version=version)
    with pytest.raises(
        UserError, match=f"earlier than 2 are not supported. Got version: {version}"
    ):
        make_manager(tmp_path).restore()


def test_version_2_bfloat16_stored_as_uint16(tmp_path):
    state = make_state(step=8, seed=4)
    kernel = np.asarray(state.params["layer"]["kernel"])
    # The upper halves of the float32 values are their truncation to bfloat16.
    upper = kernel.view(np.uint16)[..., 1::2]
    scale = np.asarray(state.params["layer"]["scale"])
    stored = state.replace_params({"layer": {"kernel": upper, "scale": scale}})
    write_legacy(tmp_path / "checkpoint_8", stored, [KERNEL], version=2)
    loaded = checkpoints.load_t5x_checkpoint(tmp_path)["target"]["layer"]["kernel"]
    assert loaded.dtype == jnp.bfloat16
    expected = (kernel.view(np.uint32) & 0xFFFF0000).view(np.float32)
    np.testing.assert_array_equal(loaded.astype(np.float32), expected)
    write_legacy(tmp_path / "new", stored, [KERNEL])
    with pytest.raises(UserError, match="uint16.*save it as bfloat16"):
        checkpoints.load_t5x_checkpoint(str(tmp_path / "new"))


def test_truncated_msgpack(tmp_path):
    write_legacy(tmp_path / "checkpoint_8", make_state(8))
    path = tmp_path / "checkpoint_8" / "checkpoint"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match=f"{path} is damaged or incomplete"):
        make_manager(tmp_path).restore()


@pytest.mark.parametrize("damage", ["delete", "truncate", "no array"])
def test_damaged_chunk(tmp_path, damage):
    write_legacy(tmp_path / "checkpoint_8", make_state(8), [KERNEL])
    chunk = tmp_path / "checkpoint_8" / KERNEL.replace("/", ".") / "0.0"
    if damage == "delete":
        chunk.unlink()
    elif damage == "truncate":
        chunk.write_bytes(chunk.read_bytes()[:10])
    else:
        (chunk.parent / ".zarray").unlink()
    with pytest.raises(
        UserError, match=r"checkpoint_8 \(array target/layer/kernel\) is damaged"
    ):
        make_manager(tmp_path).restore()


def test_tensorflow_checkpoints_are_refused(tmp_path):
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')
    (tmp_path / "model.ckpt-2.index").touch()
    for path in (tmp_path, tmp_path / "model.ckpt-2"):
        with pytest.raises(UserError, match=f"^{path} is a TensorFlow checkpoint"):
            checkpoints.load_t5x_checkpoint(path)
