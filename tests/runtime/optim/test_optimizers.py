"""Wrapped optax optimizers, MultiOptimizer, and their states as dictionaries."""

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util
from flax.traverse_util import ModelParamTraversal
from jax.sharding import PartitionSpec as P
from t5x import adafactor, optimizers

from tests.support import grids

PARAMS = {
    "dense": {"kernel": jnp.arange(6.0).reshape(2, 3) / 10 + 0.1},
    "norm": {"scale": jnp.ones((3,))},
}
AXES = {"dense": {"kernel": P("embed", "mlp")}, "norm": {"scale": P("embed")}}
GRADS = jax.tree.map(lambda x: jnp.cos(7 * x), PARAMS)

RATE_ONLY = {
    name: (getattr(optimizers, name), getattr(optax, name))
    for name in [
        "adabelief", "adagrad", "adam", "adamw", "fromage", "lamb", "lars", "lion",
        "radam", "rmsprop", "sgd", "yogi",
    ]
}  # fmt: skip


def kernels(path, _):
    return "kernel" in path


def scales(path, _):
    return "scale" in path


def assert_trees_equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("name", grids.first(4, RATE_ONLY))
def test_wrapped_optimizer_equals_optax(name):
    wrapped, plain = RATE_ONLY[name]
    optimizer = wrapped(0.1).create(PARAMS)
    other = plain(0.1)
    params, state = PARAMS, other.init(PARAMS)
    for step in range(3):
        assert int(optimizer.state.step) == step
        # The trainer's learning rate must not matter.
        optimizer = optimizer.apply_gradient(GRADS, learning_rate=1e6)
        updates, state = other.update(GRADS, state, params)
        params = optax.apply_updates(params, updates)
    assert_trees_equal(optimizer.target, params)
    assert (optimizer.target["norm"]["scale"] != 1).all()

    restored = wrapped(0.1).create(PARAMS).restore_state(optimizer.state_dict())
    assert_trees_equal(restored.state, optimizer.state)
    assert_trees_equal(restored.target, optimizer.target)

    axes = optimizer.optimizer_def.derive_logical_axes(optimizer, AXES)
    assert axes.target == AXES
    flat = traverse_util.flatten_dict(axes.state_dict()["state"], sep="/")
    shapes = traverse_util.flatten_dict(optimizer.state_dict()["state"], sep="/")
    for path, array in shapes.items():
        if path.endswith("dense/kernel"):
            assert flat[path] == P("embed", "mlp"), path
        elif path.endswith("norm/scale"):
            assert flat[path] == P("embed"), path
        else:
            assert array.shape == () and flat.get(path) is None, path


@pytest.mark.parametrize(
    "optimizer",
    [
        optimizers.noisy_sgd(0.1, key=0),
        optimizers.dpsgd(0.1, l2_norm_clip=1.0, noise_multiplier=0.5, seed=0),
        optimizers.chain([optax.clip(0.5), optax.trace(0.9), optax.scale(-0.1)]),
        optimizers.OptaxWrapper(optax.MultiSteps(optax.adam(0.1), 2)),
        optimizers.OptaxWrapper(optax.apply_if_finite(optax.adam(0.1), 3)),
        optimizers.OptaxWrapper(optax.inject_hyperparams(optax.adam)(0.1)),
        optimizers.OptaxWrapper(optax.sm3(0.1)),
        optimizers.OptaxWrapper(optax.chain(optax.zero_nans(), optax.ema(0.9))),
        optimizers.adam(optax.constant_schedule(0.1)),
        optimizers.sgd(0.1, momentum=0.9),
        optimizers.OptaxWrapper(optax.multi_transform({"yes": optax.adam(0.1),
         "no": optax.set_to_zero()}, {"dense": {"kernel": "yes"},
         "norm": {"scale": "no"}})),
        optimizers.OptaxWrapper(optax.masked(optax.adam(0.1),
         {"dense": {"kernel": True}, "norm": {"scale": False}})),
    ],
    ids=lambda o: type(o.create(PARAMS).state.param_states).__name__,
)  # fmt: skip
def test_states_have_dictionaries_and_axes(optimizer):
    state = optimizer.create(PARAMS)
    saved = state.state_dict()
    flat = traverse_util.flatten_dict(saved["state"], keep_empty_nodes=True)
    assert not any(leaf is traverse_util.empty_node for leaf in flat.values())
    assert saved["state"]["step"].dtype == jnp.int32
    changed = jax.tree.map(
        lambda x: x + 1 if jnp.issubdtype(x.dtype, float) else x, saved
    )
    restored = state.restore_state(changed)
    assert_trees_equal(restored.state_dict(), changed)
    assert jax.tree.structure(restored) == jax.tree.structure(state)

    axes = optimizer.derive_logical_axes(state, AXES)
    assert axes.state.step is None
    # Every partitioned array has as many dimensions as names.
    named = traverse_util.flatten_dict(axes.state_dict()["state"])
    pairs = [(named[p], x) for p, x in flat.items() if named.get(p) is not None]
    assert all(len(names) == x.ndim for names, x in pairs)
    assert set(named) == set(flat)
    # A partitioner addresses the state by name and inserts mesh axes.
    assert state.restore_state(axes.state_dict()).state_dict() == axes.state_dict()


@pytest.mark.parametrize(
    ("wrapped", "plain"),
    [
        (optimizers.noisy_sgd(0.1, key=3), optax.noisy_sgd(0.1, key=3)),
        (
            optimizers.dpsgd(0.1, l2_norm_clip=1.0, noise_multiplier=0.5, seed=3),
            optax.contrib.dpsgd(0.1, l2_norm_clip=1.0, noise_multiplier=0.5, seed=3),
        ),
    ],
)
def test_noise_equals_optax_and_its_key_can_be_saved(wrapped, plain):
    grads = jax.tree.map(lambda g: jnp.stack([g, 2 * g]), GRADS)
    if plain.init(PARAMS)[0].__class__ is optax.AddNoiseState:
        grads = GRADS
    optimizer, params, state = wrapped.create(PARAMS), PARAMS, plain.init(PARAMS)
    for _ in range(2):
        saved = jax.tree.map(np.asarray, optimizer.state_dict())
        optimizer = wrapped.create(PARAMS).restore_state(saved)
        optimizer = optimizer.apply_gradient(grads)
        updates, state = plain.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    assert_trees_equal(optimizer.target, params)


def test_masked_parameters_stay_masked_in_the_axes():
    mask = {"dense": {"kernel": True}, "norm": {"scale": False}}
    optimizer = optimizers.OptaxWrapper(optax.masked(optax.adam(0.1), mask))
    state = optimizer.create(PARAMS)
    axes = optimizer.derive_logical_axes(state, AXES)
    moments = axes.state.param_states.inner_state[0].mu
    assert moments["dense"]["kernel"] == P("embed", "mlp")
    assert moments["norm"]["scale"] == optax.MaskedNode()


def test_unknown_state_type_is_an_error_with_advice():
    optimizer = optimizers.OptaxWrapper(optax.scale_by_factored_rms())
    state = optimizer.create(PARAMS)
    with pytest.raises(
        ValueError, match="unregistered optax state type FactoredState: add a rule"
    ):
        optimizer.derive_logical_axes(state, AXES)


def test_missing_array_is_named():
    state = optimizers.adam(0.1).create(PARAMS)
    saved = state.state_dict()
    del saved["state"]["param_states"]["0"]["mu"]["norm"]
    with pytest.raises(
        ValueError, match="path param_states/0/mu/norm/scale is not present"
    ):
        state.restore_state(saved)


def test_wrapping_keeps_name_and_documentation():
    assert optimizers.adam.__name__ == "adam"
    assert optimizers.adam.__doc__ == optax.adam.__doc__
    mine = optimizers.wrap_optax_optimizer(lambda rate: optax.sgd(rate))(0.5)
    assert isinstance(mine, optimizers.OptaxWrapper)
    updated = mine.create({"a": jnp.ones(())}).apply_gradient({"a": jnp.ones(())})
    assert float(updated.target["a"]) == 0.5


def test_frozen_parameters():
    params, grads = flax.core.freeze(PARAMS), flax.core.freeze(GRADS)
    optimizer = optimizers.adam(0.1).create(params).apply_gradient(grads)
    assert isinstance(optimizer.target, flax.core.FrozenDict)
    axes = optimizer.optimizer_def.derive_logical_axes(optimizer, AXES)
    assert axes.target == flax.core.freeze(AXES)
    assert axes.state.param_states[0].mu == flax.core.freeze(AXES)


def test_update_hyper_params():
    definition = adafactor.Adafactor(0.1)
    assert definition.update_hyper_params().learning_rate == 0.1
    assert definition.update_hyper_params(learning_rate=0.2).learning_rate == 0.2
    other = adafactor.Adafactor(0.3).hyper_params
    changed = definition.update_hyper_params(hyper_params=other, beta1=0.9)
    assert (changed.learning_rate, changed.beta1) == (0.3, 0.9)
    assert definition.hyper_params.learning_rate == 0.1


def multi(*filters, **options):
    return optimizers.MultiOptimizer(
        [
            (ModelParamTraversal(f), adafactor.Adafactor(0.1 * (i + 1), **options))
            for i, f in enumerate(filters)
        ]
    )


def test_multi_optimizer_updates_each_part_with_its_optimizer():
    optimizer = multi(kernels, scales).create(PARAMS)
    for _ in range(2):
        optimizer = optimizer.apply_gradient(GRADS)
    assert int(optimizer.state.step) == 2
    for rate, path in ((0.1, ("dense", "kernel")), (0.2, ("norm", "scale"))):
        alone = adafactor.Adafactor(rate).create(PARAMS)
        for _ in range(2):
            alone = alone.apply_gradient(GRADS)
        (outer, inner) = path
        np.testing.assert_array_equal(
            optimizer.target[outer][inner], alone.target[outer][inner]
        )
        np.testing.assert_array_equal(
            optimizer.state.param_states[outer][inner].v,
            alone.state.param_states[outer][inner].v,
        )


def test_multi_optimizer_leaves_the_rest_alone():
    optimizer = multi(kernels).create(PARAMS)
    assert optimizer.state.param_states["norm"]["scale"] is None
    optimizer = optimizer.apply_gradient(GRADS, learning_rate=0.5)
    assert optimizer.state.param_states["norm"]["scale"] is None
    np.testing.assert_array_equal(optimizer.target["norm"]["scale"], 1.0)
    assert (optimizer.target["dense"]["kernel"] != PARAMS["dense"]["kernel"]).all()
    saved = optimizer.state_dict()
    restored = multi(kernels).create(PARAMS).restore_state(saved)
    assert_trees_equal(restored.state, optimizer.state)


def test_multi_optimizer_hyper_params():
    optimizer = multi(kernels, scales)
    rates = [h.learning_rate for h in optimizer.update_hyper_params()]
    assert rates == pytest.approx([0.1, 0.2])
    same = optimizer.update_hyper_params(learning_rate=3.0)
    assert [h.learning_rate for h in same] == [3.0, 3.0]
    frozen = [
        optimizer.hyper_params[0],
        optimizer.hyper_params[1].replace(learning_rate=0.0),
    ]
    updated = optimizer.create(PARAMS).apply_gradient(GRADS, hyper_params=frozen)
    np.testing.assert_array_equal(updated.target["norm"]["scale"], 1.0)


def test_multi_optimizer_axes():
    rules = adafactor.standard_logical_factor_rules()
    optimizer = multi(kernels, logical_factor_rules=rules)
    optimizer.set_param_axes(AXES)
    assert set(optimizer.hyper_params[0].factor_map) == {"dense/kernel"}
    state = optimizer.create(PARAMS)
    axes = optimizer.derive_logical_axes(state, AXES)
    assert axes.target == AXES
    assert axes.state.param_states["dense"]["kernel"].v == P("embed", "mlp")
    assert axes.state.param_states["norm"]["scale"] is None


def test_multi_optimizer_factors_by_rules_in_every_update():
    rules = adafactor.standard_logical_factor_rules()
    params = {"dense": {"kernel": jnp.ones((2, 3, 4))}}
    axes = {"dense": {"kernel": P("embed", "heads", "kv")}}
    optimizer = multi(kernels, logical_factor_rules=rules)
    optimizer.set_param_axes(axes)
    updated = optimizer.create(params).apply_gradient(params, learning_rate=0.1)
    state = updated.state.param_states["dense"]["kernel"]
    assert state.v_row.shape == (2,) and state.v_col.shape == (3, 4)


def test_multi_optimizer_errors():
    with pytest.raises(
        ValueError,
        match=r"Multiple optimizers match the same leaves : .*kernel': \[0, 1\]",
    ):
        multi(kernels, lambda path, _: True).create(PARAMS)
    with pytest.raises(
        ValueError, match="wrap `optax.multi_transform` or `optax.masked`"
    ):
        optimizers.MultiOptimizer(
            [(ModelParamTraversal(kernels), optimizers.adam(0.1))]
        ).create(PARAMS)
