"""Schedules, compared with values computed by hand from their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x.training.learning_rate import create_learning_rate_scheduler


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"factors": "constant", "base_learning_rate": 0.001}, {0: 0.001, 9999: 0.001}),
        ({"factors": "constant * linear_warmup", "base_learning_rate": 2.0},
         {0: 1e-8, 250: 0.5, 1000: 2.0, 5000: 2.0}),
        ({"factors": "constant*rsqrt_decay", "base_learning_rate": 1.0},
         {0: 0.0316227766, 1000: 0.0316227766, 10000: 0.01}),
        ({"factors": "rsqrt_normalized_decay", "warmup_steps": 100},
         {50: 1.0, 100: 1.0, 400: 0.5}),
        ({"factors": "decay_every", "decay_factor": 0.5, "steps_per_decay": 10},
         {9: 1.0, 10: 0.5, 25: 0.25}),
        ({"factors": "linear_decay", "base_learning_rate": 1.0, "warmup_steps": 10,
         "decay_factor": 0.1}, {5: 0.5, 10: 1.0, 15: 0.5, 20: 1e-8}),
        ({"factors": "cosine_decay", "warmup_steps": 10, "steps_per_cycle": 100},
         {10: 1.0, 35: 0.8535534, 60: 0.5, 110: 1.0}),
        ({"factors": "linear_warmup", "warmup_steps": 10, "step_offset": 100},
         {50: 1e-8, 105: 0.5, 200: 1.0}),
        ({"factors": "constant", "base_learning_rate": 0.0}, {3: 1e-8}),
        ({"factors": "constant", "base_learning_rate": 0.0, "min_learning_rate": 0.25},
         {3: 0.25}),
    ],
)  # fmt: skip
def test_values(settings, values):
    schedule = jax.jit(create_learning_rate_scheduler(**settings))
    for step, expected in values.items():
        rate = schedule(jnp.asarray(step, jnp.int32))
        assert rate.dtype == jnp.float32
        assert rate.shape == ()
        np.testing.assert_allclose(rate, expected, rtol=1e-6)


def test_defaults_are_those_of_t5x():
    schedule = create_learning_rate_scheduler()
    np.testing.assert_allclose(schedule(500), 0.5 * 0.5 / np.sqrt(1000), rtol=1e-6)
    np.testing.assert_allclose(schedule(4000), 0.5 / np.sqrt(4000), rtol=1e-6)


def test_an_unknown_factor_is_answered_with_the_nearest():
    with pytest.raises(
        ValueError, match="unknown factor 'linear_warmpu'; did you mean "
    ):
        create_learning_rate_scheduler(factors="constant * linear_warmpu")
