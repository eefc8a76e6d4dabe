"""Decodes of a model whose logits are NaN: they are marked, and refused on the host."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from t5x.errors import UserError
from t5x.search.decode_state import NEG_INF_VALUE, BeamState

BROKEN = -1
"""Stands for a token that could not be chosen; no vocabulary has it. Its score is NaN."""

# No sum of real log probabilities comes near: below it, a beam is a filler.
POSSIBLE = 0.5 * NEG_INF_VALUE


def usable(logits: Float[Array, "*rows vocab"]) -> Bool[Array, "*rows"]:
    """Whether a token can be chosen: no logit is NaN or +inf, and not all are -inf."""
    return jnp.isfinite(jnp.max(logits, axis=-1))


def rows(state: BeamState) -> Bool[Array, " batch"]:
    """Which rows of a beam search are marked."""
    return jnp.isnan(state.live_logprobs[:, -1])


def mark(
    values: Float[Array, "batch n"],
    tokens: Int[Array, "batch n"],
    parents: Int[Array, "batch n"],
    logits: Float[Array, "batch beams vocab"],
    free: Bool[Array, "batch 1"],
    state: BeamState,
) -> tuple[Float[Array, "batch n"], Int[Array, "batch n"], Int[Array, "batch n"]]:
    """Puts `BROKEN` and NaN into rows of a beam search where no token can be chosen.

    Logits there are NaN or +inf; or all are -inf in every possible beam, and no
    hypothesis is finished. Rows that were marked before get zeros.

    Args:
        values: log probabilities of the candidates of a step.
        tokens: their last tokens.
        parents: the beams that they continue.
        logits: of the step.
        free: False where the token is forced, and logits do not matter.
        state: before the step.

    Returns:
        `values`, `tokens` and `parents` after the marks.
    """
    peaks = jnp.max(logits, axis=-1)
    dead = jnp.isneginf(peaks)
    none_left = jnp.all(dead | (state.live_logprobs <= POSSIBLE), axis=1)
    none_left &= jnp.any(dead, axis=1) & ~jnp.any(state.finished_flags, axis=1)
    before = rows(state)[:, None]
    now = (jnp.any(~jnp.isfinite(peaks) & ~dead, axis=1) | none_left)[:, None]
    now &= free & ~before
    same = jnp.arange(values.shape[1]) % logits.shape[1]
    return (
        jnp.where(now | before, jnp.nan, values),
        jnp.where(now, BROKEN, jnp.where(before, 0, tokens)),
        jnp.where(now | before, same, parents),
    )


def check_decodes(
    decodes: Int[Array, "batch *decodes length"]
    | Int[np.ndarray, "batch *decodes length"],
) -> None:
    """Looks for `BROKEN` in what a decode function returned.

    Inside of a compiled program there are no values yet, and it does nothing: the holder
    of the result calls it again.

    Raises:
        UserError: the logits of a step were NaN or infinite.
    """
    if isinstance(decodes, jax.core.Tracer):
        return
    places = np.argwhere(np.asarray(decodes) == BROKEN)
    if len(places):
        row, *_, step = min(places.tolist(), key=lambda place: place[-1])
        raise UserError(
            f"decoding step {step} (counted from 0) of row {row}: the logits of the model "
            "are NaN or infinite, no token can be chosen. Its weights are damaged or its "
            "activations overflow: check the weights, or use float32."
        )
