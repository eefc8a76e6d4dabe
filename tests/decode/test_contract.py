"""Common rules of decode functions: prompts, maximum steps, and NaN logits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decode_kit import EOS, first_ones, scripted_model, towards
from t5x.search import decode_state

from jaxaug.core.errors import UserError
from jaxaug.decode import beam, warpers
from jaxaug.decode.sample import sample
from tests.support import grids

GREEDY = functools.partial(sample, warpers=(warpers.top_k(1),))
BEAM = functools.partial(beam.search, num_decodes=2)
# Plain beam search would prefer unlikely texts that end first.
CHOSEN = functools.partial(BEAM, select=first_ones, alpha=0.0)


@pytest.mark.parametrize("prefilled", [False, True])
@pytest.mark.parametrize(
    ("decode", "last"), [(GREEDY, 2), (BEAM, EOS)], ids=["sample", "beam"]
)
def test_prompts_of_uneven_length(decode, last, prefilled):
    """The script says 2 2 2 ..., and EOS at the fifth place; prompts override it."""
    starts = (0, 1, 3, 5)
    inputs = np.array(
        [[0] * 6, [0, 4, 0, 0, 0, 0], [0, EOS, 3, EOS, 0, 0], [0, 3, 3, 4, 4, 4]]
    )
    script = [[2, 2, 2, 2, EOS, 2]] * 4
    if prefilled and decode is BEAM:
        # Beam search counts steps from the start of the search.
        script = [row[n:] + [0] * n for row, n in zip(script, starts, strict=True)]
    model, cache = scripted_model(towards(script))
    index = jnp.array(starts) if prefilled else None
    tokens, _ = decode(jnp.asarray(inputs), cache, model, EOS, initial_index=index)
    assert tokens[:, -1].tolist() == [
        [2, 2, 2, 2, EOS, 0],
        [4, 2, 2, 2, EOS, 0],
        [EOS, 3, EOS, 2, EOS, 0],  # EOS inside a prompt ends nothing.
        [
            3,
            3,
            4,
            4,
            4,
            last,
        ],  # Beam search sorts finished beams before unfinished ones.
    ]


@pytest.mark.parametrize("decode", [GREEDY, CHOSEN], ids=["sample", "beam"])
def test_max_decode_steps_counts_from_the_prompt(decode):
    model, cache = scripted_model(towards([[2, 3, 4, 2, 3, 4]] * 3))
    inputs = jnp.array([[0, 0, 0, 0, 0, 0], [0, 4, 4, 0, 0, 0], [0, 4, 4, 4, 4, 4]])
    tokens, _ = decode(inputs, cache, model, EOS, max_decode_steps=2)
    assert tokens[:, -1].tolist() == [
        [2, 3, 0, 0, 0, 0],
        [4, 4, 4, 2, 0, 0],
        [4, 4, 4, 4, 4, 4],
    ]
    for steps in (0, 7):
        with pytest.raises(UserError, match=f"max_decode_steps is {steps}.*length"):
            decode(inputs, cache, model, EOS, max_decode_steps=steps)


BOTTOM = functools.partial(sample, num_decodes=2, warpers=(warpers.bottom_k(1),))
BROKEN = {
    "pure": functools.partial(sample, num_decodes=2),
    "bottom-k": BOTTOM,
    "chosen beams": CHOSEN,
}
NAMED = r"^decoding step 2 \(counted from 0\) of row [12]: the logits .* or infinite"


def broken_script(bad):
    """Returns a script whose rows 1 and 2 have a non-finite logit at step 2."""
    script = np.array(towards([[2, 3, 4, EOS], [3, EOS, 3, EOS], [3, 3, 3, EOS]]))
    script[1:, 2, 4] = bad
    return script


def decode_script(decode, script, inputs):
    model, cache = scripted_model(script)
    return decode(inputs, cache, model, EOS)


@functools.cache
def compiled(name):
    return jax.jit(functools.partial(decode_script, BROKEN[name]))


@grids.diagonal("name, bad", BROKEN, [np.nan, np.inf])
def test_a_compiled_program_marks_the_error_in_its_tokens(bad, name):
    script, inputs = broken_script(bad), np.zeros((3, 4), np.int32)
    tokens, scores = map(np.asarray, compiled(name)(script, inputs))
    # A decode that started differently in bottom-k may have ended before step 2.
    broken = tokens[..., 2] == decode_state.BROKEN
    assert not broken[0].any() and broken[2].any()
    assert not tokens[..., 3][broken].any()
    np.testing.assert_array_equal(np.isnan(scores), broken)
    with pytest.raises(UserError, match=NAMED):
        decode_state.check_decodes(tokens)
    # Forced tokens need no logits.
    inputs[1:] = [0, 3, 3, 4]
    forced = np.asarray(compiled(name)(script, inputs)[0])
    assert forced[2, -1, :3].tolist() == [3, 3, 4]
    if name != "bottom-k":
        assert tokens[0, -1].tolist() == [2, 3, 4, EOS]
        assert tokens[2].tolist()[-1] == [3, 3, decode_state.BROKEN, 0]
        assert forced[2, -1].tolist() == [3, 3, 4, EOS]
