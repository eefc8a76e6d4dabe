"""Metrics of a training step, as clu metric objects.

Durations and numbers of steps are unknown inside a compiled step. The trainer sets them
with `set_time_metrics_duration` and `set_step_metrics_num_steps` before `compute`.
"""

import dataclasses
from collections.abc import Mapping, MutableMapping
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxaug_base.clu_names import metrics as clu_metrics

MetricsMap = MutableMapping[str, clu_metrics.Metric]
Scalar = int | float | np.number | np.ndarray | jnp.ndarray


def _add(a: Scalar | None, b: Scalar | None) -> Scalar:
    if a is None or b is None:
        raise ValueError("Cannot merge metrics of which one has no value: set it first")
    return a + b


def _known(metric: Any, name: str, how: str) -> jnp.ndarray:
    """Returns a field of a metric; ValueError if it has no value yet."""
    value = getattr(metric, name)
    if value is None:
        raise ValueError(f"{type(metric).__name__}: {how} before compute")
    return jnp.asarray(value)


@flax.struct.dataclass
class Sum(clu_metrics.Metric):
    """Sum of all values."""

    total: Scalar

    @classmethod
    def from_model_output(cls, values: Scalar, **_: Any) -> "Sum":
        return cls(total=jnp.sum(jnp.asarray(values)))

    def merge(self, other: "Sum") -> "Sum":
        return type(self)(total=_add(self.total, other.total))

    def compute(self) -> jnp.ndarray:
        return jnp.asarray(self.total)


@flax.struct.dataclass
class Step(clu_metrics.Metric):
    """Base class of metrics that need the number of steps.

    The number is set from outside, because the metrics of microbatches are merged too.
    """

    steps: Scalar | None = 1

    def replace_steps(self, steps: int) -> "Step":
        return self.replace(steps=steps)

    def compute(self) -> jnp.ndarray:
        return _known(self, "steps", "call replace_steps")


@flax.struct.dataclass
class AveragePerStep(Step):
    """Total divided by the number of steps."""

    total: Scalar | None = None

    @classmethod
    def from_model_output(
        cls, values: Scalar, steps: int | None = 1, **_: Any
    ) -> "AveragePerStep":
        return cls(total=jnp.sum(jnp.asarray(values)), steps=steps)

    def merge(self, other: "AveragePerStep") -> "AveragePerStep":
        return type(self)(
            total=_add(self.total, other.total), steps=_add(self.steps, other.steps)
        )

    def compute(self) -> jnp.ndarray:
        return _known(self, "total", "set total") / Step.compute(self)


@flax.struct.dataclass
class Time(clu_metrics.Metric):
    """Seconds between two points in time that the host sets."""

    duration: Scalar | None = None

    def replace_duration(self, duration: Scalar) -> "Time":
        return self.replace(duration=duration)

    def merge(self, other: "Time") -> "Time":
        del other
        return self

    def compute(self) -> jnp.ndarray:
        return _known(self, "duration", "call replace_duration")


@flax.struct.dataclass
class TimeRate(Time):
    """Numerator per second."""

    numerator: Scalar | None = None

    @classmethod
    def from_model_output(cls, numerator: Scalar, **_: Any) -> "TimeRate":
        return cls(numerator=numerator)

    def merge(self, other: "TimeRate") -> "TimeRate":
        if self.duration is not None or other.duration is not None:
            raise ValueError("TimeRate: merge before replace_duration, not after")
        return type(self)(numerator=_add(self.numerator, other.numerator))

    def compute(self) -> jnp.ndarray:
        return _known(self, "numerator", "set numerator") / Time.compute(self)


@flax.struct.dataclass
class StepsPerTime(Step, Time):
    """Steps per second."""

    @classmethod
    def from_model_output(cls, steps: int | None = 1, **_: Any) -> "StepsPerTime":
        return cls(steps=steps)

    def merge(self, other: "StepsPerTime") -> "StepsPerTime":
        return type(self)(steps=_add(self.steps, other.steps))

    def compute(self) -> jnp.ndarray:
        return Step.compute(self) / Time.compute(self)


def is_metric_obj(obj: Any) -> bool:
    return isinstance(obj, clu_metrics.Metric)


def is_time_metric(obj: Any) -> bool:
    return isinstance(obj, Time)


def create_metrics_dict(float_metrics_dict: Mapping[str, Scalar]) -> MetricsMap:
    """Converts each number to a `Sum`."""
    return {name: Sum(value) for name, value in float_metrics_dict.items()}


def shape_obj_to_defined_obj(obj: clu_metrics.Metric) -> clu_metrics.Metric:
    """Replaces the shapes in a metric from `jax.eval_shape` with arrays of zeros."""

    def defined(value: Any) -> Any:
        if is_metric_obj(value):
            return shape_obj_to_defined_obj(value)
        if hasattr(value, "shape"):
            return jnp.zeros(value.shape, value.dtype)
        return value

    fields = {f.name: defined(getattr(obj, f.name)) for f in dataclasses.fields(obj)}
    return type(obj)(**fields)


def set_time_metrics_duration(metrics: Any, duration: Scalar) -> Any:
    """Sets the duration of every time metric in a tree of metrics."""
    return jax.tree.map(
        lambda m: m.replace_duration(duration) if is_time_metric(m) else m,
        metrics,
        is_leaf=is_metric_obj,
    )


def set_step_metrics_num_steps(metrics: Any, num_steps: int) -> Any:
    """Sets the number of steps of every step metric in a tree of metrics."""
    return jax.tree.map(
        lambda m: m.replace_steps(num_steps) if isinstance(m, Step) else m,
        metrics,
        is_leaf=is_metric_obj,
    )
