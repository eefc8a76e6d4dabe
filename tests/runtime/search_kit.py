"""A beam search in plain Python on the table model of `decode_kit`."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from t5x import decoding

from tests.decode.decode_kit import (
    EOS,
    log_softmax,
    penalty,
    prefix_log_probs,
    table_model,
)


def cache_for(batch):
    return {"hidden": jnp.zeros((batch,), jnp.int32)}


def beam_search(inputs, cache, tokens_to_logits, eos_id, k, **options):
    """Runs the function under test as programs do: inside jax.jit."""
    run = jax.jit(
        lambda inputs, cache: decoding.beam_search(
            inputs, cache, tokens_to_logits, eos_id, num_decodes=k, **options
        )
    )
    return run(inputs, cache)


@functools.partial(jax.jit, static_argnames=("k", "alpha", "options"))
def search(table, inputs, k, alpha=0.6, options=()):
    return decoding.beam_search(
        inputs, cache_for(inputs.shape[0]), table_model(table), EOS, num_decodes=k,
        alpha=alpha, **dict(options),
    )  # fmt: skip


def reference(table, forced, k, alpha, length):
    """Beam search on Python tuples: [(score, tokens)] ascending."""
    live, finished = [(0.0, ())], []
    for step in range(length):
        lengths = (step + 1, length + 1)
        best_live = max(live)[0] / max(penalty(alpha, n) for n in lengths)
        if len(finished) == k and min(finished)[0] > best_live:
            break
        if forced[step]:
            live = [(0.0, max(live)[1] + (int(forced[step]),))]
            continue
        candidates = sorted(
            (
                (log_prob + extra, prefix + (token,))
                for log_prob, prefix in live
                for token, extra in enumerate(prefix_log_probs(table, prefix))
            ),
            reverse=True,
        )[: 2 * k]
        scored = [(p / penalty(alpha, step + 1), s) for p, s in candidates]
        finished += [(score, s) for score, s in scored if s[-1] == EOS]
        finished = sorted(finished)[-k:]
        live = sorted((p, s) for p, s in candidates if s[-1] != EOS)[-k:]
    return finished or live


def check_against(expected, decodes, scores):
    """Checks that the best decodes are the expected ones, and other slots empty."""
    k, length = decodes.shape
    found = len(expected)
    assert 0 < found <= k
    tokens = [list(s) + [0] * (length - len(s)) for _, s in expected]
    np.testing.assert_array_equal(decodes[k - found :], tokens)
    np.testing.assert_allclose(scores[k - found :], [s for s, _ in expected], atol=1e-4)
    assert (np.asarray(scores[: k - found]) < -5e6).all()
    assert (np.diff(scores) >= 0).all()


def narrow_table(seed):
    """Returns logits with two paths, 2 2 2 ... and 3 3 3 ..., each with an end."""
    table = np.full((4, 4), -1e10, np.float32)
    table[0, 2:] = table[2, [1, 2]] = table[3, [1, 3]] = 0
    return table + np.random.RandomState(seed).randn(4, 4).astype(np.float32)


def brute_force(table, alpha, length):
    """Returns (score, tokens) of every possible finished sequence, ascending."""
    log_probs = log_softmax(table)
    found = []
    for size in range(1, length + 1):
        for tokens in itertools.product(range(4), repeat=size):
            if tokens[-1] == EOS and EOS not in tokens[:-1]:
                total = sum(
                    log_probs[a, b] for a, b in itertools.pairwise((0, *tokens))
                )
                found.append((total / penalty(alpha, size), tokens))
    return sorted(found)
