"""Bit-parallel and extended edit distances, compared with the textbook table."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from step_kit import pad

from jaxaug.decode import edit_distance, ground_set
from jaxaug.decode.ground_set import GroundSet

pairwise = jax.jit(edit_distance.pairwise)
last_columns = jax.jit(edit_distance.last_columns)
dissimilarity = jax.jit(edit_distance.dissimilarity)


def as_set(rows, width) -> GroundSet:
    return ground_set.from_sequences(
        pad(rows, width), jnp.array([len(row) for row in rows], jnp.int32)
    )


def table(rows):
    return [[naive.edit(a, b) for b in rows] for a in rows]


def test_distances_that_everybody_knows():
    words = ["kitten", "sitting", "", "saturday", "sunday"]
    rows = [[ord(letter) for letter in word] for word in words]
    found = np.array(pairwise(as_set(rows, 8)))
    assert found[0, 1] == 3
    assert found[3, 4] == 3
    assert found[2].tolist() == [6, 7, 0, 8, 6]
    assert np.array_equal(found, found.T)


# Tokens of such a small alphabet repeat, which exercises the carries.
@pytest.mark.parametrize("width", [5, 31, 32, 33, 64, 70])
@given(data=st.data())
def test_pairwise_equals_the_table(width, data):
    tokens = st.lists(st.integers(1, 4), max_size=width)
    rows = data.draw(st.lists(tokens, min_size=4, max_size=4))
    assert np.array(pairwise(as_set(rows, width))).tolist() == table(rows)


@given(
    pattern=st.lists(st.integers(1, 3), min_size=40, max_size=40),
    text=st.lists(st.integers(1, 3), max_size=34),
)
def test_last_column_holds_all_beginnings(pattern, text):
    found = last_columns(pad([pattern], 40), pad([text], 34), jnp.array([len(text)]))
    expected = [naive.edit(text, pattern[:end]) for end in range(41)]
    assert found.tolist() == [[expected]]


@given(data=st.data())
def test_extended_candidates_equal_the_table(data):
    width = 34
    prefix = st.lists(st.integers(1, 3), max_size=width - 1)
    prefixes = data.draw(st.lists(prefix, min_size=3, max_size=3))
    triples = st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans())
    chosen = data.draw(st.lists(triples, min_size=6, max_size=6))
    rows = [prefixes[g] + [token] * extended for g, token, extended in chosen]
    group, token, extended = (jnp.array(column) for column in zip(*chosen, strict=True))
    ground = GroundSet(
        prefixes=pad(prefixes, width),
        prefix_lengths=jnp.array([len(row) for row in prefixes]),
        group=group,
        token=token,
        extended=extended,
        valid=jnp.ones((6,), bool),
    )
    longest = max(map(len, prefixes))
    assert pairwise(ground, longest).tolist() == table(rows)
    found = dissimilarity(ground, longest)
    expected = [[naive.dissimilarity(a, b) for b in rows] for a in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_no_array_grows_with_the_square_of_all_tokens():
    count, width = 30, 128
    ground = jax.eval_shape(lambda: as_set([[1] * width] * count, width))
    memory = pairwise.lower(ground).compile().memory_analysis()
    # A table of all pairs of tokens would take at least this many bytes.
    assert memory.temp_size_in_bytes < (count * width) ** 2
