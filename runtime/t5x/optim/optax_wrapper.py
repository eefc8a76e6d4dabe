"""Optax optimizers behind the `OptimizerDef` interface."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import flax.struct
import jax
import jax.numpy as jnp
import optax
from flax import traverse_util
from flax.serialization import from_state_dict, to_state_dict

from t5x.optim.optimizer_base import (
    Optimizer,
    OptimizerDef,
    OptimizerState,
    PyTree,
    as_container,
)


def _raw_key(x: Any) -> Any:
    # Checkpoints and NumPy cannot hold typed keys; jax.random accepts raw ones too.
    if jnp.issubdtype(jnp.asarray(x).dtype, jax.dtypes.prng_key):
        return jax.random.key_data(x)
    return x


def _no_axes(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda _: None, tree)


class OptaxStatePartitionRules:
    """Axis names of optax states whose arrays have the shapes of the parameters.

    `_RULES` maps a state type to `rule(state, params_axes) -> state of axis names`,
    with None for arrays that are not partitioned. States with factored moments have no
    rule: use `t5x.adafactor`. Users may add state types to `_RULES`.
    """

    _RULES: ClassVar[dict[type, Callable[[Any, PyTree], Any]]] = {}

    @classmethod
    def _register(
        cls, state_type: type, mirrors: tuple[str, ...] = (), nested: str | None = None
    ) -> None:
        """Adds a rule for a state type.

        Args:
            state_type: type of the optax state.
            mirrors: fields with the shapes of the parameters.
            nested: field that holds inner states, if any.
        """

        def rule(state: Any, params_axes: PyTree) -> Any:
            axes = {name: _no_axes(getattr(state, name)) for name in state._fields}
            for name in mirrors:
                axes[name] = cls.derive_params_axes(getattr(state, name), params_axes)
            if nested is not None:
                axes[nested] = cls.derive_optax_logical_axes(
                    getattr(state, nested), params_axes
                )
            return state._replace(**axes)

        cls._RULES[state_type] = rule

    @staticmethod
    def _is_optax_state(x: Any) -> bool:
        # Optax states have no base class: they are named tuples called `...State`.
        return (
            isinstance(x, tuple)
            and hasattr(x, "_fields")
            and type(x).__name__.endswith("State")
        )

    @classmethod
    def derive_optax_logical_axes(cls, optax_state: PyTree, params_axes: PyTree) -> Any:
        """Replaces each array in a (nested) optax state by its axis names or None.

        Raises:
            ValueError: a state type has no rule.
        """

        def derive(x: Any) -> Any:
            if not cls._is_optax_state(x):
                return None
            if type(x) not in cls._RULES:
                raise ValueError(
                    f"Encountered unregistered optax state type {type(x).__name__}: "
                    f"add a rule for it to OptaxStatePartitionRules._RULES."
                )
            return cls._RULES[type(x)](x, params_axes)

        return jax.tree.map(derive, optax_state, is_leaf=cls._is_optax_state)

    @classmethod
    def derive_params_axes(cls, optax_params: PyTree, params_axes: PyTree) -> PyTree:
        """Returns `params_axes`, except where optax masks the parameter."""
        return jax.tree.map(
            lambda axes, x: x if isinstance(x, optax.MaskedNode) else axes,
            params_axes,
            optax_params,
        )


for _state_type, _mirrors, _nested in (
    (optax.EmptyState, (), None),
    (optax.AddNoiseState, (), None),
    (optax.contrib.DifferentiallyPrivateAggregateState, (), None),
    (optax.EmaState, ("ema",), None),
    (optax.TraceState, ("trace",), None),
    (optax.ScaleByAdamState, ("mu", "nu"), None),
    (optax.ScaleByBeliefState, ("mu", "nu"), None),
    (optax.ScaleByLionState, ("mu",), None),
    (optax.ScaleByRssState, ("sum_of_squares",), None),
    (optax.ScaleByRmsState, ("nu",), None),
    (optax.ScaleByRStdDevState, ("mu", "nu"), None),
    # `mu` holds one vector per axis of each parameter.
    (optax.ScaleBySM3State, ("nu",), None),
    (optax.ScaleByTrustRatioState, (), None),
    (optax.ScaleByScheduleState, (), None),
    (optax.ZeroNansState, (), None),
    (optax.MaskedState, (), "inner_state"),
    (optax.InjectHyperparamsState, (), "inner_state"),
    (optax.InjectStatefulHyperparamsState, (), "inner_state"),
    (optax.ApplyIfFiniteState, (), "inner_state"),
    (optax.ConditionallyTransformState, (), "inner_state"),
    (optax.MultiTransformState, (), "inner_states"),
    (optax.MultiStepsState, ("acc_grads",), "inner_opt_state"),
):
    OptaxStatePartitionRules._register(_state_type, _mirrors, _nested)


class _HyperParams(flax.struct.PyTreeNode):
    """Accepts the trainer's learning rate, which optax does not use."""

    learning_rate: Any = None


class OptaxWrapper(OptimizerDef):
    """An optax transformation as an `OptimizerDef`.

    The learning rate and its schedule are the ones given to optax. The trainer's
    learning rate is logged and has no other effect.
    """

    def __init__(self, optax_optimizer: optax.GradientTransformation):
        self.optax_optimizer = optax_optimizer
        super().__init__(_HyperParams())

    def init_state(self, params: PyTree) -> OptimizerState:
        """See base class."""
        param_states = jax.tree.map(_raw_key, self.optax_optimizer.init(params))
        return OptimizerState(jnp.zeros((), jnp.int32), param_states)

    def apply_gradient(
        self, hyper_params: Any, params: PyTree, state: OptimizerState, grads: PyTree
    ) -> tuple[PyTree, OptimizerState]:
        """See base class; `hyper_params` has no effect."""
        del hyper_params
        updates, param_states = self.optax_optimizer.update(
            grads, state.param_states, params
        )
        new_params = optax.apply_updates(params, updates)
        return new_params, OptimizerState(state.step + 1, param_states)

    def derive_logical_axes(
        self, optimizer: Optimizer, param_logical_axes: Mapping
    ) -> Optimizer:
        """Returns the optimizer with axis names (or None) instead of arrays."""
        axes = as_container(param_logical_axes, optimizer.target)
        param_states = OptaxStatePartitionRules.derive_optax_logical_axes(
            optimizer.state.param_states, axes
        )
        return optimizer.replace(state=OptimizerState(None, param_states), target=axes)

    def state_dict(self, target: PyTree, state: OptimizerState) -> dict[str, Any]:
        """See base class; omits states without arrays, such as `EmptyState`."""
        flat = traverse_util.flatten_dict(to_state_dict(state))
        return {
            "target": to_state_dict(target),
            "state": traverse_util.unflatten_dict(flat),
        }

    def restore_state(
        self, opt_target: PyTree, opt_state: OptimizerState, state_dict: Mapping
    ) -> tuple[PyTree, OptimizerState]:
        """See base class; takes states without arrays from `opt_state`.

        Raises:
            ValueError: an array of the optimizer is missing from `state_dict`.
        """
        wanted = traverse_util.flatten_dict(
            to_state_dict(opt_state), keep_empty_nodes=True
        )
        found = traverse_util.flatten_dict(dict(state_dict["state"]))
        for path, leaf in wanted.items():
            if leaf is traverse_util.empty_node:
                found[path] = leaf
            elif path not in found:
                raise ValueError(
                    f"Failed to restore optimizer state, path {'/'.join(path)} is not "
                    "present in the input optimizer state dict."
                )
        return (
            from_state_dict(opt_target, state_dict["target"]),
            from_state_dict(opt_state, traverse_util.unflatten_dict(found)),
        )


def wrap_optax_optimizer(
    optax_optimizer: Callable[..., optax.GradientTransformation],
) -> Callable[..., OptaxWrapper]:
    """Wraps a factory of optax optimizers so that it returns `OptaxWrapper` objects."""

    @functools.wraps(optax_optimizer)
    def wrapped(*args: Any, **kwargs: Any) -> OptaxWrapper:
        return OptaxWrapper(optax_optimizer(*args, **kwargs))

    return wrapped
