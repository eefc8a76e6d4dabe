"""Two processes on one machine: partitioned calls, and checkpoints."""

import pathlib
import textwrap

import numpy as np
import pytest
from process_kit import free_port, run_together
from t5x import checkpoints

WORKER = """
    import pathlib, sys
    import jax
    import numpy as np
    from flax.linen import partitioning as flax_partitioning
    from jax import numpy as jnp
    from jax.sharding import PartitionSpec as P

    rank, port, folder = int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)

    sys.path.insert(0, sys.argv[4])
    from checkpoint_kit import write_legacy
    from t5x import checkpoints, distributed, partitioning, train_state
    from t5x.errors import UserError

    class Iterator:
        position = 0

        def save(self, path):
            pathlib.Path(path).write_text(str(self.position))

        def restore(self, path):
            self.position = int(pathlib.Path(path).read_text())

    rules = partitioning.standard_logical_axis_rules(parameter_partitioning_dims=2)
    p = partitioning.PjitPartitioner(num_partitions=1, logical_axis_rules=rules)
    assert dict(p.mesh.shape) == {"data": 2, "model": 2}, p.mesh.shape
    layout = p.get_data_layout(4)
    assert (layout.shard_id, layout.num_shards) == (rank, 2)
    try:
        p.get_data_layout(5)
    except UserError as e:
        assert "(5)" in str(e) and "(2," in str(e)
    else:
        raise AssertionError

    def init(rng):
        names = flax_partitioning.AxisMetadata(("embed", "mlp"))
        odd = flax_partitioning.AxisMetadata(("mlp",))
        return train_state.InferenceState.create({
            "params": {"w": jax.random.normal(rng, (8, 6)), "odd": jnp.arange(3.0)},
            "params_axes": {"w_axes": names, "odd_axes": odd},
        })

    shape = jax.eval_shape(init, jax.random.PRNGKey(0))
    axes = p.get_mesh_axes(shape)
    assert axes.params["w"] == P("data", "model")
    assert axes.params["odd"] == P(None)   # 3 is not divisible by 2
    state = p.partition(init, None, axes)(jax.random.PRNGKey(0))
    state = state.replace_step(
        distributed.place(np.int32(7), jax.sharding.NamedSharding(p.mesh, P())))

    # Each process gives its own two rows of the batch.
    rows = np.arange(32.0, dtype=np.float32).reshape(4, 8)
    local = rows[rank * 2:rank * 2 + 2]
    fn = p.partition(lambda s, b: (b @ s.params["w"]).sum(), (axes, P("data")), None)
    whole = distributed.fetch_global(state.params["w"])
    for call in (fn, p.compile(fn, state, local)):
        np.testing.assert_allclose(call(state, local), (rows @ whole).sum(), rtol=1e-5)

    def same(a, b):
        np.testing.assert_array_equal(
            distributed.fetch_global(a), distributed.fetch_global(b))

    iterator = Iterator()
    iterator.position = 10 + rank
    orbax = checkpoints.OrbaxCheckpointManagerInterface(
        str(folder / "orbax"), shape, p, iterator, keep=1)
    for step in (7, 9):
        orbax.save(state.replace_step(state.step * 0 + step))
    orbax.wait_until_finished()
    if rank == 0:
        write_legacy(folder / "legacy" / "checkpoint_9", train_state.InferenceState(
            np.int32(9), {"w": whole, "odd": np.arange(3.0, dtype=np.float32)}),
            ["target/w"])
    distributed.sync_global_devices("written")
    for name in ("orbax", "legacy"):
        reader = checkpoints.OrbaxCheckpointManagerInterface(
            str(folder / name), shape, p, Iterator())
        assert reader.all_steps() == [9], (name, reader.all_steps())
        got = reader.restore()
        same(got.params["w"], state.params["w"])
        same(got.params["odd"], state.params["odd"])
        assert got.params["w"].sharding.spec == P("data", "model")
        assert int(distributed.get_local_data(got.step)) == 9
        (part,) = reader._dataset._parts.values()
        assert part.position == (10 + rank if name == "orbax" else 0)
    def flip():
        saved = (folder / "orbax" / "checkpoint_9").rglob("d/*")
        for data in saved if rank == 0 else ():
            content = bytearray(data.read_bytes())
            content[-1] ^= 1
            data.write_bytes(content)

    # Each process verifies a part of the files; a flipped byte stops both.
    flip()
    distributed.sync_global_devices("flipped")
    try:
        orbax.restore()
    except (UserError, RuntimeError) as e:
        print(e)
    else:
        raise AssertionError
    distributed.sync_global_devices("seen")
    flip()
    # One process fails: both stop with an error, nothing is left behind.
    if rank == 1:
        def fail(path):
            raise OSError(28, "No space left on device")
        iterator.save = fail
    try:
        orbax.save(state.replace_step(state.step * 0 + 11))
    except (UserError, RuntimeError) as e:
        print(e)
    else:
        raise AssertionError
    assert checkpoints.all_steps(folder / "orbax") == [9]
    distributed.sync_global_devices("end")
    if rank == 0:
        np.save(folder / "w.npy", whole)
    orbax.close()
    print("done", rank)
"""


@pytest.mark.slow
def test_two_processes_save_and_restore(python, tmp_path):
    worker, port = textwrap.dedent(WORKER), free_port()
    kit = pathlib.Path(__file__).parent.parent
    commands = [("-c", worker, rank, port, tmp_path, kit) for rank in range(2)]
    outputs = [out for out, _ in run_together(python, *commands, devices=2)]
    assert "done 0" in outputs[0]
    assert "done 1" in outputs[1]
    assert "orbax/checkpoint_9 is damaged: state/" in outputs[0] + outputs[1]
    assert "Process [1] failed" in outputs[0]
    assert "No space left on device. The checkpoint of step 9 is intact" in outputs[1]
    names = sorted(p.name for p in pathlib.Path(tmp_path, "orbax").iterdir())
    assert names == ["checkpoint_9"]
    # One process reads a checkpoint that two have written.
    expected = np.load(tmp_path / "w.npy")
    loaded = checkpoints.load_t5x_checkpoint(str(tmp_path / "orbax"))
    np.testing.assert_array_equal(loaded["target"]["w"], expected)
    np.testing.assert_array_equal(loaded["target"]["odd"], [0, 1, 2])
    assert loaded["state"]["step"] == 9
    files = checkpoints.get_checkpoint_dir(tmp_path / "orbax", 9)
    assert pathlib.Path(
        files, "dataset", "process_1-of-2", "train_ds-001-of-002"
    ).is_file()
