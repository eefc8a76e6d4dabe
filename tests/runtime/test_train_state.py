"""Train states of a small Flax module with axis names and a mutable collection."""

import flax.core
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.linen import partitioning as flax_partitioning
from jax.sharding import PartitionSpec as P
from t5x import adafactor, optimizers, train_state
from t5x.train_state import FlaxOptimTrainState, InferenceState


class Toy(nn.Module):
    """A dense layer with a running mean of its inputs."""

    counts: bool = True

    @nn.compact
    def __call__(self, x):
        kernel = flax_partitioning.param_with_axes(
            "kernel", nn.initializers.ones, (3, 4), axes=("embed", "mlp")
        )
        if self.counts:
            mean = flax_partitioning.variable_with_axes(
                "stats", "mean", jnp.zeros, (3,), axes=("embed",)
            )
            mean.value = x.mean(0)
        return x @ kernel


class Plain(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(4)(x)


X = jnp.arange(6.0).reshape(2, 3)
VARIABLES = Toy().init(jax.random.PRNGKey(0), X)
GRADS = {"kernel": jnp.full((3, 4), 2.0)}


def new_state(optimizer=None, variables=VARIABLES):
    return FlaxOptimTrainState.create(optimizer or optimizers.sgd(0.5), variables)


def test_create_reads_all_collections():
    state = new_state()
    assert isinstance(state, train_state.TrainState)
    assert int(state.step) == 0 and state.step.dtype == jnp.int32
    np.testing.assert_array_equal(state.params["kernel"], np.ones((3, 4)))
    np.testing.assert_array_equal(state.flax_mutables["stats"]["mean"], X.mean(0))
    assert set(state.flax_mutables) == {"stats"}
    assert set(state.params_axes) == {"kernel_axes"}
    assert set(state.flax_mutables_axes) == {"stats"}
    without = new_state(variables=Toy(counts=False).init(jax.random.PRNGKey(0), X))
    assert without.flax_mutables == {} and without.flax_mutables_axes is None


def test_apply_gradient():
    state = new_state().apply_gradient(GRADS, learning_rate=9.0)
    np.testing.assert_array_equal(state.params["kernel"], np.zeros((3, 4)))
    assert int(state.step) == 1
    assert state.flax_mutables == {}
    mutables = flax.core.freeze({"stats": {"mean": jnp.ones(3)}})
    state = new_state().apply_gradient(GRADS, 0.0, flax_mutables=mutables)
    np.testing.assert_array_equal(state.flax_mutables["stats"]["mean"], np.ones(3))


def test_apply_gradient_passes_the_learning_rate_under_jit():
    update = jax.jit(lambda s, g, r: s.apply_gradient(g, learning_rate=r))
    state = new_state(adafactor.Adafactor(multiply_by_parameter_scale=False))
    state = update(state, GRADS, 0.25)
    np.testing.assert_allclose(state.params["kernel"], 0.75, rtol=1e-6)
    np.testing.assert_allclose(state.param_states["kernel"].v, 4.0, rtol=1e-6)


def test_state_dict_round_trip():
    state = new_state(optimizers.adam(0.1)).apply_gradient(
        GRADS, 0.1, flax_mutables=VARIABLES
    )
    saved = state.state_dict()
    assert set(saved) == {"target", "state", "flax_mutables"}
    assert set(saved["state"]) == {"step", "param_states"}
    restored = new_state(optimizers.adam(0.1)).restore_state(saved)
    assert int(restored.step) == 1
    jax.tree.map(np.testing.assert_array_equal, restored.state_dict(), saved)
    assert isinstance(restored.flax_mutables, flax.core.FrozenDict)
    del saved["flax_mutables"]
    assert restored.restore_state(saved).flax_mutables == {}
    assert "flax_mutables" not in restored.restore_state(saved).state_dict()


def test_replace():
    state = new_state()
    params = {"kernel": jnp.zeros((3, 4))}
    assert state.replace_params(params).params is params
    assert int(state.replace_step(jnp.array(7)).step) == 7
    assert state.replace_flax_mutables({}).flax_mutables == {}
    assert int(state.step) == 0


def test_as_logical_axes():
    for optimizer in (optimizers.adam(0.1), adafactor.Adafactor()):
        state = new_state(optimizer)
        axes = state.as_logical_axes()
        assert axes.params == {"kernel": P("embed", "mlp")}
        assert axes.flax_mutables == {"stats": {"mean": P("embed")}}
        assert axes.step is None
        assert axes.state_dict()["target"] == {"kernel": P("embed", "mlp")}
    assert axes.param_states["kernel"].v == P("embed", "mlp")
    # A partitioner inserts mesh axes in the same way.
    swapped = axes.state_dict()
    swapped["target"]["kernel"] = P(None, "model")
    assert state.restore_state(swapped).params["kernel"] == P(None, "model")


def test_axes_under_eval_shape():
    shapes = jax.eval_shape(
        lambda: new_state(
            adafactor.Adafactor(
                logical_factor_rules=adafactor.standard_logical_factor_rules()
            )
        )
    )
    axes = shapes.as_logical_axes()
    assert axes.params == {"kernel": P("embed", "mlp")}
    assert axes.param_states["kernel"].v == P("embed", "mlp")


def test_inference_state():
    state = InferenceState.create(VARIABLES)
    assert isinstance(state.flax_mutables, flax.core.FrozenDict)
    saved = state.state_dict()
    assert set(saved) == {"target", "state", "flax_mutables"}
    assert set(saved["state"]) == {"step"}
    trained = new_state().apply_gradient(GRADS, 1.0).replace_step(jnp.array(5))
    restored = state.restore_state(trained.state_dict())
    assert int(restored.step) == 5
    np.testing.assert_array_equal(restored.params["kernel"], np.zeros((3, 4)))
    assert restored.params == flax.core.freeze(restored.params)
    assert isinstance(restored.params, flax.core.FrozenDict)
    assert restored.as_logical_axes().params == {"kernel": P("embed", "mlp")}
    empty = InferenceState(np.array(0), {}).restore_state(
        {"target": {"bias": np.ones(2)}, "state": {"step": np.array(4)}}
    )
    assert int(empty.step) == 4 and empty.params_axes is None
    np.testing.assert_array_equal(empty.params["bias"], np.ones(2))
    assert restored.flax_mutables == {}
    axes = state.as_logical_axes()
    assert axes.step is None and axes.params == {"kernel": P("embed", "mlp")}
    assert axes.flax_mutables == {"stats": {"mean": P("embed")}}
    assert int(state.replace_step(jnp.array(3)).step) == 3
    assert state.replace_params({}).params == {}
    assert state.replace_flax_mutables({"a": 1}).flax_mutables == {"a": 1}
    with pytest.raises(NotImplementedError, match="has no optimizer states"):
        _ = state.param_states
    with pytest.raises(NotImplementedError, match="does not support `apply_gradient`"):
        state.apply_gradient(GRADS, learning_rate=0.1)


def test_frozen_variables_stay_frozen():
    frozen = flax.core.freeze(VARIABLES)
    for state in (new_state(variables=frozen), InferenceState.create(frozen)):
        assert isinstance(state.params, flax.core.FrozenDict)
        restored = state.restore_state(state.state_dict())
        assert isinstance(restored.params, flax.core.FrozenDict)
        assert isinstance(state.as_logical_axes().params, flax.core.FrozenDict)


def test_errors():
    plain = Plain().init(jax.random.PRNGKey(0), X)
    for create in (new_state, InferenceState.create):
        options = {"variables": plain} if create is new_state else {}
        state = create(**options) if options else create(plain)
        with pytest.raises(ValueError, match="needs the collection `params_axes`"):
            state.as_logical_axes()
    with pytest.raises(ValueError) as error:
        new_state(adafactor.Adafactor(), plain)
    assert str(error.value) == (
        "The optimizer supports params_axes for model-based partitioning, but the "
        "model is not emitting them."
    )
    assert "param_with_axes" in error.value.__notes__[0]
    unnamed = {"bias": jnp.ones(4), "angle": jnp.ones(2)}
    incomplete = {**VARIABLES, "params": {**VARIABLES["params"], **unnamed}}
    for create in (lambda v: new_state(variables=v), InferenceState.create):
        with pytest.raises(ValueError) as error:
            create(incomplete)
        assert (
            str(error.value) == "Missing axis names for parameters: {'angle', 'bias'}"
        )

    class NoAxes(optimizers.OptimizerDef):
        def init_state(self, params):
            return optimizers.OptimizerState(jnp.array(0), params)

        def apply_gradient(self, hyper_params, params, state, grads):
            return params, state

    with pytest.raises(
        ValueError, match="Optimizer 'NoAxes' requires a `derive_logica"
    ):
        new_state(NoAxes(None)).as_logical_axes()
