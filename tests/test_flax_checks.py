"""Skipping checks of Flax in tests hides no mistake."""

from typing import Any

import flax.errors
import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn

from tests.support import flax_checks


class Network(nn.Module):
    initialiser: Any
    size: int

    @nn.compact
    def __call__(self) -> jax.Array:
        return self.param("kernel", self.initialiser, (self.size,))


def closed(size: int, value: Any) -> Any:
    """Returns an initializer whose shape depends on its closure; `value` is unused."""

    def initialise(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        assert value is not None
        return jnp.zeros(size)

    return initialise


@pytest.mark.parametrize(
    "initialiser",
    [
        lambda size: nn.initializers.zeros,
        lambda size: nn.initializers.normal(1.0),
        lambda size: closed(size, "can be compared"),
        lambda size: closed(size, object()),
    ],
    ids=["function", "made", "closure", "unknown"],
)
def test_a_wrong_shape_is_found_each_time(initialiser):
    flax_checks.once()
    params = {"params": {"kernel": jnp.zeros(3)}}
    for size in (3, 2, 3, 4, 2):
        network = Network(initialiser(size), size)
        if size == 3:
            assert network.apply(params).shape == (3,)
        else:
            with pytest.raises(flax.errors.ScopeParamShapeError):
                network.apply(params)


def test_known_shapes_are_not_traced_again(monkeypatch):
    traced = []
    shape_of = jax.eval_shape
    flax_checks.once()
    monkeypatch.setattr(jax, "eval_shape", lambda f: traced.append(f) or shape_of(f))
    for size in (1234, 1234, 1235, 1234):
        params = {"params": {"kernel": jnp.zeros(size)}}
        Network(nn.initializers.normal(0.125), size).apply(params)
    assert len(traced) == 2
