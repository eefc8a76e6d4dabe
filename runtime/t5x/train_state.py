"""Train states: the pytrees that training and inference steps read and return."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import flax
import flax.core
import flax.struct
import jax
import jax.numpy as jnp
from absl import logging
from flax import traverse_util
from flax.core import FrozenDict
from flax.linen import partitioning as flax_partitioning
from flax.serialization import to_state_dict
from jaxtyping import Array, Int

from t5x.errors import UserError
from t5x.optimizers import Optimizer, OptimizerDef, PyTree
from t5x.state_utils import as_container, flatten

EMPTY_DICT: FrozenDict = flax.core.freeze({})
_AXES_SUFFIX = "_axes"
# Added as a note, because user code compares the texts of these errors.
_AXES_ADVICE = (
    "Create the parameters with flax.linen.partitioning.param_with_axes, which names "
    "their axes."
)


@runtime_checkable
class TrainState(Protocol):
    """Interface of a state for trainers, checkpointers, and partitioners."""

    @property
    def step(self) -> Int[Array, ""]:
        """Number of updates made."""

    @property
    def params(self) -> PyTree:
        """Parameters, nested by module."""

    @property
    def param_states(self) -> PyTree:
        """Optimizer state of each parameter."""

    @property
    def flax_mutables(self) -> Mapping:
        """The model's other collections, such as batch statistics."""

    def state_dict(self) -> dict[str, Any]:
        """Returns nested dictionaries, as written to checkpoints."""

    def restore_state(self, state_dict: Mapping[str, Any]) -> "TrainState":
        """Returns the state with the values of `state_dict`."""

    def replace_params(self, params: PyTree) -> "TrainState":
        """Returns the state with other parameters."""

    def replace_flax_mutables(self, flax_mutables: Mapping) -> "TrainState":
        """Returns the state with other mutable collections."""

    def replace_step(self, step: Int[Array, ""]) -> "TrainState":
        """Returns the state at another step."""

    def apply_gradient(
        self, grads: PyTree, learning_rate: Any, flax_mutables: Mapping = EMPTY_DICT
    ) -> "TrainState":
        """Returns the state after one update."""

    def as_logical_axes(self) -> "TrainState":
        """Returns the state with axis names (or None) instead of arrays."""


def _check_axes(axes: Mapping, variables: Mapping) -> None:
    names = flatten(flax_partitioning.get_axis_names(axes))
    missing = set(flatten(variables)) - set(names)
    if missing:
        listed = ", ".join(map(repr, sorted(missing)))
        error = ValueError(f"Missing axis names for parameters: {{{listed}}}")
        error.add_note(_AXES_ADVICE)
        raise error


def _axis_names(axes: Mapping | None, like: Mapping) -> Mapping:
    if axes is None:
        raise ValueError(
            "Named axis partitioning needs the collection `params_axes`, and the model "
            "does not emit it: create its parameters with "
            "flax.linen.partitioning.param_with_axes."
        )
    return as_container(flax_partitioning.get_axis_names(axes), like)


def _split_variables(
    variables: Mapping,
) -> tuple[PyTree, Mapping | None, FrozenDict, FrozenDict | None]:
    """Splits variables into parameters, other collections, and the axes of both."""
    collections = dict(variables)
    params = collections.pop("params")
    axes = {
        name.removesuffix(_AXES_SUFFIX): collections.pop(name)
        for name in tuple(collections)
        if name.endswith(_AXES_SUFFIX)
    }
    for name, found in axes.items():
        _check_axes(found, params if name == "params" else collections[name])
    params_axes = axes.pop("params", None)
    return (
        params,
        params_axes,
        flax.core.freeze(collections),
        flax.core.freeze(axes) or None,
    )


def _restored_mutables(state_dict: Mapping[str, Any]) -> FrozenDict:
    return flax.core.freeze(state_dict.get("flax_mutables", {}))


class FlaxOptimTrainState(flax.struct.PyTreeNode):
    """Parameters with their optimizer, and the other collections of the model.

    The `*_axes` fields hold flax AxisMetadata, which has no arrays.
    """

    _optimizer: Optimizer
    params_axes: Mapping | None = None
    flax_mutables: Mapping = EMPTY_DICT
    flax_mutables_axes: Mapping | None = None

    @classmethod
    def create(
        cls, optimizer_def: OptimizerDef, model_variables: Mapping
    ) -> "FlaxOptimTrainState":
        """Returns the initial state for the variables that `Module.init` returned."""
        params, params_axes, mutables, mutables_axes = _split_variables(model_variables)
        if hasattr(optimizer_def, "set_param_axes"):
            if params_axes is None:
                error = ValueError(
                    "The optimizer supports params_axes for model-based partitioning, "
                    "but the model is not emitting them."
                )
                error.add_note(_AXES_ADVICE)
                raise error
            optimizer_def.set_param_axes(_axis_names(params_axes, params))
        return cls(
            optimizer_def.create(params),
            params_axes=params_axes,
            flax_mutables=mutables,
            flax_mutables_axes=mutables_axes,
        )

    @property
    def step(self) -> Int[Array, ""]:
        return self._optimizer.state.step

    @property
    def params(self) -> PyTree:
        return self._optimizer.target

    @property
    def param_states(self) -> PyTree:
        return self._optimizer.state.param_states

    def state_dict(self) -> dict[str, Any]:
        """Returns `{'target', 'state': {'step', 'param_states'}, 'flax_mutables'}`.

        `flax_mutables` is left out if it is empty.
        """
        state_dict = self._optimizer.state_dict()
        if self.flax_mutables:
            state_dict["flax_mutables"] = to_state_dict(self.flax_mutables)
        return state_dict

    def restore_state(self, state_dict: Mapping[str, Any]) -> "FlaxOptimTrainState":
        return self.replace(
            _optimizer=self._optimizer.restore_state(state_dict),
            flax_mutables=_restored_mutables(state_dict),
        )

    def apply_gradient(
        self, grads: PyTree, learning_rate: Any, flax_mutables: Mapping = EMPTY_DICT
    ) -> "FlaxOptimTrainState":
        """See `TrainState`; `flax_mutables` replaces the collections."""
        optimizer = self._optimizer.apply_gradient(grads, learning_rate=learning_rate)
        return self.replace(_optimizer=optimizer, flax_mutables=flax_mutables)

    def replace_params(self, params: PyTree) -> "FlaxOptimTrainState":
        return self.replace(_optimizer=self._optimizer.replace(target=params))

    def replace_flax_mutables(self, flax_mutables: Mapping) -> "FlaxOptimTrainState":
        return self.replace(flax_mutables=flax_mutables)

    def replace_step(self, step: Int[Array, ""]) -> "FlaxOptimTrainState":
        state = self._optimizer.state.replace(step=step)
        return self.replace(_optimizer=self._optimizer.replace(state=state))

    def as_logical_axes(self) -> "FlaxOptimTrainState":
        optimizer_def = self._optimizer.optimizer_def
        if not hasattr(optimizer_def, "derive_logical_axes"):
            raise ValueError(
                f"Optimizer '{type(optimizer_def).__name__}' requires a "
                "`derive_logical_axes` method to be used with named axis partitioning."
            )
        names = _axis_names(self.params_axes, self.params)
        mutables_axes = self.flax_mutables_axes or EMPTY_DICT
        return type(self)(
            optimizer_def.derive_logical_axes(self._optimizer, names),
            flax_mutables=flax_partitioning.get_axis_names(mutables_axes),
        )


class InferenceState(flax.struct.PyTreeNode):
    """Train state for inference: a `FlaxOptimTrainState` without an optimizer."""

    step: Int[Array, ""] | None
    params: PyTree
    params_axes: Mapping | None = None
    flax_mutables: Mapping = EMPTY_DICT
    flax_mutables_axes: Mapping | None = None

    @classmethod
    def create(cls, model_variables: Mapping) -> "InferenceState":
        """Returns the state for the variables that `Module.init` returned."""
        params, params_axes, mutables, mutables_axes = _split_variables(model_variables)
        return cls(
            step=jnp.zeros((), jnp.int32),
            params=params,
            params_axes=params_axes,
            flax_mutables=mutables,
            flax_mutables_axes=mutables_axes,
        )

    @property
    def param_states(self) -> PyTree:
        """Raises NotImplementedError: there is no optimizer."""
        raise NotImplementedError("InferenceState has no optimizer states.")

    def apply_gradient(self, *args: Any, **kwargs: Any) -> "InferenceState":
        """Raises NotImplementedError: there is no optimizer."""
        raise NotImplementedError("InferenceState does not support `apply_gradient`.")

    def state_dict(self) -> dict[str, Any]:
        """Returns `{'target', 'state': {'step'}[, 'flax_mutables']}`."""
        state_dict: dict[str, Any] = {
            "target": to_state_dict(self.params),
            "state": {"step": self.step},
        }
        if self.flax_mutables:
            state_dict["flax_mutables"] = to_state_dict(self.flax_mutables)
        return state_dict

    def restore_state(self, state_dict: Mapping[str, Any]) -> "InferenceState":
        """See `TrainState`; optimizer states in `state_dict` are ignored.

        The restored parameters are always frozen.
        """
        return self.replace(
            params=flax.core.freeze(state_dict["target"]),
            step=state_dict["state"]["step"],
            flax_mutables=_restored_mutables(state_dict),
        )

    def replace_params(self, params: PyTree) -> "InferenceState":
        return self.replace(params=params)

    def replace_flax_mutables(self, flax_mutables: Mapping) -> "InferenceState":
        return self.replace(flax_mutables=flax_mutables)

    def replace_step(self, step: Int[Array, ""]) -> "InferenceState":
        return self.replace(step=step)

    def as_logical_axes(self) -> "InferenceState":
        mutables_axes = self.flax_mutables_axes or EMPTY_DICT
        return type(self)(
            step=None,
            params=_axis_names(self.params_axes, self.params),
            flax_mutables=flax_partitioning.get_axis_names(mutables_axes),
        )


def override_params_axes_names(
    model_variables: Mapping[str, Any],
    params_axes_names_override: Sequence[tuple[str, tuple[str, ...]]] = (),
) -> Mapping[str, Any]:
    """Replaces logical axis names of parameters.

    Args:
        params_axes_names_override: (pattern, axis names); the first pattern that
            matches a whole '/'-joined parameter name wins.

    Returns:
        The variables with new 'params_axes', frozen.

    Raises:
        UserError: 'params_axes' is missing, or the number of names differs from the
            rank.
    """
    if "params_axes" not in model_variables:
        raise UserError(
            "Model variables do not contain a 'params_axes' collection to apply an "
            "override to."
        )
    variables = flax.core.unfreeze(dict(model_variables))
    axes = traverse_util.flatten_dict(variables["params_axes"])
    for path, parameter in traverse_util.flatten_dict(variables["params"]).items():
        name = "/".join(path)
        names = next(
            (n for p, n in params_axes_names_override if re.fullmatch(p, name)), None
        )
        if names is None:
            continue
        if parameter.ndim != len(names):
            raise UserError(
                f"Provided axis name override for {name} does not match param rank "
                f"({parameter.ndim}): {names}"
            )
        logging.info("Axis names of %s: %s.", name, names)
        key = (*path[:-1], f"{path[-1]}_axes")
        axes[key] = flax_partitioning.AxisMetadata(names=tuple(names))
    variables["params_axes"] = traverse_util.unflatten_dict(axes)
    return flax.core.freeze(variables)


def set_hardware_rng_ops() -> None:
    """Makes newly created keys use the fast hardware generator."""
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")
