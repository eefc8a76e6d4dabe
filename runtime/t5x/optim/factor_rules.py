"""Rules by which Adafactor factors a parameter: the role of each axis."""

import dataclasses
import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flax.core import FrozenDict, freeze

from t5x.errors import UserError
from t5x.optim.optimizer_base import flatten, unflatten


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
    """Returns the layout of a parameter, from its rule or its axis sizes.

    Raises:
        UserError: the rule does not fit the parameter.
    """
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
    """Returns the roles of a parameter's axes, from their names.

    Raises:
        UserError: a name has no role, or ROW, COLUMN and NONE are mixed.
    """
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
                "beside rows and columns only batch axes may occur."
            )
        return roles
    # A matrix needs both rows and columns to be factored.
    return tuple(r if r is FactorDim.BATCH else FactorDim.NONE for r in roles)
