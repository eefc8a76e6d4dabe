"""Base classes of optimizers: definition, state, and both with a target."""

import abc
from collections.abc import Mapping
from typing import Any

import flax.core
import flax.struct
from flax import traverse_util
from flax.serialization import from_state_dict, to_state_dict

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


def flatten(tree: PyTree) -> dict[str, Any]:
    """Returns the leaves of a nested dictionary by '/'-joined path."""
    return traverse_util.flatten_dict(flax.core.unfreeze(tree), sep="/")


def unflatten(flat: Mapping[str, Any], like: Mapping) -> Mapping:
    """Inverts `flatten`; returns a FrozenDict if `like` is one."""
    return as_container(traverse_util.unflatten_dict(dict(flat), sep="/"), like)


def as_container(tree: PyTree, like: PyTree) -> Any:
    """Freezes or unfreezes `tree` like `like`, so that both are the same pytree."""
    if isinstance(like, flax.core.FrozenDict):
        return flax.core.freeze(tree)
    return flax.core.unfreeze(tree)
