"""Optimizers behind one interface, and the optimizers of optax.

Adafactor has its own module, `t5x.adafactor`. `amos` has no PyPI package and is not
supported.
"""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import flax.core
import flax.struct
import jax
import jax.numpy as jnp
import optax
import optax.contrib
from flax import traverse_util
from flax.serialization import from_state_dict, to_state_dict

from t5x.state_utils import as_container, flatten, unflatten

PyTree = Any


class OptimizerState(flax.struct.PyTreeNode):
    """State of an optimizer: the number of updates and one state per parameter.

    `step` is an int32 scalar, or None if the optimizer holds axis names instead of
    arrays.
    """

    step: Any
    param_states: PyTree


class OptimizerDef(abc.ABC):
    """Base class of optimizers: pure functions of parameters, state, and gradients.

    A subclass that is partitioned by axis names also implements
    `derive_logical_axes(optimizer, param_logical_axes) -> Optimizer`. A subclass that
    needs the axis names earlier implements `set_param_axes(param_logical_axes)`.
    """

    def __init__(self, hyper_params: Any):
        self.hyper_params = hyper_params

    @abc.abstractmethod
    def init_state(self, params: PyTree) -> OptimizerState:
        """Returns the state before the first update."""

    @abc.abstractmethod
    def apply_gradient(
        self, hyper_params: Any, params: PyTree, state: OptimizerState, grads: PyTree
    ) -> tuple[PyTree, OptimizerState]:
        """Returns the updated parameters and state."""

    def update_hyper_params(self, **overrides: Any) -> Any:
        """Returns the hyper-parameters, some (or all: `hyper_params=`) replaced."""
        hyper_params = overrides.pop("hyper_params", self.hyper_params)
        return hyper_params.replace(**overrides) if overrides else hyper_params

    def create(self, target: PyTree) -> "Optimizer":
        """Joins the definition with parameters and their initial state."""
        return Optimizer(self, self.init_state(target), target)

    def state_dict(self, target: PyTree, state: OptimizerState) -> dict[str, Any]:
        """Returns `{'target': ..., 'state': {'step': ..., 'param_states': ...}}`."""
        return {"target": to_state_dict(target), "state": to_state_dict(state)}

    def restore_state(
        self, opt_target: PyTree, opt_state: OptimizerState, state_dict: Mapping
    ) -> tuple[PyTree, OptimizerState]:
        """Returns the target and the state with the values of `state_dict`."""
        return (
            from_state_dict(opt_target, state_dict["target"]),
            from_state_dict(opt_state, state_dict["state"]),
        )


class Optimizer(flax.struct.PyTreeNode):
    """An optimizer definition with its state and the parameters (target) it updates."""

    optimizer_def: OptimizerDef = flax.struct.field(pytree_node=False)
    state: OptimizerState
    target: PyTree

    def apply_gradient(
        self, grads: PyTree, **hyper_param_overrides: Any
    ) -> "Optimizer":
        """Applies one update; keywords (`learning_rate`) replace hyper-parameters."""
        target, state = self.optimizer_def.apply_gradient(
            self.optimizer_def.update_hyper_params(**hyper_param_overrides),
            self.target,
            self.state,
            grads,
        )
        return self.replace(target=target, state=state)

    def state_dict(self) -> dict[str, Any]:
        """Returns `{'target': ..., 'state': {'step': ..., 'param_states': ...}}`."""
        return self.optimizer_def.state_dict(self.target, self.state)

    def restore_state(self, state_dict: Mapping) -> "Optimizer":
        """Returns the optimizer with the values of `state_dict`."""
        target, state = self.optimizer_def.restore_state(
            self.target, self.state, state_dict
        )
        return self.replace(target=target, state=state)


_SELECTED = object()


def _selected_paths(traversal: traverse_util.Traversal, tree: Mapping) -> list[str]:
    marked = flatten(traversal.update(lambda _: _SELECTED, tree))
    return [path for path, leaf in marked.items() if leaf is _SELECTED]


def _subtree(tree: Mapping, paths: Sequence[str]) -> Mapping:
    flat = flatten(tree)
    return unflatten({path: flat[path] for path in paths}, like=tree)


def _per_parameter(param_states: Any, paths: Sequence[str]) -> dict[str, Any]:
    flat = flatten(param_states) if isinstance(param_states, Mapping) else {}
    if set(flat) != set(paths):
        raise ValueError(
            "MultiOptimizer takes optimizers with one state for each parameter, such "
            "as Adafactor. To give wrapped optax optimizers parts of the parameters, "
            "wrap `optax.multi_transform` or `optax.masked`."
        )
    return flat


class MultiOptimizer(OptimizerDef):
    """Applies optimizers to the parameters that their traversals select.

    Parameters that no traversal selects do not change and have the state None.
    `hyper_params` is a list with one entry per optimizer. Keywords to `apply_gradient`
    (`learning_rate=`) go to all optimizers.
    """

    hyper_params: list

    def __init__(
        self,
        traversals_and_optimizers: Sequence[
            tuple[traverse_util.Traversal, OptimizerDef]
        ],
    ):
        self.traversals, self.sub_optimizers = zip(
            *traversals_and_optimizers, strict=True
        )
        super().__init__([optimizer.hyper_params for optimizer in self.sub_optimizers])

    def init_state(self, params: Mapping) -> OptimizerState:
        """See base class."""
        owners: dict[str, list[int]] = {path: [] for path in flatten(params)}
        for index, traversal in enumerate(self.traversals):
            for path in _selected_paths(traversal, params):
                owners[path].append(index)
        shared = {path: found for path, found in owners.items() if len(found) > 1}
        if shared:
            raise ValueError(f"Multiple optimizers match the same leaves : {shared}")

        flat_states: dict[str, Any] = dict.fromkeys(owners)
        for traversal, optimizer in zip(
            self.traversals, self.sub_optimizers, strict=True
        ):
            paths = _selected_paths(traversal, params)
            state = optimizer.init_state(_subtree(params, paths))
            flat_states |= _per_parameter(state.param_states, paths)
        param_states = unflatten(flat_states, like=params)
        return OptimizerState(jnp.zeros((), jnp.int32), param_states)

    def apply_gradient(
        self, hyper_params: Sequence, params: Mapping, state: OptimizerState, grads: Any
    ) -> tuple[Mapping, OptimizerState]:
        flat_params = flatten(params)
        flat_states = flatten(state.param_states)
        for traversal, optimizer, hyper in zip(
            self.traversals, self.sub_optimizers, hyper_params, strict=True
        ):
            paths = _selected_paths(traversal, params)
            new_params, new_state = optimizer.apply_gradient(
                hyper,
                _subtree(params, paths),
                OptimizerState(state.step, _subtree(state.param_states, paths)),
                _subtree(grads, paths),
            )
            flat_params |= flatten(new_params)
            flat_states |= flatten(new_state.param_states)
        return (
            unflatten(flat_params, like=params),
            OptimizerState(state.step + 1, unflatten(flat_states, like=params)),
        )

    def update_hyper_params(self, **overrides: Any) -> list:
        hyper_params = overrides.pop("hyper_params", self.hyper_params)
        if not overrides:
            return hyper_params
        return [hyper.replace(**overrides) for hyper in hyper_params]

    def set_param_axes(self, param_logical_axes: Mapping) -> None:
        """Passes the axis names to the optimizers that have `set_param_axes`."""
        for traversal, optimizer in zip(
            self.traversals, self.sub_optimizers, strict=True
        ):
            if hasattr(optimizer, "set_param_axes"):
                paths = _selected_paths(traversal, param_logical_axes)
                optimizer.set_param_axes(_subtree(param_logical_axes, paths))
        # The optimizers may have stored derived values in their hyper-parameters.
        self.hyper_params = [
            optimizer.hyper_params for optimizer in self.sub_optimizers
        ]

    def derive_logical_axes(
        self, optimizer: Optimizer, param_logical_axes: Mapping
    ) -> Optimizer:
        """Returns the optimizer with axis names (or None) instead of arrays."""
        axes = as_container(param_logical_axes, optimizer.target)
        states = optimizer.state.param_states
        flat_states: dict[str, Any] = dict.fromkeys(flatten(optimizer.target))
        for traversal, sub in zip(self.traversals, self.sub_optimizers, strict=True):
            if hasattr(sub, "derive_logical_axes"):
                paths = _selected_paths(traversal, optimizer.target)
                part = Optimizer(
                    sub,
                    OptimizerState(optimizer.state.step, _subtree(states, paths)),
                    _subtree(optimizer.target, paths),
                )
                derived = sub.derive_logical_axes(part, _subtree(axes, paths))
                flat_states |= flatten(derived.state.param_states)
        param_states = unflatten(flat_states, like=optimizer.target)
        return optimizer.replace(state=OptimizerState(None, param_states), target=axes)


def _raw_key(x: Any) -> Any:
    # Checkpoints and NumPy cannot hold typed keys; jax.random accepts raw ones too.
    if jnp.issubdtype(jnp.asarray(x).dtype, jax.dtypes.prng_key):
        return jax.random.key_data(x)
    return x


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

        `mirrors` are fields with the shapes of the parameters; `nested` holds inner
        states.
        """

        def rule(state: Any, params_axes: PyTree) -> Any:
            axes = jax.tree.map(lambda _: None, state)._asdict()
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
        """Replaces each array in a (nested) optax state by its axis names or None."""

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
        param_states = jax.tree.map(_raw_key, self.optax_optimizer.init(params))
        return OptimizerState(jnp.zeros((), jnp.int32), param_states)

    def apply_gradient(
        self, hyper_params: Any, params: PyTree, state: OptimizerState, grads: PyTree
    ) -> tuple[PyTree, OptimizerState]:
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
        """Omits states without arrays, such as `EmptyState`."""
        flat = traverse_util.flatten_dict(to_state_dict(state))
        return {
            "target": to_state_dict(target),
            "state": traverse_util.unflatten_dict(flat),
        }

    def restore_state(
        self, opt_target: PyTree, opt_state: OptimizerState, state_dict: Mapping
    ) -> tuple[PyTree, OptimizerState]:
        """Takes states without arrays from `opt_state`; all arrays must be present."""
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


def chain(transformations: Sequence[optax.GradientTransformation]) -> OptaxWrapper:
    """Wraps `optax.chain` of a sequence (gin has no variable arguments)."""
    return OptaxWrapper(optax.chain(*transformations))


adabelief = wrap_optax_optimizer(optax.adabelief)
adagrad = wrap_optax_optimizer(optax.adagrad)
adam = wrap_optax_optimizer(optax.adam)
adamw = wrap_optax_optimizer(optax.adamw)
dpsgd = wrap_optax_optimizer(optax.contrib.dpsgd)
fromage = wrap_optax_optimizer(optax.fromage)
lamb = wrap_optax_optimizer(optax.lamb)
lars = wrap_optax_optimizer(optax.lars)
lion = wrap_optax_optimizer(optax.lion)
noisy_sgd = wrap_optax_optimizer(optax.noisy_sgd)
radam = wrap_optax_optimizer(optax.radam)
rmsprop = wrap_optax_optimizer(optax.rmsprop)
sgd = wrap_optax_optimizer(optax.sgd)
yogi = wrap_optax_optimizer(optax.yogi)
