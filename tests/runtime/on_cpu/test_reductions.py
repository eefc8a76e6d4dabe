"""Softmax and sums over rows equal JAX, gradients included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core as jax_core
from t5x.examples.t5 import masks, position_bias
from t5x.on_cpu import reductions

from tests.support import grids


@pytest.fixture
def short(monkeypatch):
    """Makes arrays of test size count as long."""
    monkeypatch.setattr(reductions, "_LEAST", 1)


def drawn(*shape):
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return jnp.asarray(3 * values, jnp.float32)


def reduced_sizes(function, *arguments):
    """Returns the number of values in each sum and maximum of a function."""
    sizes = []

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name in ("reduce_max", "reduce_sum"):
                shape, axes = equation.invars[0].aval.shape, equation.params["axes"]
                sizes.append(int(np.prod([shape[axis] for axis in axes])))
            for inner in jax_core.jaxprs_in_params(equation.params):
                walk(inner)

    walk(jax.make_jaxpr(function)(*arguments).jaxpr)
    return sizes


def both(function, x, of_result):
    @jax.jit
    def run(x, of_result):
        result, pull = jax.vjp(function, x)
        return result, *pull(of_result)

    return run(x, of_result)


@pytest.mark.parametrize(
    "size", grids.first(4, [1, 41, 160, 2048, 40, 72, 96, 120, 1000, 1291, 40_000])
)
def test_soft_max_and_its_gradient(short, size):
    x, of_result = drawn(2, 3, size), drawn(3, 2, size).swapaxes(0, 1)
    # Half of the keys are hidden, or all of them.
    x = x.at[0, 0, size // 2 :].set(-1e10).at[1].set(-1e10)
    found = both(reductions.softmax, x, of_result)
    for ours, expected in zip(found, both(jax.nn.softmax, x, of_result), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-6)
    sizes = reduced_sizes(lambda x: both(reductions.softmax, x, of_result), x)
    assert max(sizes) <= 40


def test_soft_max_of_nan_and_infinity(short):
    x = drawn(4, 160).at[0, 3].set(jnp.nan).at[1, 5].set(-jnp.inf).at[2, 7].set(jnp.inf)
    np.testing.assert_allclose(reductions.softmax(x), jax.nn.softmax(x), rtol=2e-6)


@pytest.mark.parametrize(
    ("change", "is_sliced"),
    [
        ({}, True),
        ({"size": 159}, False),
        ({"dtype": jnp.bfloat16}, False),
        ({"devices": 8}, False),
        ({"backend": "tpu"}, False),
    ],
)
def test_cases_that_use_slices(monkeypatch, change, is_sliced):
    values = {
        "size": 160, "dtype": jnp.float32, "devices": 1, "backend": "cpu", **change
    }  # fmt: skip
    monkeypatch.setattr(reductions, "_LEAST", 2 * 3 * 160)
    monkeypatch.setattr(jax, "device_count", lambda: values["devices"])
    monkeypatch.setattr(jax, "default_backend", lambda: values["backend"])
    x = jax.ShapeDtypeStruct((2, 3, values["size"]), values["dtype"])
    # A new function, because JAX caches traces by function.
    sizes = reduced_sizes(lambda x: reductions.softmax(x), x)
    assert (max(sizes) <= 40) is is_sliced


@pytest.mark.parametrize("rows_shape", [(5, 1, 6, 8), (5, 3, 6, 8), (1, 1, 6, 8)])
def test_an_addition_to_rows_gets_the_sum_of_their_gradients(short, rows_shape):
    rows, shared = drawn(*rows_shape), drawn(1, 3, 6, 8)

    def of(add):
        result, pull = jax.vjp(add, rows, shared)
        return result, *pull(drawn(*result.shape))

    found, expected = of(reductions.add_to_rows), of(jnp.add)
    for ours, wanted in zip(found, expected, strict=True):
        assert ours.shape == wanted.shape
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def test_a_learned_bias_is_added_to_the_bias_of_a_mask(monkeypatch):
    hidden, learned = drawn(4, 1, 5, 7), drawn(1, 2, 5, 7)

    def sizes():
        of_learned = jax.grad(lambda x: (masks.combine_biases(hidden, x) ** 2).sum())
        return reduced_sizes(of_learned, learned)

    assert 4 in sizes()
    monkeypatch.setattr(reductions, "_LEAST", 1)
    assert 4 not in sizes()


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (4, 9), (9, 4), (1, 3)])
def test_biases_looked_up_are_those_that_are_shifted(queries, keys):
    vector, of_pairs = drawn(2, queries + keys), drawn(2, queries, keys)

    def of(function):
        return both(lambda x: function(x, queries, keys), vector, of_pairs)

    found, expected = of(position_bias._looked_up), of(position_bias._shifted)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)
    for query in range(queries):
        for key in range(keys):
            np.testing.assert_array_equal(
                found[0][:, query, key], vector[:, key - query]
            )
