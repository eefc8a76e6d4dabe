"""Several optimizers, each for its own part of the parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from flax import traverse_util

from t5x.optim.optimizer_base import (
    Optimizer,
    OptimizerDef,
    OptimizerState,
    as_container,
    flatten,
    unflatten,
)

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
        """See base class.

        Raises:
            ValueError: several optimizers select the same parameter, or an optimizer
                has no per-parameter state.
        """
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
        """See base class."""
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
        """See base class; the overrides go to every optimizer."""
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
