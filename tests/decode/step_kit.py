"""Padded arrays, and one beam step with known candidates, for the selectors."""

import functools

import jax
import jax.numpy as jnp
from t5x.search.candidates import Candidates

from jaxaug.core import typed
from jaxaug.decode import dips, dpp, set_search

WIDTH = 7


def pad(rows, width=WIDTH):
    return jnp.array([list(row) + [0] * (width - len(row)) for row in rows], jnp.int32)


def arguments(ground, source, width=WIDTH):
    return (
        pad(ground, width),
        jnp.array([len(row) for row in ground], jnp.int32),
        pad([source], WIDTH + 2)[0],
        jnp.array(len(source), jnp.int32),
    )


# A beam step with parents of two and of three tokens.
EOS = 5
STEP_ROWS = [
    ([1, 2, 3, 4], 0, False), ([1, 2, 3, 1], 0, False), ([1, 2, 3, EOS], 0, True),
    ([2, 1, EOS], 1, True), ([3, 3, 4, 2], 2, False), ([3, 3, 4, 1], 2, False),
    ([3, 3, 4, 4], 2, False),
]  # fmt: skip


def beam_step(sources, seed=0, fillers=0):
    """Returns the same candidates for each source; the last `fillers` are padding."""
    batch, count = len(sources), len(STEP_ROWS)
    log_probs = [-1.0 - i if i < count - fillers else -1e7 for i in range(count)]

    def repeat(x):
        return jnp.broadcast_to(x, (batch, *x.shape))

    return Candidates(
        sequences=repeat(pad([row for row, _, _ in STEP_ROWS])),
        lengths=repeat(jnp.array([len(row) for row, _, _ in STEP_ROWS])),
        log_probs=repeat(jnp.array(log_probs)),
        parents=repeat(jnp.array([parent for _, parent, _ in STEP_ROWS])),
        finished=repeat(jnp.array([finished for _, _, finished in STEP_ROWS])),
        source=pad(sources, 12),
        source_lengths=jnp.array([len(source) for source in sources]),
        step=jnp.array(3),
        rng=jax.random.split(jax.random.key(seed), batch),
        k=3,
        eos_id=EOS,
    )


def words():
    return [row for row, _, _ in STEP_ROWS]


def select(module, step, embeddings=None, **options):
    """Returns the candidates of one step that `module.decode` selects."""
    kind = {dips: dips.DiPSOptions, dpp: dpp.DPPOptions}.get(
        module, set_search.SetOptions
    )
    made = typed.made(kind, options, module.__name__.rpartition(".")[2])
    more = {"options": made}
    if module is dips:
        more["embeddings"] = embeddings
    choice = functools.partial(module.choose, **more)
    return set_search.when_due(step, choice, made.probability)
