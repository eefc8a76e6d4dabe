"""Refilled rows: new inputs take the rows of finished ones."""

import jax
import jax.numpy as jnp
import numpy as np
from decode_kit import EOS, VOCAB

from jaxaug.decode import contract, refill
from jaxaug.decode.sample import begin, sampler

LENGTH = 12


def rows_of(sizes, offset):
    """Returns rows with outputs of the given sizes in tokens, EOS included.

    The cache has `offset` leading axes.
    """
    count = len(sizes)
    sizes = jnp.array(sizes)
    lead = (2,) * offset
    cache = {
        "cache_index": jnp.zeros((*lead, count), jnp.int32),
        "cached_cross_key": jnp.broadcast_to(sizes, (*lead, count)),
    }
    state = begin(
        jnp.zeros((count, LENGTH), jnp.int32), cache, EOS, num_decodes=2,
        key=jax.random.PRNGKey(0),
        identities=contract.input_identities(None, input_ids=sizes),
        max_decode_steps=LENGTH, cache_offset=offset,
        initial_index=jnp.zeros((count,), jnp.int32),
    )  # fmt: skip
    return refill.started(state, {"size": sizes}, 2, offset)


def script(rows):
    """Returns a model that emits token 2, then EOS; it checks the shared memory."""

    def tokens_to_logits(state):
        step, size = state.cache["cache_index"], state.cache["cached_cross_key"]
        while step.ndim > 1:
            step, size = step[0], size[1]
        token = jnp.where(step + 1 >= size, EOS, 2)
        token = jnp.where(size == rows.memory["size"], token, 3)
        cache = state.cache | {"cache_index": state.cache["cache_index"] + 1}
        return 60.0 * jax.nn.one_hot(token, VOCAB), cache

    return sampler(tokens_to_logits, (), EOS)


def run(rows, ended):
    return refill.advance(rows, script(rows), jnp.int32(ended))


def outputs(rows):
    return [
        [t for t in row[1:] if t] for row in np.asarray(rows.state.sequences).tolist()
    ]


def test_new_inputs_take_the_rows_of_finished_ones():
    for offset in (0, 1):
        rows = refill.empty(rows_of([1], offset), 6, offset)
        assert rows.state.ended.all() and not rows.state.sequences.any()
        new = rows_of([3, 7, 9], offset)
        # The two rows of the third input get no place.
        rows = refill.put(rows, new, jnp.array([4, 0, 5, 2, 6, 6]), offset)
        assert rows.state.ended[:, 0].tolist() == [
            False, True, False, True, False, False,
        ]  # fmt: skip
        rows = run(rows, 3)
        assert rows.state.cur_index.max() == 3
        assert rows.state.ended[:, 0].tolist() == [True, True, False, True, True, False]
        rows = refill.put(rows, rows_of([5], offset), jnp.array([1, 4]), offset)
        rows = run(rows, 6)
        want = {0: 3, 2: 7, 5: 7, 1: 5, 4: 5}
        for place, size in want.items():
            assert outputs(rows)[place] == [2] * (size - 1) + [EOS]
        assert outputs(rows)[3] == []


def test_draws_belong_to_the_input():
    """A row has the key of its input at any place."""
    whole = rows_of([3, 7], 0).state.rng
    rows = refill.empty(rows_of([1], 0), 8, 0)
    rows = refill.put(rows, rows_of([7], 0), jnp.array([6, 3]), 0)
    np.testing.assert_array_equal(rows.state.rng[jnp.array([6, 3])], whole[2:])
    assert len(np.unique(np.asarray(whole), axis=0)) == 4
