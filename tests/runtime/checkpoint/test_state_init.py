"""Train states from scratch, from checkpoints, and from parts of checkpoints."""

import functools
import types

import jax
import numpy as np
import pytest
from flax.linen import partitioning as flax_partitioning
from jax import numpy as jnp
from model_kit import BATCH, T5_CONFIG, VOCABULARY
from t5x import adafactor, checkpoints, state_utils, utils
from t5x.checkpoint import restore, state_init
from t5x.checkpoint.settings import RestoreCheckpointConfig, SaveCheckpointConfig
from t5x.errors import UserError
from t5x.examples.t5 import network
from t5x.models import EncoderDecoderModel
from t5x.partitioning import PjitPartitioner

KERNEL = "target/layer/kernel"


class Model:
    """A model of two parameters with logical axes."""

    names = ("layer", "head")

    def __init__(self, names=names, width=4):
        self.names = names
        self.width = width

    def get_initial_variables(self, rng, input_shapes, input_types=None):
        assert set(input_shapes) == {"x"}
        axes = flax_partitioning.AxisMetadata(names=("embed", "mlp"))
        shape = (self.width, 8)
        return {
            "params": {
                n: {"kernel": jax.random.normal(jax.random.fold_in(rng, i), shape)}
                for i, n in enumerate(self.names)
            },
            "params_axes": {n: {"kernel_axes": axes} for n in self.names},
        }


def make(model=None, optimizer=True):
    model = model or Model()
    partitioner = PjitPartitioner(num_partitions=1)
    definition = (
        adafactor.Adafactor(
            0.1,
            min_dim_size_to_factor=4,
            logical_factor_rules=adafactor.standard_logical_factor_rules(),
        )
        if optimizer
        else None
    )
    initializer = state_init.TrainStateInitializer(
        definition, model.get_initial_variables, {"x": (2, 3)}, partitioner
    )
    return initializer, partitioner


def save(tmp_path, initializer, partitioner, *steps):
    """Saves states of the given steps; returns the last state."""
    _, manager = state_init.create_checkpoint_manager_and_restore(
        initializer, partitioner, None, None, None,
        save_checkpoint_cfg=SaveCheckpointConfig(period=1, save_dataset=False),
        model_dir=str(tmp_path),
    )  # fmt: skip
    state = initializer.from_scratch(jax.random.PRNGKey(7))
    for step in steps:
        state = state.replace_step(jnp.asarray(step, jnp.int32))
        manager.save(state)
    manager.wait_until_finished()
    manager.close()
    return state


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a.state_dict(), b.state_dict())


def test_from_scratch_equals_the_model_initialisation():
    initializer, _ = make()
    state = initializer.from_scratch(jax.random.PRNGKey(3))
    expected = Model().get_initial_variables(jax.random.PRNGKey(3), {"x": (2, 3)})
    np.testing.assert_array_equal(
        state.params["layer"]["kernel"], expected["params"]["layer"]["kernel"]
    )
    assert int(state.step) == 0
    shape = initializer.global_train_state_shape.params["layer"]["kernel"]
    assert shape.shape == (4, 8)
    spec = initializer.train_state_axes.params["layer"]["kernel"]
    assert tuple(spec) == (None, "model")


def test_a_gpu_computes_initial_values_one_operation_at_a_time(monkeypatch):
    """The values are the same, at the same places."""
    model = EncoderDecoderModel(
        network.Transformer(T5_CONFIG), VOCABULARY, VOCABULARY, adafactor.Adafactor(0.1)
    )
    shapes = {name: array.shape for name, array in BATCH.items()}
    initializer = state_init.TrainStateInitializer(
        model.optimizer_def,
        model.get_initial_variables,
        shapes,
        PjitPartitioner(num_partitions=1),
    )
    key = jax.random.PRNGKey(3)
    expected = initializer.from_scratch(key)
    monkeypatch.setattr(state_init.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(
        PjitPartitioner, "partition", lambda *a, **k: pytest.fail("one program for all")
    )
    state = initializer.from_scratch(key)
    assert jax.tree.structure(state) == jax.tree.structure(expected)
    for found, wanted in zip(
        jax.tree.leaves(state), jax.tree.leaves(expected), strict=True
    ):
        assert (found.dtype, found.sharding) == (wanted.dtype, wanted.sharding)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    places = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(state)]
    assert len(set(places)) == len(places), "a step cannot take over one array twice"


def test_operations_that_nothing_needs_are_left_out():
    def function(x, y):
        jax.debug.callback(lambda *_: pytest.fail("evaluated"), jnp.dot(x, y))
        return {"sum": jax.jit(lambda x: x + 1)(x), "same": y, "number": 2.0}

    given = jnp.ones(3)
    found = state_init.evaluate_op_by_op(function, jnp.arange(3.0), given)
    assert found["same"].unsafe_buffer_pointer() != given.unsafe_buffer_pointer()
    np.testing.assert_array_equal(found["sum"], [1, 2, 3])
    np.testing.assert_array_equal(found["same"], [1, 1, 1])
    assert found["number"] == 2.0


def test_restore_modes(tmp_path):
    initializer, partitioner = make()
    saved = save(tmp_path, initializer, partitioner, 1, 5)
    latest = initializer.from_checkpoint([RestoreCheckpointConfig(str(tmp_path))])
    assert_same(latest, saved)
    specific = initializer.from_checkpoint(
        [RestoreCheckpointConfig(str(tmp_path / "checkpoint_1"), mode="specific")]
    )
    assert int(specific.step) == 1
    every = RestoreCheckpointConfig(str(tmp_path), mode="all")
    steps = [int(s.step) for s, _ in initializer.from_checkpoints([every])]
    assert steps == [1, 5]
    with pytest.raises(UserError, match="at most 1 checkpoint but got 2"):
        initializer.from_checkpoint([every])
    inference, _ = make(optimizer=False)
    state = inference.from_checkpoint([RestoreCheckpointConfig(str(tmp_path))])
    np.testing.assert_array_equal(
        state.params["head"]["kernel"], saved.params["head"]["kernel"]
    )
    assert int(state.step) == 5


def test_first_config_with_a_checkpoint_wins(tmp_path):
    initializer, partitioner = make()
    (tmp_path / "new").mkdir()
    save(tmp_path / "old", initializer, partitioner, 9)
    cfgs = [
        RestoreCheckpointConfig(str(tmp_path / "new")),
        RestoreCheckpointConfig(str(tmp_path / "old")),
    ]
    cfg, paths = state_init.get_first_valid_restore_config_and_paths(cfgs)
    assert cfg is cfgs[1]
    assert paths == [str(tmp_path / "old" / "checkpoint_9")]
    assert state_init.get_first_valid_restore_config_and_paths(cfgs[:1]) == (None, [])
    state = initializer.from_checkpoint_or_scratch(
        cfgs[:1], init_rng=jax.random.PRNGKey(0)
    )
    assert int(state.step) == 0
    with pytest.raises(UserError, match=r"valid directories.*nowhere"):
        state_init.get_first_valid_restore_config_and_paths(
            [RestoreCheckpointConfig(str(tmp_path / "nowhere"))]
        )


def test_assignment_map_and_fallback(tmp_path):
    old, partitioner = make(Model(("layer", "old_head")))
    saved = save(tmp_path, old, partitioner, 4)
    new, partitioner = make(Model(("layer", "head", "extra")))
    cfg = RestoreCheckpointConfig(
        str(tmp_path),
        assignment_map=[
            (r"target/head/(.*)", r"target/old_head/\1"),
            (r"state/param_states/head/(.*)", r"state/param_states/old_head/\1"),
        ],
        fallback_to_scratch=True,
    )
    path = str(tmp_path / "checkpoint_4")
    rng = jax.random.PRNGKey(11)
    state, _ = state_init.create_checkpoint_manager_and_restore(
        new, partitioner, cfg, path, rng
    )
    np.testing.assert_array_equal(
        state.params["head"]["kernel"], saved.params["old_head"]["kernel"]
    )
    np.testing.assert_array_equal(
        state.params["extra"]["kernel"], new.from_scratch(rng).params["extra"]["kernel"]
    )
    assert int(state.step) == 4
    with pytest.raises(UserError, match="An `init_rng` must be provided"):
        state_init.create_checkpoint_manager_and_restore(
            new, partitioner, cfg, path, None
        )
    with pytest.raises(UserError, match="`state_transformation_fns` must be provided"):
        state_init.get_fallback_state(
            RestoreCheckpointConfig(path, fallback_to_scratch=True), lambda rng: {}, rng
        )


def test_only_missing_parameters_are_initialized(tmp_path, monkeypatch):
    old, partitioner = make(Model(("layer", "head")))
    save(tmp_path, old, partitioner, 4)
    new, partitioner = make(Model(("layer", "head", "extra")))
    programs, partition = [], partitioner.partition

    def spied(function, in_axis_resources, out_axis_resources):
        programs.append(out_axis_resources)
        return partition(function, in_axis_resources, out_axis_resources)

    monkeypatch.setattr(partitioner, "partition", spied)
    rng = jax.random.PRNGKey(11)
    cfg = RestoreCheckpointConfig(
        str(tmp_path),
        assignment_map=[(r"state/param_states/head/.*", None)],
        fallback_to_scratch=True,
    )
    state = new.from_checkpoint([cfg], init_rng=rng)
    (program,) = programs
    factors = ("m", "v", "v_col", "v_row")
    assert {*program} == {
        "target/extra/kernel",
        *(f"state/param_states/head/kernel/{factor}" for factor in factors),
        *(f"state/param_states/extra/kernel/{factor}" for factor in factors),
    }
    found, fresh = (
        state_utils.flatten_state_dict(each.state_dict())
        for each in (state, new.from_scratch(rng))
    )
    for name in program:
        np.testing.assert_array_equal(found[name], fresh[name])


def test_missing_names_are_listed_with_the_fix(tmp_path):
    old, partitioner = make(Model(("layer", "old_head")))
    save(tmp_path, old, partitioner, 4)
    new, _ = make(Model(("layer", "head")))
    with pytest.raises(
        UserError,
        match=r"lacks 5 of the 11 arrays.*target/head/kernel.*old_head.*assignment_map",
    ):
        new.from_checkpoint([RestoreCheckpointConfig(str(tmp_path))])


def test_shape_mismatch_names_both_shapes(tmp_path):
    old, partitioner = make(Model(width=4))
    save(tmp_path, old, partitioner, 4)
    new, _ = make(Model(width=6))
    with pytest.raises(UserError, match=r"\(4, 8\) does not match expected \(6, 8\)"):
        new.from_checkpoint([RestoreCheckpointConfig(str(tmp_path))])


def test_integers_are_no_parameters(tmp_path):
    initializer, partitioner = make(Model(width=4))
    saved = save(tmp_path, initializer, partitioner, 4)
    shapes = jax.eval_shape(lambda: saved)
    state = {"target": jax.tree.map(lambda x: x.astype(np.int8), saved.params)}
    source = types.SimpleNamespace(tree=state)
    fallback = restore.flatten(saved.state_dict())
    with pytest.raises(UserError, match="has dtype int8, but must be .*float32"):
        restore.matched(source, tmp_path, shapes, (), fallback)


def test_custom_transformation_sees_values_and_target(tmp_path):
    initializer, partitioner = make()
    saved = save(tmp_path, initializer, partitioner, 2)

    def double(state_dict, target_state_dict, is_resuming=False):
        assert is_resuming
        assert KERNEL in state_utils.flatten_state_dict(target_state_dict)
        value = np.asarray(state_dict["target"]["layer"]["kernel"])
        state_dict["target"]["layer"]["kernel"] = value * 2
        return state_dict

    cfg = RestoreCheckpointConfig(
        str(tmp_path),
        state_transformation_fns=[functools.partial(double, is_resuming=True)],
    )
    state = initializer.from_checkpoint([cfg])
    np.testing.assert_array_equal(
        state.params["layer"]["kernel"], saved.params["layer"]["kernel"] * 2
    )


def test_the_manager_of_old_code_saves_and_restores(tmp_path):
    initializer, partitioner = make()
    restore_cfg = RestoreCheckpointConfig(str(tmp_path))
    manager = utils.LegacyCheckpointManager(
        save_cfg=SaveCheckpointConfig(keep=1),
        restore_cfg=restore_cfg,
        train_state_shape=initializer.global_train_state_shape,
        partitioner=partitioner,
        model_dir=str(tmp_path),
    )
    state = initializer.from_scratch(jax.random.PRNGKey(7))
    manager.save(state)
    assert checkpoints.all_steps(tmp_path) == [0]
    assert_same(manager.restore([str(tmp_path)], restore_cfg), state)


def test_managers_must_match():
    initializer, partitioner = make()
    other = functools.partial(checkpoints.OrbaxCheckpointManagerInterface)
    with pytest.raises(UserError, match="matching configurations"):
        state_init.create_orbax_checkpoint_manager(
            save_cfg=SaveCheckpointConfig(checkpoint_manager_cls=other),
            restore_cfg=RestoreCheckpointConfig("x"),
            train_state=initializer.global_train_state_shape,
            partitioner=partitioner,
            model_dir="x",
        )


def test_save_best_settings_reach_the_orbax_manager(tmp_path):
    initializer, partitioner = make()
    best = functools.partial(
        checkpoints.SaveBestCheckpointer,
        metric_name_to_monitor="inference_eval/task/jga",
        metric_mode="min",
        force_keep_period=7,
    )
    manager = state_init.create_orbax_checkpoint_manager(
        save_cfg=SaveCheckpointConfig(
            keep=2, checkpointer_cls=best, keep_dataset_checkpoints=3
        ),
        train_state=initializer.global_train_state_shape,
        partitioner=partitioner,
        model_dir=str(tmp_path),
    )
    assert manager.retention == checkpoints.Retention(
        keep=2,
        metric_name="inference_eval/task/jga",
        metric_mode="min",
        force_keep_period=7,
        keep_dataset=3,
    )


def test_model_info_lists_parameters_slots_and_total(tmp_path):
    initializer, partitioner = make()
    path = tmp_path / "deep" / "model-info.txt"
    state_init.log_model_info(
        str(path), initializer.global_train_state_shape, partitioner
    )
    lines = path.read_text().splitlines()
    assert " ".join(lines[0].split()) == (
        "Variable head/kernel size 32 shape (embed=4, mlp=8) partition spec (None, "
        "'model')"
    )
    assert lines[2] == "Total number of parameters: 64"
    assert lines[3] == ""
    slots = [line.split()[1] for line in lines[4:]]
    assert "param_states/head/kernel/v_row" in slots
    assert "step" in slots
    assert len(slots) == 9


def test_scan_layers_get_their_annotations():
    class Module:
        scan_layers = True
        spmd_annotations = None

        def clone(self, parent, spmd_annotations):
            clone = Module()
            clone.spmd_annotations = spmd_annotations
            return clone

    model = Model()
    model.module = Module()
    initializer, _ = make(model)
    assert model.module.spmd_annotations == initializer.train_state_axes.params
