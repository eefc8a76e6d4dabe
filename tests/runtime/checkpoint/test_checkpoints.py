"""Round trips, with the data iterator."""

import gin
import jax
import numpy as np
import pytest
from checkpoint_kit import (
    PARTITIONER,
    Iterator,
    assert_same_state,
    folders,
    make_manager,
    make_state,
    save_steps,
)
from jax import numpy as jnp
from t5x import checkpoints
from t5x.checkpoint.folders import dataset_files
from t5x.errors import UserError
from t5x.partitioning import PjitPartitioner


def test_round_trip_is_bit_exact(tmp_path):
    manager = make_manager(tmp_path)
    state = make_state(step=12, seed=5)
    manager.save(state)
    manager.wait_until_finished()
    assert folders(tmp_path) == ["checkpoint_12"]
    other = make_manager(tmp_path)
    assert other.all_steps() == [12]
    assert_same_state(other.restore(), state)
    assert_same_state(other.restore(step=12), state)
    assert_same_state(other.restore(path=str(tmp_path / "checkpoint_12")), state)
    kernel = other.restore().params["layer"]
    assert tuple(kernel["kernel"].sharding.spec) == (None, "model")


def test_saved_values_survive_donation(tmp_path):
    manager = make_manager(tmp_path)
    # Distinct buffers: equal constants may share one, which cannot be donated twice.
    state = jax.tree.map(lambda x: jnp.array(x, copy=True), make_state(step=1))
    expected = jax.tree.map(np.array, state.state_dict())
    manager.save(state)
    step = jax.jit(lambda s: jax.tree.map(lambda x: x + 1, s), donate_argnums=0)
    for _ in range(20):
        state = step(state)
    manager.wait_until_finished()
    loaded = checkpoints.load_t5x_checkpoint(str(tmp_path))
    jax.tree.map(np.testing.assert_array_equal, loaded, expected)


def test_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = make_state(step=3, seed=5)
    manager = make_manager("my runs/x")
    manager.save(state)
    manager.wait_until_finished()
    assert_same_state(manager.restore(), state)
    assert_same_state(manager.restore(path="my runs/x/checkpoint_3"), state)
    expected = checkpoints.load_t5x_checkpoint(tmp_path / "my runs" / "x")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    for path in ("../my runs/x", "../my runs/x/checkpoint_3/"):
        found = checkpoints.load_t5x_checkpoint(path)
        jax.tree.map(np.testing.assert_array_equal, found, expected)
    with pytest.raises(UserError, match=f"{tmp_path}/other/x does not exist"):
        checkpoints.load_t5x_checkpoint("x")


@pytest.mark.parametrize("dtype", ["bfloat16", jnp.bfloat16, None])
def test_save_dtype_applies_to_the_target_only(tmp_path, dtype):
    manager = make_manager(tmp_path, save_dtype=dtype)
    state = make_state(seed=9)
    manager.save(state)
    manager.wait_until_finished()
    loaded = checkpoints.load_t5x_checkpoint(str(tmp_path))
    expected = np.asarray(state.params["layer"]["kernel"])
    if dtype is not None:
        expected = expected.astype(jnp.bfloat16)
    kernel = loaded["target"]["layer"]["kernel"]
    assert kernel.dtype == expected.dtype
    np.testing.assert_array_equal(kernel, expected)
    slot = loaded["state"]["param_states"]["layer"]["kernel"]["v_row"]
    assert slot.dtype == np.float32
    as_float = make_manager(tmp_path, restore_dtype="float32")
    restored = as_float.restore().params["layer"]["kernel"]
    assert restored.dtype == jnp.float32
    np.testing.assert_array_equal(restored, expected.astype(np.float32))


def test_load_t5x_checkpoint_options(tmp_path):
    save_steps(make_manager(tmp_path), 1, 2)
    load = checkpoints.load_t5x_checkpoint
    assert load(str(tmp_path))["state"]["step"] == 2
    assert load(str(tmp_path), step=1)["state"]["step"] == 1
    assert load(str(tmp_path / "checkpoint_1"))["state"]["step"] == 1
    cast = load(str(tmp_path), restore_dtype=jnp.bfloat16)
    assert cast["target"]["layer"]["kernel"].dtype == jnp.bfloat16
    lazy = load(str(tmp_path), lazy_parameters=True)["target"]["layer"]["kernel"]
    assert isinstance(lazy, checkpoints.LazyArray)
    assert (lazy.shape, lazy.size) == ((4, 8), 32)
    np.testing.assert_array_equal(
        lazy.get(), load(str(tmp_path))["target"]["layer"]["kernel"]
    )
    only = load(
        str(tmp_path),
        state_transformation_fns=[lambda tree, _: {"target": tree["target"]}],
    )
    assert set(only) == {"target"}
    with pytest.raises(UserError, match=r"No complete checkpoint of step 7.*\[1, 2\]"):
        load(str(tmp_path), step=7)
    with pytest.raises(UserError, match="does not exist"):
        load(str(tmp_path / "nothing"))


def test_lazy_restore_needs_host_parameters(tmp_path):
    host = PjitPartitioner(num_partitions=1, params_on_devices=False)
    manager = make_manager(tmp_path, partitioner=host)
    state = make_state(seed=2)
    manager.save(state)
    manager.wait_until_finished()
    restored = manager.restore()
    assert isinstance(restored.params["layer"]["kernel"], np.ndarray)
    assert_same_state(restored, state)
    lazy = manager.restore(lazy_parameters=True).params["layer"]["kernel"]
    assert isinstance(lazy, checkpoints.LazyArray)
    np.testing.assert_array_equal(lazy.get(), state.params["layer"]["kernel"])
    device = make_manager(tmp_path)
    with pytest.raises(UserError, match="params_on_devices = False"):
        device.restore(lazy_parameters=True)


def test_save_transformations_change_the_written_values(tmp_path):
    def rename(state_dict, infos):
        for tree in (state_dict, infos):
            tree["target"]["renamed"] = tree["target"].pop("layer")
        return state_dict, infos

    manager = make_manager(tmp_path)
    manager.save(make_state(), state_transformation_fns=[rename])
    manager.wait_until_finished()
    assert set(checkpoints.load_t5x_checkpoint(str(tmp_path))["target"]) == {"renamed"}


def test_saving_a_step_twice_keeps_the_first(tmp_path):
    manager = make_manager(tmp_path)
    manager.save(make_state(4, seed=1))
    assert not manager.save(make_state(4, seed=2))
    manager.wait_until_finished()
    assert_same_state(manager.restore(), make_state(4, seed=1))


def test_nothing_to_restore(tmp_path):
    manager = make_manager(tmp_path)
    with pytest.raises(UserError, match=f"No checkpoints found in {tmp_path}"):
        manager.restore()
    with pytest.raises(ValueError, match="At most one of"):
        manager.restore(step=1, path="x")


def test_orbax_layout_on_disk(tmp_path):
    save_steps(make_manager(tmp_path, Iterator()), 3)
    root = tmp_path / "checkpoint_3"
    assert (root / "_CHECKPOINT_METADATA").is_file()
    assert (root / "state" / "_METADATA").is_file()
    assert (root / "state" / "manifest.ocdbt").is_file()
    assert (root / "dataset" / "train_ds-000-of-001.index").is_file()


def test_checkpointer_has_saved_when_it_returns(tmp_path):
    state = make_state(step=3, seed=1)
    manager = checkpoints.Checkpointer(state, PARTITIONER, str(tmp_path), keep=1)
    assert (manager.save(make_state(2)), manager.save(state)) == (True, True)
    assert folders(tmp_path) == ["checkpoint_3"]
    assert_same_state(manager.restore(), state)


def test_prefix_is_configurable(tmp_path):
    gin.parse_config("t5x.checkpoints.get_checkpoint_prefix.prefix = 'model'")
    try:
        manager = make_manager(tmp_path)
        save_steps(manager, 3)
        assert folders(tmp_path) == ["model_3"]
        assert_same_state(manager.restore(), make_state(3, seed=3))
    finally:
        gin.clear_config()


def test_iterator_position_comes_back(tmp_path):
    iterator = Iterator()
    manager = make_manager(tmp_path, iterator)
    for step in (1, 2):
        next(iterator)
        manager.save(make_state(step))
        next(iterator)
    manager.wait_until_finished()
    fresh = Iterator()
    make_manager(tmp_path, fresh).restore(step=2)
    assert fresh.position == 3
    untouched = Iterator()
    plain = make_manager(tmp_path, untouched)
    plain.restore_dataset = False
    plain.restore()
    assert untouched.position == 0


def test_tf_data_iterator(tmp_path):
    tf = pytest.importorskip("tensorflow")
    iterator = iter(tf.data.Dataset.range(10))
    next(iterator)
    next(iterator)
    manager = make_manager(tmp_path, iterator)
    save_steps(manager, 1)
    fresh = iter(tf.data.Dataset.range(10))
    make_manager(tmp_path, fresh).restore()
    assert int(next(fresh)) == 2


class FailedPreconditionError(Exception):
    """Has the name of TensorFlow's error, by which it is recognized."""


def test_stateful_source_warns_once_and_saves_the_rest(tmp_path, caplog):
    iterator = Iterator(FailedPreconditionError("PyFunc is stateful.\nmore"))
    manager = make_manager(tmp_path, iterator)
    save_steps(manager, 1, 2)
    assert iterator.saves == 1
    (warning,) = [r.message for r in caplog.records if "iterator" in r.message]
    assert "cannot be saved (PyFunc is stateful.)" in warning
    assert "save_dataset = False" in warning
    assert checkpoints.all_dataset_checkpoint_steps(tmp_path) == []
    fresh = Iterator()
    state = make_manager(tmp_path, fresh).restore()
    assert_same_state(state, make_state(2, seed=2))
    assert fresh.position == 0
    assert "starts from its first batch" in caplog.text


def test_position_of_another_host_count_is_not_used(tmp_path, caplog):
    save_steps(make_manager(tmp_path, Iterator()), 1)
    (path,) = dataset_files(tmp_path / "checkpoint_1")
    path.rename(path.parent / "train_ds-000-of-004.index")
    (tmp_path / "checkpoint_1" / "digests.json").unlink()  # names the other file
    fresh = Iterator()
    make_manager(tmp_path, fresh).restore()
    assert fresh.position == 0
    assert "it has that of 4 shards, this run reads 1" in caplog.text


def test_other_iterator_errors_are_not_hidden(tmp_path):
    manager = make_manager(tmp_path, Iterator(RuntimeError("broken iterator")))
    with pytest.raises(RuntimeError, match="broken iterator"):
        save_steps(manager, 1)
    assert checkpoints.all_steps(tmp_path) == []
