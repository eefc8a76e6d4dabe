"""Sets of n-grams as bit masks, compared with Python sets."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from step_kit import pad
from t5x.search.candidates import Candidates

from jaxaug.decode import ground_set, ngrams
from jaxaug.decode.ground_set import GroundSet

masks = jax.jit(ngrams.masks, static_argnames="orders")
ground_masks = jax.jit(ngrams.ground_masks, static_argnames="orders")


@jax.jit
def sizes(found):
    """Returns the sizes of all pairwise intersections: [orders, rows, rows]."""
    return ngrams.count(found[:, :, None] & found[:, None])


@jax.jit
def union_sizes(found, members):
    return ngrams.count(ngrams.union(found, members))


def expected_sizes(rows, orders):
    return [
        [[len(naive.ngrams(a, n) & naive.ngrams(b, n)) for b in rows] for a in rows]
        for n in range(1, orders + 1)
    ]


def test_pack_and_count():
    bits = np.zeros((2, 70), bool)
    bits[0, [0, 31, 32, 69]] = True
    packed = ngrams.pack(jnp.array(bits))
    assert packed.tolist() == [[2**31 + 1, 1, 2**5], [0, 0, 0]]
    assert ngrams.count(packed).tolist() == [4, 0]


def test_a_repeated_ngram_counts_once():
    rows = [[7, 7, 7, 7], [7, 7, 8]]
    found = masks([(pad(rows, 6), jnp.array([4, 3]))], orders=3)
    assert sizes(found).tolist() == [
        [[1, 1], [1, 2]],
        [[1, 1], [1, 2]],
        [[1, 0], [0, 1]],
    ]


@given(data=st.data(), orders=st.sampled_from([1, 3, 4]))
def test_masks_equal_python_sets(data, orders):
    # Inside a row, token 0 is an ordinary token.
    short = st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=2, max_size=2)
    wide = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=4, max_size=4)
    first, second = data.draw(wide), data.draw(short)
    found = masks(
        [
            (pad(first, 12), jnp.array([len(row) for row in first])),
            (pad(second, 3), jnp.array([len(row) for row in second])),
        ],
        orders=orders,
    )
    rows = first + second
    assert sizes(found).tolist() == expected_sizes(rows, orders)
    members = np.array(data.draw(st.lists(st.booleans(), min_size=6, max_size=6)))
    union = union_sizes(found, jnp.array(members))
    taken = [row for row, member in zip(rows, members, strict=True) if member]
    assert union.tolist() == [
        len(set().union(*(naive.ngrams(row, n) for row in taken)))
        for n in range(1, orders + 1)
    ]


@given(data=st.data())
def test_tails_complete_the_ngrams_of_a_prefix(data):
    prefix = st.lists(st.integers(1, 3), max_size=7)
    prefixes = data.draw(st.lists(prefix, min_size=2, max_size=2))
    triples = st.tuples(st.integers(0, 1), st.integers(1, 4), st.booleans())
    chosen = data.draw(st.lists(triples, min_size=5, max_size=5))
    source = data.draw(st.lists(st.integers(1, 4), max_size=6))
    rows = [prefixes[g] + [token] * extended for g, token, extended in chosen]
    group, token, extended = (jnp.array(column) for column in zip(*chosen, strict=True))
    ground = GroundSet(
        prefixes=pad(prefixes, 7),
        prefix_lengths=jnp.array([len(row) for row in prefixes]),
        group=group,
        token=token,
        extended=extended,
        valid=jnp.ones((5,), bool),
    )
    own, of_source = ground_masks(ground, pad([source], 9)[0], len(source), orders=3)
    assert ground.lengths.tolist() == [len(row) for row in rows]
    found = jnp.concatenate([own, of_source[:, None]], axis=1)
    assert sizes(found).tolist() == expected_sizes([*rows, source], 3)


def test_ground_set_of_a_step():
    """Parent 0 has two open and one finished child, parent 1 a finished one, 2 none.

    EOS counts as a word of finished children.
    """
    end = 9
    candidates = Candidates(
        sequences=pad([[5, 6, 7], [5, 6, 8], [5, 6, end], [4, end], [0, 0, 3]],
         4)[None],
        lengths=jnp.array([[3, 3, 3, 2, 3]]),
        log_probs=jnp.array([[-1.0, -2.0, -3.0, -4.0, -1e7]]),
        parents=jnp.array([[0, 0, 0, 1, 2]]),
        finished=jnp.array([[False, False, True, True, False]]),
        source=jnp.zeros((1, 1), jnp.int32), source_lengths=jnp.zeros((1,), jnp.int32),
        step=jnp.array(2), rng=jax.random.split(jax.random.key(0), 1), k=3,
    )  # fmt: skip
    ground = jax.jit(ground_set.from_candidates)(candidates)
    ground = jax.tree.map(lambda x: x[0], ground)
    assert ground.prefixes.tolist() == [[5, 6, 0, 0], [4, 0, 0, 0], [0, 0, 0, 0]]
    assert ground.prefix_lengths.tolist() == [2, 1, 0]
    assert ground.extended.tolist() == [True, True, True, True, False]
    assert ground.token.tolist()[:4] == [7, 8, end, end]
    assert ground.lengths.tolist() == [3, 3, 3, 2, 0]
    assert ground.valid.tolist() == [True, True, True, True, False]
