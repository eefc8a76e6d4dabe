"""Learning-rate schedules: a product of named factors, traced inside jit."""

import difflib
import math
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from t5x import checks
from t5x.errors import UserError

# Factors that divide by `warmup_steps`, either always or at step 0.
_BY_WARMUP = frozenset(
    {"linear_warmup", "linear_decay", "rsqrt_decay", "rsqrt_normalized_decay"}
)


# Maps a step to a learning rate; traced inside the train step.
LearningRateCallable = Callable[[Int[Array, ""]], Float[Array, ""]]


def create_learning_rate_scheduler(
    factors: str = "constant * linear_warmup * rsqrt_decay",
    base_learning_rate: float = 0.5,
    warmup_steps: int = 1000,
    decay_factor: float = 0.5,
    steps_per_decay: int = 20000,
    steps_per_cycle: int = 100000,
    step_offset: int = 0,
    min_learning_rate: float = 1e-8,
) -> LearningRateCallable:
    """Returns the schedule that multiplies the factors named in `factors`.

    With s = max(0, step - step_offset) and w = warmup_steps, the factors are:

    - `constant`: base_learning_rate
    - `linear_warmup`: min(1, s / w)
    - `linear_decay`: base_learning_rate * min(s / w, 1 + decay_factor * (w - s))
    - `rsqrt_decay`: 1 / sqrt(max(s, w))
    - `rsqrt_normalized_decay`: sqrt(w) / sqrt(max(s, w))
    - `decay_every`: decay_factor ** (s // steps_per_decay)
    - `cosine_decay`: (1 + cos(pi * (max(0, s - w) / steps_per_cycle mod 1))) / 2

    Args:
        factors: names joined by `*`.
        base_learning_rate: used by `constant` and `linear_decay`.
        warmup_steps: w; at least 1 if a factor divides by it.
        decay_factor: used by `linear_decay` and `decay_every`.
        steps_per_decay: used by `decay_every`; at least 1.
        steps_per_cycle: used by `cosine_decay`; at least 1.
        step_offset: steps to subtract from the step number.
        min_learning_rate: floor of the result.

    Raises:
        UserError: a factor has an unknown name or divides by a step count below 1, or a
            number is NaN or infinite.
    """

    def half_cosine(progress: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.maximum(0.0, 0.5 * (1.0 + jnp.cos(jnp.pi * (progress % 1.0))))

    schedules: dict[str, Callable] = {
        "constant": lambda s: base_learning_rate,
        "linear_warmup": lambda s: jnp.minimum(1.0, s / warmup_steps),
        "linear_decay": lambda s: (
            base_learning_rate
            * jnp.minimum(s / warmup_steps, 1.0 + decay_factor * (warmup_steps - s))
        ),
        "rsqrt_decay": lambda s: 1.0 / jnp.sqrt(jnp.maximum(s, warmup_steps)),
        "rsqrt_normalized_decay": lambda s: (
            jnp.sqrt(float(warmup_steps)) / jnp.sqrt(jnp.maximum(s, warmup_steps))
        ),
        "decay_every": lambda s: decay_factor ** (s // steps_per_decay),
        "cosine_decay": lambda s: half_cosine(
            jnp.maximum(0.0, s - warmup_steps) / float(steps_per_cycle)
        ),
    }
    owner = "create_learning_rate_scheduler"
    if not isinstance(factors, str):
        raise UserError(f"{owner}.factors = {factors!r}: give names, joined by '*'.")
    checks.number(f"{owner}.base_learning_rate", base_learning_rate, -math.inf)
    checks.number(f"{owner}.decay_factor", decay_factor, -math.inf)
    checks.number(f"{owner}.step_offset", step_offset, -math.inf)
    checks.number(f"{owner}.min_learning_rate", min_learning_rate, -math.inf)
    names = [name.strip() for name in factors.split("*")]
    for setting, value, dividing in (
        ("warmup_steps", warmup_steps, _BY_WARMUP),
        ("steps_per_decay", steps_per_decay, {"decay_every"}),
        ("steps_per_cycle", steps_per_cycle, {"cosine_decay"}),
    ):
        least = 1 if dividing.intersection(names) else -math.inf
        checks.number(f"{owner}.{setting}", value, least)
    for name in names:
        if name not in schedules:
            near = difflib.get_close_matches(name, schedules, n=1)
            raise UserError(
                f"create_learning_rate_scheduler.factors = {factors!r}: unknown factor "
                f"{name!r}"
                + (f"; did you mean {near[0]!r}?" if near else "")
                + f" Known factors: {', '.join(schedules)}."
            )

    def learning_rate(step: Int[ArrayLike, ""]) -> Float[Array, ""]:
        s = jnp.maximum(0.0, jnp.asarray(step) - step_offset)
        rate: ArrayLike = 1.0
        for name in names:
            rate = rate * schedules[name](s)
        return jnp.maximum(rate, min_learning_rate).astype(jnp.float32)

    return learning_rate
