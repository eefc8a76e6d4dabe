"""Toy models with exact answers, for the decoder tests."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

VOCAB, EOS, STATES = 5, 1, 211


def next_state(state, token):
    """Returns the hidden state of the table model: a hash of all tokens read so far."""
    return (state * 7 + token + 3) % STATES


def random_table(seed, scale=2.0, vocab=VOCAB):
    logits = np.random.RandomState(seed).randn(STATES, vocab).astype(np.float32)
    return logits * scale


def table_model(table):
    """Returns logits that depend on the whole prefix, through a carried cache."""

    def tokens_to_logits(state):
        hidden = next_state(state.cache["hidden"], state.cur_token[:, 0])
        return jnp.asarray(table)[hidden], {**state.cache, "hidden": hidden}

    return tokens_to_logits


def table_cache(inputs, initial_index=None, hidden=0):
    """Returns the cache of one decode per row, after the prefilled prompts are read."""
    states = []
    for row, tokens in enumerate(np.asarray(inputs)):
        state = hidden
        for token in tokens[: 0 if initial_index is None else initial_index[row]]:
            state = next_state(state, int(token))
        states.append(state)
    return {"hidden": jnp.asarray(states, jnp.int32)}


@functools.partial(jax.jit, static_argnames=("decode", "options"))
def _decoded(decode, table, inputs, cache, options, arrays):
    return decode(inputs, cache, table_model(table), EOS, **dict(options), **arrays)


def run(
    decode,
    table,
    inputs,
    initial_index=None,
    source=None,
    hidden=0,
    arrays=(),
    **options,
):
    """Returns tokens and scores of a decode function on the table model."""
    inputs = np.asarray(inputs, np.int32)
    cache = table_cache(inputs, initial_index, hidden)
    told = {"initial_index": initial_index, "source": source, **dict(arrays)}
    options = tuple(sorted(options.items()))
    return [*map(np.asarray, _decoded(decode, table, inputs, cache, options, told))]


def first_ones(candidates):
    """Selects the most probable candidates."""
    best = jnp.arange(candidates.k, dtype=jnp.int32)
    return jnp.broadcast_to(best, (len(candidates.parents), candidates.k))


def scripted_model(script):
    """Returns a model whose row r has logits `script[r, position]` for any tokens."""
    script = jnp.asarray(script, jnp.float32)

    def tokens_to_logits(state):
        row = state.cache["row"]
        position = jnp.broadcast_to(state.cur_index, row.shape)
        return script[row, position], state.cache

    return tokens_to_logits, {"row": jnp.arange(script.shape[0])}


def towards(tokens, vocab=VOCAB, height=20.0):
    """Returns logits [rows, length, vocab] that make tokens [rows, length] likely."""
    return height * jax.nn.one_hot(jnp.asarray(tokens), vocab)


def log_softmax(x):
    x = np.asarray(x, np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def prefix_log_probs(table, prefix, hidden=0):
    """Returns log probabilities of the token after BOS and `prefix`."""
    state = next_state(hidden, 0)
    for token in prefix:
        state = next_state(state, token)
    return log_softmax(table[state])


def penalty(alpha, length):
    return ((5 + length) / 6) ** alpha


def random_prompts(rng, batch, length, shortest=0):
    """Returns inputs with BOS and forced tokens of uneven lengths, and the lengths."""
    inputs = np.zeros((batch, length), np.int32)
    prompts = rng.randint(shortest, length - 1, batch)
    for row, prompt in enumerate(prompts):
        inputs[row, 1 : 1 + prompt] = rng.randint(2, VOCAB, prompt)
    return inputs, prompts.astype(np.int32)


def padded(tokens, length):
    return [*tokens, *[0] * (length - len(tokens))]
