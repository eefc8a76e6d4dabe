"""Adafactor (Shazeer and Stern, 2018) with factoring by axis roles.

The paper factors the second moment of a matrix into row and column means. A parameter
of higher rank may be a matrix whose rows or columns span several axes (attention
kernels [embed, heads, head_dim]), or a stack of matrices (scanned layers). So each axis
has a role: ROW, COLUMN, BATCH (a stack: statistics stay separate), or NONE.
"""

import dataclasses
import enum
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from flax.core import FrozenDict, freeze
from jaxtyping import Array, Float

from t5x import checks
from t5x.errors import UserError
from t5x.optimizers import Optimizer, OptimizerDef, OptimizerState
from t5x.state_utils import as_container, flatten, unflatten


class FactorDim(enum.Enum):
    """Role of an axis in the factored second moment."""

    NONE = None
    BATCH = 1
    ROW = 2
    COLUMN = 3


class HeuristicRule(enum.Enum):
    """Type of the rule "factor the two largest axes, if they are large enough"."""

    TOKEN = 1


HEURISTIC_RULE = HeuristicRule.TOKEN
FactorRule = HeuristicRule | tuple[FactorDim, ...] | None


def standard_logical_factor_rules() -> FrozenDict:
    """Returns the roles of the axis names that the T5 models use."""
    roles = {
        FactorDim.ROW: ("embed",),
        FactorDim.COLUMN: (
            "vocab",
            "mlp",
            "heads",
            "kv",
            "joined_kv",
            "mlp_activations",
            "q_wi_fused",
            "o_wo_fused",
            "multiquery_heads",
            "kv_fused",
        ),
        FactorDim.NONE: ("relpos_buckets", "layer_norm_scale"),
        FactorDim.BATCH: ("layers", "stack"),
    }
    return freeze({name: role for role, names in roles.items() for name in names})


_ROLE_NAMES = {
    "row": FactorDim.ROW,
    "col": FactorDim.COLUMN,
    "column": FactorDim.COLUMN,
    "batch": FactorDim.BATCH,
    "none": FactorDim.NONE,
    "unfactorized": FactorDim.NONE,
}


def factor_name_to_factordim(name: str | FactorDim) -> FactorDim:
    """Returns the role with this name (case-insensitive), or a role unchanged."""
    if not isinstance(name, str):
        return name
    if name.lower() not in _ROLE_NAMES:
        raise UserError(
            f"Unknown factor role {name!r}: use one of {', '.join(_ROLE_NAMES)}."
        )
    return _ROLE_NAMES[name.lower()]


class HParamMap:
    """Hyper-parameters by parameter path: the first matching pattern wins."""

    def __init__(self, rules: Sequence[tuple[str, Any]]):
        self._rules = [(re.compile(pattern), value) for pattern, value in rules]

    def __getitem__(self, key: str) -> Any:
        for pattern, value in self._rules:
            if pattern.search(key):
                return value
        raise KeyError(f"No factor rule found for parameter: {key}")

    def __call__(self, params: Mapping) -> Mapping:
        """Returns a tree like `params` with the hyper-parameter of each leaf."""
        return unflatten({path: self[path] for path in flatten(params)}, like=params)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Factoring of one parameter.

    Attributes:
        averaged: axes over which the parameter scale and the update size are averaged.
        rows, columns: axes of the factored matrix; both are empty if the parameter is
            not factored.
    """

    averaged: tuple[int, ...]
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


def parameter_layout(
    rule: FactorRule, min_dim_size_to_factor: int, path: str, shape: tuple[int, ...]
) -> Layout:
    """Returns the layout of a parameter, from its rule or its axis sizes."""
    everything = tuple(range(len(shape)))
    if rule is None:
        return Layout(everything)
    if isinstance(rule, HeuristicRule):
        if len(shape) > 2:
            raise UserError(
                "A parameter with rank strictly higher than 2 must have an explicit "
                f"factorization rule: {path}, {shape}. Give Adafactor "
                "`logical_factor_rules` or a `factor_map`."
            )
        return _by_size(shape, min_dim_size_to_factor)
    if len(rule) != len(shape):
        raise UserError(
            f"Factorization rule {rule} has incorrect rank for param of rank "
            f"{len(shape)}: {path}, {shape}"
        )
    # A rule cannot state that small matrices must not be factored.
    if len(shape) <= 2 and FactorDim.BATCH not in rule:
        return _by_size(shape, min_dim_size_to_factor)

    def axes(role: FactorDim) -> tuple[int, ...]:
        return tuple(axis for axis, found in enumerate(rule) if found is role)

    batch, rows, columns = map(axes, (FactorDim.BATCH, FactorDim.ROW, FactorDim.COLUMN))
    if bool(rows) != bool(columns):
        raise UserError(
            f"Factorization rule {rule} needs both ROW and COLUMN, or neither: "
            f"{path}, {shape}"
        )
    averaged = tuple(axis for axis in everything if axis not in batch)
    return Layout(averaged, rows, columns)


def _by_size(shape: tuple[int, ...], smallest: int) -> Layout:
    everything = tuple(range(len(shape)))
    if len(shape) < 2:
        return Layout(everything)
    by_size = np.argsort(shape, kind="stable")
    row, column = int(by_size[-2]), int(by_size[-1])
    if shape[row] < smallest:
        return Layout(everything)
    return Layout(everything, (row,), (column,))


def without_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def rule_of_axes(
    rules: Mapping[str, FactorDim | str], axes: tuple[str | None, ...], path: str
) -> tuple[FactorDim, ...]:
    """Returns the roles of a parameter's axes, from their names."""
    unknown = [name for name in axes if name is not None and name not in rules]
    if unknown:
        raise UserError(
            f"Adafactor's logical_factor_rules have no role for axis {unknown[0]!r} of "
            f"parameter {path} {axes}: add one (row, column, batch or none)."
        )
    roles = tuple(
        FactorDim.NONE if name is None else factor_name_to_factordim(rules[name])
        for name in axes
    )
    if {FactorDim.ROW, FactorDim.COLUMN} <= set(roles):
        if FactorDim.NONE in roles:
            raise UserError(
                f"Incomplete adafactor spec {roles} for {axes} of parameter {path}: "
                "an axis that is neither row nor column must be a batch axis."
            )
        return roles
    # A matrix needs both rows and columns to be factored.
    return tuple(r if r is FactorDim.BATCH else FactorDim.NONE for r in roles)


class _AdafactorHyperParams(flax.struct.PyTreeNode):
    learning_rate: Any
    factored: bool
    multiply_by_parameter_scale: bool | HParamMap
    beta1: float | None
    decay_rate: float
    step_offset: int
    clipping_threshold: float | None
    weight_decay_rate: float | None
    min_dim_size_to_factor: int
    epsilon1: float
    epsilon2: float
    factor_map: HParamMap | Mapping[str, FactorRule] | None = None
    logical_factor_rules: Mapping[str, FactorDim | str] | None = None
    weight_decay_rate_lr_exponent: float | None = None
    global_norm_clip_threshold: float | None = None
    max_parameter_scale: float | None = None
    skip_nan_updates: bool = False


class _AdafactorParamState(flax.struct.PyTreeNode):
    """Second moment (v_row and v_col, or v) and momentum of one parameter.

    The fields hold arrays (unused ones have shape (1,)), axis names, or None.
    """

    v_row: Any
    v_col: Any
    v: Any
    m: Any


def _layout(hp: _AdafactorHyperParams, path: str, shape: tuple[int, ...]) -> Layout:
    rule: FactorRule = None
    if hp.factored:
        rule = HEURISTIC_RULE if hp.factor_map is None else hp.factor_map[path]
    return parameter_layout(rule, hp.min_dim_size_to_factor, path, shape)


def _rms(x: Array, axes: tuple[int, ...]) -> Array:
    return jnp.sqrt(jnp.mean(jnp.square(x), axis=axes, keepdims=True))


_TINY = float(jnp.finfo(jnp.float32).tiny)
# Minimum of each setting. Divisors and bases of powers must be positive: for an
# embedding without gradient, `epsilon1` is the whole second moment.
_LEAST = {
    "decay_rate": 0.0,
    "step_offset": -math.inf,
    "clipping_threshold": _TINY,
    "weight_decay_rate": 0.0,
    "weight_decay_rate_lr_exponent": 0.0,
    "global_norm_clip_threshold": 0.0,
    "max_parameter_scale": _TINY,
    "epsilon1": _TINY,
    "epsilon2": 0.0,
}


def _check(hp: _AdafactorHyperParams) -> None:
    """Refuses numbers that make parameters NaN or keep all of them from changing."""
    for name, least in _LEAST.items():
        if (value := getattr(hp, name)) is not None:
            checks.number(f"Adafactor.{name}", value, least)
    if hp.beta1 is not None:
        checks.number("Adafactor.beta1", hp.beta1, below=1)


class Adafactor(OptimizerDef):
    """Adafactor, with all statistics in float32.

    Parameters of rank 0 to 2 without a BATCH axis are factored by size: the two largest
    axes, if both have at least `min_dim_size_to_factor` elements. Parameters of higher
    rank follow `logical_factor_rules` or `factor_map`. For `logical_factor_rules` the
    trainer passes the axis names to `set_param_axes`.

    The second moment decays by 1 - (t + 1) ** -decay_rate, with t counted from
    `step_offset`. The paper's epsilon1, epsilon2, and clipping threshold d have the
    same names. With `multiply_by_parameter_scale`, `learning_rate` is relative to the
    root mean square of each parameter, so good values are larger than for Adam.

    Args:
        learning_rate: step size; the trainer passes its own at every update.
        factored: whether to factor second moments at all.
        multiply_by_parameter_scale: whether updates grow with the parameter; may be an
            HParamMap of booleans.
        beta1: momentum of the scaled updates; None for no momentum.
        decay_rate: exponent of the decay of the second moment.
        step_offset: step at which fine-tuning starts, to restart the decay. Until then
            the decay is 0, so nothing is averaged.
        clipping_threshold: maximum root mean square of an update; None for no limit.
        weight_decay_rate: fraction of the parameter subtracted at each update.
        min_dim_size_to_factor: minimum size of an axis that is factored by size.
        epsilon1: added to squared gradients.
        epsilon2: minimum scale of a parameter.
        dtype_momentum: dtype of the stored momentum.
        factor_map: axis roles by parameter path.
        logical_factor_rules: axis roles by axis name; they replace `factor_map`.
        weight_decay_rate_lr_exponent: multiplies the weight decay by the learning rate
            to this power; the weight decay rate then defaults to 1.
        global_norm_clip_threshold: maximum norm of all gradients together.
        max_parameter_scale: maximum scale of a parameter.
        skip_nan_updates: whether elements whose update is NaN keep their old value.
    """

    def __init__(
        self,
        learning_rate: float | None = None,
        factored: bool = True,
        multiply_by_parameter_scale: bool | HParamMap = True,
        beta1: float | None = None,
        decay_rate: float = 0.8,
        step_offset: int = 0,
        clipping_threshold: float | None = 1.0,
        weight_decay_rate: float | None = None,
        min_dim_size_to_factor: int = 128,
        epsilon1: float = 1e-30,
        epsilon2: float = 1e-3,
        dtype_momentum: Any = jnp.float32,
        factor_map: HParamMap | None = None,
        logical_factor_rules: Mapping[str, FactorDim | str] | None = None,
        weight_decay_rate_lr_exponent: float | None = None,
        global_norm_clip_threshold: float | None = None,
        max_parameter_scale: float | None = None,
        skip_nan_updates: bool = False,
    ):
        given = dict(locals())
        if not factored and factor_map is not None:
            raise UserError(
                "Adafactor factored is False but factorization rules have been "
                "provided: leave out one of them."
            )
        if not isinstance(multiply_by_parameter_scale, bool | HParamMap):
            raise TypeError(
                "`multiply_by_parameter_scale` must be either bool or `HParamMap` "
                f"type. Got {type(multiply_by_parameter_scale)}"
            )
        if not isinstance(factor_map, HParamMap | None):
            raise TypeError(
                "`factor_map` must be either None or `HParamMap` type. Got "
                f"{type(factor_map)}"
            )
        self.dtype_momentum = jax.dtypes.canonicalize_dtype(dtype_momentum)
        names = [field.name for field in dataclasses.fields(_AdafactorHyperParams)]
        super().__init__(_AdafactorHyperParams(**{n: given[n] for n in names}))
        _check(self.hyper_params)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Adafactor)
            and self.hyper_params == other.hyper_params
            and self.dtype_momentum == other.dtype_momentum
        )

    def __hash__(self) -> int:
        # `set_param_axes` changes the hyper-parameters, but the hash must stay constant
        # for the caches of jax.jit.
        return hash((Adafactor, self.dtype_momentum))

    def init_param_state(self, param: Array, path: str) -> _AdafactorParamState:
        """Returns the state of one parameter, named by its '/'-joined path."""
        layout = _layout(self.hyper_params, path, param.shape)
        unused = jnp.zeros((1,), jnp.float32)
        state = _AdafactorParamState(unused, unused, unused, unused)
        if layout.rows:
            row_shape = without_axes(param.shape, layout.columns)
            column_shape = without_axes(param.shape, layout.rows)
            state = state.replace(
                v_row=jnp.zeros(row_shape, jnp.float32),
                v_col=jnp.zeros(column_shape, jnp.float32),
            )
        else:
            state = state.replace(v=jnp.zeros(param.shape, jnp.float32))
        if self.hyper_params.beta1 is not None:
            state = state.replace(m=jnp.zeros(param.shape, self.dtype_momentum))
        return state

    def init_state(self, params: Mapping) -> OptimizerState:
        states = {p: self.init_param_state(x, p) for p, x in flatten(params).items()}
        return OptimizerState(jnp.zeros((), jnp.int32), unflatten(states, like=params))

    def apply_param_gradient(
        self,
        step: Array,
        hyper_params: _AdafactorHyperParams,
        param: Float[Array, "*shape"],
        state: _AdafactorParamState,
        grad: Float[Array, "*shape"],
        path: str,
    ) -> tuple[Float[Array, "*shape"], _AdafactorParamState]:
        """Returns a parameter and its state after one update.

        This is algorithms 4 and 5 of Shazeer and Stern (2018).
        """
        hp = hyper_params
        layout = _layout(hp, path, param.shape)
        old = param.astype(jnp.float32)
        direction, new_state = _second_moment(step, hp, layout, state, grad)
        if hp.clipping_threshold is not None:
            size = _rms(direction, layout.averaged)
            direction /= jnp.maximum(1.0, size / hp.clipping_threshold)
        update = hp.learning_rate * self._scale(hp, layout, old, path) * direction
        if hp.beta1 is not None:
            update = hp.beta1 * state.m + (1.0 - hp.beta1) * update
            new_state = new_state.replace(m=update.astype(self.dtype_momentum))
        decay = hp.weight_decay_rate
        if hp.weight_decay_rate_lr_exponent:
            power = hp.learning_rate**hp.weight_decay_rate_lr_exponent
            decay = (decay or 1.0) * power
        new = old - update if decay is None else (1.0 - decay) * old - update
        if hp.skip_nan_updates:
            new, new_state = jax.tree.map(
                lambda after, before: jnp.where(jnp.isnan(after), before, after),
                (new, new_state),
                (old, state),
            )
        return new.astype(param.dtype), new_state

    @staticmethod
    def _scale(
        hp: _AdafactorHyperParams, layout: Layout, param: Array, path: str
    ) -> Array | float:
        wanted = hp.multiply_by_parameter_scale
        if not (wanted[path] if isinstance(wanted, HParamMap) else wanted):
            return 1.0
        scale = jnp.maximum(_rms(param, layout.averaged), hp.epsilon2)
        if hp.max_parameter_scale is not None:
            scale = jnp.minimum(scale, hp.max_parameter_scale)
        return scale

    def apply_gradient(
        self,
        hyper_params: _AdafactorHyperParams,
        params: Mapping,
        state: OptimizerState,
        grads: Mapping,
    ) -> tuple[Mapping, OptimizerState]:
        if hyper_params.learning_rate is None:
            raise UserError(
                "Adafactor: no learning rate provided. Give it `learning_rate`, or the "
                "trainer a `learning_rate_fn`."
            )
        flat_states, flat_grads = flatten(state.param_states), flatten(grads)
        clip: Array | float = 1.0
        if hyper_params.global_norm_clip_threshold:
            squares = [jnp.sum(jnp.square(g)) for g in flat_grads.values()]
            norm = jnp.sqrt(sum(squares))
            clip = jnp.minimum(1.0, hyper_params.global_norm_clip_threshold / norm)
        new_params, new_states = {}, {}
        for path, param in flatten(params).items():
            grad = flat_grads[path].astype(jnp.float32) * clip
            new_params[path], new_states[path] = self.apply_param_gradient(
                state.step, hyper_params, param, flat_states[path], grad, path
            )
        return (
            unflatten(new_params, like=params),
            OptimizerState(state.step + 1, unflatten(new_states, like=params)),
        )

    def set_param_axes(self, param_logical_axes: Mapping) -> None:
        """Derives the roles of all axes from their names, by `logical_factor_rules`."""
        rules = self.hyper_params.logical_factor_rules
        if rules is None:
            return
        factor_map = {
            path: rule_of_axes(rules, tuple(axes), path)
            for path, axes in flatten(param_logical_axes).items()
        }
        self.hyper_params = self.hyper_params.replace(factor_map=factor_map)

    def derive_logical_axes(
        self, optimizer: Optimizer, param_logical_axes: Mapping
    ) -> Optimizer:
        """Returns the optimizer with axis names (or None) instead of arrays.

        Row and column means are small and are replicated on every device.
        """
        flat_axes = flatten(param_logical_axes)
        states = {
            path: _AdafactorParamState(
                v_row=None,
                v_col=None,
                v=flat_axes[path] if state.v.shape != (1,) else None,
                m=flat_axes[path] if self.hyper_params.beta1 is not None else None,
            )
            for path, state in flatten(optimizer.state.param_states).items()
        }
        return optimizer.replace(
            state=OptimizerState(None, unflatten(states, like=optimizer.target)),
            target=as_container(param_logical_axes, optimizer.target),
        )


def _second_moment(
    step: Array,
    hp: _AdafactorHyperParams,
    layout: Layout,
    state: _AdafactorParamState,
    grad: Array,
) -> tuple[Array, _AdafactorParamState]:
    """Returns the gradient over the root of its second moment, and the moments."""
    grad = grad.astype(jnp.float32)
    # Before `step_offset` the base would not be positive, and its power NaN.
    count = jnp.maximum(jnp.asarray(step - hp.step_offset, jnp.float32) + 1.0, 1.0)
    decay = 1.0 - count**-hp.decay_rate
    squared = jnp.square(grad) + hp.epsilon1
    if not layout.rows:
        v = decay * state.v + (1.0 - decay) * squared
        return grad * jax.lax.rsqrt(v), state.replace(v=v)
    rows, columns = layout.rows, layout.columns
    row_mean = jnp.mean(squared, axis=columns)
    column_mean = jnp.mean(squared, axis=rows)
    v_row = decay * state.v_row + (1.0 - decay) * row_mean
    v_col = decay * state.v_col + (1.0 - decay) * column_mean
    row_factor = jnp.expand_dims(v_row, columns)
    row_factor /= jnp.mean(row_factor, axis=rows, keepdims=True)
    column_factor = jnp.expand_dims(v_col, rows)
    direction = grad * jax.lax.rsqrt(row_factor) * jax.lax.rsqrt(column_factor)
    return direction, state.replace(v_row=v_row, v_col=v_col)
