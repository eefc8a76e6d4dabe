"""Meshes, partition specs, and partitioned functions, on 1 and 8 devices."""

import textwrap
import types
from typing import Any

import jax
import numpy as np
import pytest
from flax import struct
from jax import numpy as jnp
from jax.sharding import PartitionSpec as P
from process_kit import run_together
from t5x import partitioning
from t5x.errors import UserError
from t5x.partition import mesh


class State(struct.PyTreeNode):
    """The smallest object with the train-state interface of a partitioner."""

    params: Any
    axes: Any = struct.field(pytree_node=False, default=None)

    def state_dict(self):
        return {"target": self.params}

    def restore_state(self, state_dict):
        return self.replace(params=state_dict["target"])

    def as_logical_axes(self):
        return self.replace(params=self.axes)


def test_standard_rules_map_the_axes_of_t5():
    rules = mesh.standard_logical_axis_rules()
    spec = mesh.logical_to_mesh_axes
    assert spec("w", ("vocab", "embed"), rules) == P("model", None)
    assert spec("w", ("embed", "joined_kv"), rules) == P(None, "model")
    assert spec("w", ("heads", "relpos_buckets"), rules) == P("model", None)
    assert spec("w", ("batch", "length", "embed"), rules) == P("data", None, None)


@pytest.mark.parametrize(
    ("activation", "parameter", "expected"),
    [(2, 1, P("model")), (1, 2, P("data")), (2, 2, P("model")), (1, 1, P(None))],
)
def test_embed_axis_by_partitioning_dims(activation, parameter, expected):
    rules = mesh.standard_logical_axis_rules(activation, parameter)
    assert mesh.logical_to_mesh_axes("w", ("embed",), rules) == expected


def test_2d_parameters_use_both_axes_once():
    rules = mesh.standard_logical_axis_rules(2, 2)
    spec = mesh.logical_to_mesh_axes("w", ("embed", "mlp"), rules)
    assert spec == P("data", "model")


def test_additional_rules_come_last():
    rules = mesh.standard_logical_axis_rules(
        additional_rules=[("expert", "data"), ("mlp", None)]
    )
    spec = mesh.logical_to_mesh_axes("w", ("expert", "mlp"), rules)
    assert spec == P("data", "model")


def test_unknown_axis_names_parameter_axis_and_fix():
    rules = mesh.standard_logical_axis_rules()
    with pytest.raises(UserError, match=r"'experts' of target/w .*additional_rules"):
        mesh.logical_to_mesh_axes("target/w", ("experts", "embed"), rules)


def test_unsupported_dims():
    with pytest.raises(UserError, match="parameter_partitioning_dims=3"):
        mesh.standard_logical_axis_rules(1, 3)


def test_axis_names_is_a_pytree_leaf():
    names = partitioning.AxisNames("embed", "mlp")
    assert jax.tree.leaves({"a": names}) == [names]
    assert repr(names) == "AxisNames('embed', 'mlp')"


def test_partitioner_needs_a_size():
    with pytest.raises(UserError, match="num_partitions"):
        partitioning.PjitPartitioner()
    with pytest.raises(UserError, match=r"4-tuple.*\(1, 2\)"):
        partitioning.PjitPartitioner(model_parallel_submesh=(1, 2))


def test_more_partitions_than_devices():
    with pytest.raises(UserError) as caught:
        partitioning.PjitPartitioner(num_partitions=64).get_data_layout(4)
    assert str(caught.value) == (
        "num_partitions=64 asks for 64 model partitions, which does not divide the 1 "
        "devices: use one of [1]."
    )


def test_one_device_layout_and_values():
    p = partitioning.PjitPartitioner(num_partitions=1)
    layout = p.get_data_layout(6)
    assert layout == partitioning.DataLayout(6, 0, 1, True)
    assert p.data_partition_spec == P("data")
    fn = p.partition(
        lambda s, b, k: (s["w"] * k + b.sum(), b * 2),
        in_axis_resources=({"w": P("model")}, P("data")),
        out_axis_resources=(P("model"), P("data")),
        static_argnums=(2,),
    )
    state = {"w": np.arange(4.0, dtype=np.float32)}
    batch = np.ones((2, 3), np.float32)
    expected = np.arange(4.0) * 3 + 6
    np.testing.assert_array_equal(fn(state, batch, 3)[0], expected)
    compiled = p.compile(fn, state, batch, 3)
    np.testing.assert_array_equal(compiled(state, batch, 3)[0], expected)
    assert compiled.cost_analysis() is not None


def test_mesh_is_defined_inside_partitioned_functions_only():
    seen = []

    def fn(x):
        seen.append(partitioning.global_mesh_defined())
        return partitioning.with_sharding_constraint(x, P("data"))

    p = partitioning.PjitPartitioner(num_partitions=1)
    p.partition(fn, None, None)(jnp.ones(2))
    assert seen == [True]
    assert not partitioning.global_mesh_defined()
    with pytest.raises(ValueError, match="its own layout only"):
        p.get_data_layout(2, host_index=5)


def test_get_mesh_axes_of_a_state():
    state = State(
        {"w": jax.ShapeDtypeStruct((8, 4), jnp.float32), "s": np.zeros(()), "e": {}},
        axes={"w": P("embed", "mlp"), "s": None, "e": {}},
    )
    p = partitioning.PjitPartitioner(num_partitions=1)
    assert p.get_mesh_axes(state).params == {"w": P(None, "model"), "s": None, "e": {}}
    moved = p.move_params_to_devices(
        {"w": np.ones((8, 4)), "s": np.zeros(())}, {"w": P(None, "model"), "s": None}
    )
    assert moved["w"].sharding.spec == P(None, "model")


def test_indivisible_dimension_is_replicated_and_reported(monkeypatch):
    warnings = []
    monkeypatch.setattr(
        mesh.logging, "warning", lambda text, *a: warnings.append(text % a)
    )
    spec = mesh.drop_indivisible_axes(
        "target/relpos_bias", (6, 32), P("model", None), {"data": 1, "model": 8}
    )
    assert spec == P(None, None)
    (warning,) = warnings
    for part in ("target/relpos_bias", "(6, 32)", "'model'", "size 8", "divides 6"):
        assert part in warning
    kept = mesh.drop_indivisible_axes(
        "w", (16, 32), P("model", None), {"data": 1, "model": 8}
    )
    assert kept == P("model", None)


def test_mesh_shapes_and_values_on_8_devices(python):
    code = """
        import jax, numpy as np
        from jax.sharding import PartitionSpec as P
        from t5x import partitioning
        from t5x.errors import UserError
        make = partitioning.PjitPartitioner
        p = make(num_partitions=2)
        print(dict(p.mesh.shape))
        d = make(model_parallel_submesh=(2, 1, 1, 1))
        print(dict(d.mesh.shape), d.data_mesh_size, d.data_shards, d.data_shard_id)
        m = make(num_partitions=1, ici_mesh_shape=(2, 2, 2), dcn_mesh_shape=(1, 1, 1))
        print(dict(m.mesh.shape), m.data_partition_spec, m.data_mesh_size)
        for bad in (lambda: d.get_data_layout(6),
                    lambda: make(model_parallel_submesh=(3, 1, 1, 1)).mesh,
                    lambda: make(num_partitions=1, ici_mesh_shape=(1, 1, 3),
                                 dcn_mesh_shape=(1, 1, 1)).mesh):
            try:
                bad()
            except UserError as e:
                print(e)
        w = np.arange(32, dtype=np.float32).reshape(4, 8)
        x = np.arange(16, dtype=np.float32).reshape(4, 4)
        step = lambda w, x: (w + 1, x @ w)
        for q in (p, d, m):
            fn = q.partition(step, (P(None, 'model'), q.data_partition_spec),
                             (P(None, 'model'), None))
            new, y = fn(w, x)
            assert np.array_equal(y, x @ w) and np.array_equal(new, w + 1)
            assert new.sharding.spec == P(None, 'model'), new.sharding
        """
    ((out, _),) = run_together(python, ("-c", textwrap.dedent(code)), devices=8)
    lines = out.splitlines()
    assert lines[0] == "{'data': 1, 'model': 8}"
    assert lines[1] == "{'data': 4, 'model': 2} 4 1 0"
    assert lines[2].startswith("{'replica': 2, 'data': 2, 'model': 2}")
    assert "('replica', 'data')" in lines[2]
    assert lines[2].endswith(" 4")
    assert "Batch size (6) must be divisible by the data mesh size (4" in lines[3]
    assert "set the batch size to 4 or 8" in lines[3]
    assert "3 model partitions" in lines[4]
    assert "[1, 2, 4, 8]" in lines[4]
    assert "ici_mesh_shape=(1, 1, 3)" in lines[5]
    assert len(lines) == 6


def test_local_chunker_of_one_process():
    p = partitioning.PjitPartitioner(num_partitions=1)
    info = p.get_local_chunk_info((4, 6), ("data", None))
    assert info == mesh.LocalChunkInfo((slice(0, 4), slice(None)), 0)


def fake_mesh(grid):
    """Returns a mesh of fake devices with process indices."""
    devices = np.array(
        [[types.SimpleNamespace(process_index=i) for i in row] for row in grid], object
    )
    shape = dict(zip(("data", "model"), devices.shape, strict=True))
    return types.SimpleNamespace(
        axis_names=("data", "model"), shape=shape, devices=devices
    )


@pytest.mark.parametrize(
    ("grid", "process", "chunks", "shard", "replica"),
    [
        # two hosts along data
        ([[0, 0], [1, 1]], 1, {"data": 2, "model": 1}, 1, 0),
        # model axis over two hosts: both feed the same shard
        ([[0, 1], [0, 1]], 1, {"data": 1, "model": 2}, 0, 1),
    ],
)
def test_local_chunker_of_two_hosts(monkeypatch, grid, process, chunks, shard, replica):
    monkeypatch.setattr(mesh.jax, "process_index", lambda: process)
    chunker = mesh.LocalChunker(fake_mesh(grid))
    assert chunker.num_chunks == chunks
    assert chunker.get_shard_id("data") == shard
    assert chunker.get_replica_id("data") == replica


def test_overlapping_hosts_are_refused(monkeypatch):
    monkeypatch.setattr(mesh.jax, "process_index", lambda: 0)
    with pytest.raises(UserError, match="overlap those of another along mesh axis"):
        mesh.LocalChunker(fake_mesh([[0, 0], [0, 1], [1, 1]]))
