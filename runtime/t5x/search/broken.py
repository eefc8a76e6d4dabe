"""Marks decodes of a model whose logits are NaN, and refuses them on the host."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from t5x.errors import UserError
from t5x.search.decode_state import NEG_INF_VALUE, BeamState

BROKEN = -1
"""Token id of a token that could not be chosen; it is in no vocabulary.

Its score is NaN.
"""

# Sums of real log probabilities stay far above this value; a beam below it is a filler.
POSSIBLE = 0.5 * NEG_INF_VALUE


def usable(logits: Float[Array, "*rows vocab"]) -> Bool[Array, "*rows"]:
    """Returns whether a token can be chosen: no NaN or +inf, and not all -inf."""
    return jnp.isfinite(jnp.max(logits, axis=-1))


def rows(state: BeamState) -> Bool[Array, " batch"]:
    """Returns which rows of a beam search are marked as broken."""
    return jnp.isnan(state.live_logprobs[:, -1])


def mark(
    values: Float[Array, "batch n"],
    tokens: Int[Array, "batch n"],
    parents: Int[Array, "batch n"],
    logits: Float[Array, "batch beams vocab"],
    free: Bool[Array, "batch 1"],
    state: BeamState,
) -> tuple[Float[Array, "batch n"], Int[Array, "batch n"], Int[Array, "batch n"]]:
    """Marks rows of a beam search where no token can be chosen with `BROKEN` and NaN.

    Such a row has logits that are NaN or +inf; or all logits of every possible beam are
    -inf and no hypothesis is finished. Rows that were marked before get zeros.

    Args:
        values: log probabilities of the candidates of a step.
        tokens: last tokens of the candidates.
        parents: beams that the candidates continue.
        logits: logits of the step.
        free: False if the token is forced, so logits do not matter.
        state: state before the step.

    Returns:
        `values`, `tokens`, and `parents` with the marks.
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
    """Raises an error if the result of a decode function contains `BROKEN`.

    Inside a compiled program there are no values yet, and it does nothing. The holder
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
            f"decoding step {step} (counted from 0) of row {row}: the logits of the "
            "model are NaN or infinite, no token can be chosen. Its weights are "
            "damaged or its "
            "activations overflow: check the weights, or use float32."
        )
