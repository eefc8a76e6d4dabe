"""The LSTMs of `jaxaug classify`: one reads a sentence, the other compares two."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Array, Float, Int

from jaxaug.core.errors import UserError
from jaxaug_papers.shared.configs import Above, Count, Rate


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyperparameters of the LSTMs.

    The defaults are from the authors' program, except for the batch size. The authors
    train on one example at a time, which is slow in compiled programs.

    Attributes:
        encoder: encoder of `jaxaug models list` whose fixed word vectors replace
            learned ones; empty learns vectors.
        dropout_rate: dropout on the scores of classes, as in the authors' program.
        least_updates: minimum number of updates for the original examples, so that
            small data sets have small batches; rows with paraphrases use the same batch
            size.
    """

    embedding: Count = 50
    encoder: str = ""
    hidden: Count = 50
    dropout_rate: Rate = 0.8
    learning_rate: Above = 1e-3
    epochs: Count = 20
    batch_size: Count = 64
    least_updates: int = 2000
    max_length: Count = 24

    def batch_for(self, originals: int) -> int:
        """Returns the batch size for a number of original examples."""
        fitting = self.epochs * originals // max(self.least_updates, 1)
        return min(self.batch_size, max(1, fitting))


class Split(NamedTuple):
    """Examples of all seeds: word ids of each text (0 pads), and indices of classes."""

    tokens: Int[np.ndarray, "seeds n texts length"]
    labels: Int[np.ndarray, "seeds n"]


class Network(nn.Module):
    """Scores of classes from the last state of an LSTM over the words.

    For two texts, the probability of the same meaning is exp(-|h1 - h2|) with the L1
    norm, after Mueller and Thyagarajan (2016).
    """

    words: int
    classes: int
    settings: Settings

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "n texts length"],
        table: Float[Array, "words width"] | None,
        enable_dropout: bool,
    ) -> Float[Array, "n classes"]:
        n, texts, length = tokens.shape
        flat = tokens.reshape(n * texts, length)
        if table is None:
            vectors = nn.Embed(self.words, self.settings.embedding)(flat)
        else:
            vectors = table[flat]
        cell = nn.OptimizedLSTMCell(self.settings.hidden)
        (_, states), _ = nn.RNN(cell, return_carry=True)(
            vectors, seq_lengths=jnp.sum(flat != 0, axis=1)
        )
        states = states.reshape(n, texts, -1)
        if texts == 2:
            return -jnp.sum(jnp.abs(states[:, 0] - states[:, 1]), axis=-1)[:, None]
        scores = nn.Dense(self.classes)(states[:, 0])
        return nn.Dropout(self.settings.dropout_rate)(
            scores, deterministic=not enable_dropout
        )


def _loss(scores: Float[Array, "n classes"], labels: Int[Array, " n"]) -> Array:
    if scores.shape[1] == 1:
        return jnp.mean((jnp.exp(scores[:, 0]) - labels) ** 2)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(scores, labels))


def _best(scores: Float[Array, "n classes"]) -> Int[Array, " n"]:
    if scores.shape[1] == 1:
        return jnp.int32(jnp.exp(scores[:, 0]) > 0.5)
    return jnp.argmax(scores, axis=1)


def fit(
    settings: Settings,
    train: Split,
    sizes: Sequence[int],
    validation: Split,
    test: Split,
    seeds: Sequence[int],
    batch_size: int,
    classes: int,
    table: Float[np.ndarray, "words width"] | None,
) -> Int[np.ndarray, "seeds m"]:
    """Trains a network for each seed in parallel, and classifies the test examples.

    Args:
        train: training examples, padded to the same number for all seeds.
        sizes: number of training examples of each seed without padding.
        seeds: seeds of parameters, order, and dropout.

    Returns:
        Classes of the test examples after the first epoch with the best validation
        accuracy.

    Raises:
        UserError: a loss is not finite.
    """
    words = 1 + max(int(split.tokens.max()) for split in (train, validation, test))
    # Sizes are rounded up, so that rows of similar sizes share compiled programs.
    programs = _programs(Network(_round(words, 1024), classes, settings))
    vectors = None if table is None else jnp.asarray(table)
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    state = programs.init(keys, train.tokens[:, :1], vectors)
    longer = (0, _round(train.tokens.shape[1], 256) - train.tokens.shape[1])
    tokens = jnp.asarray(np.pad(train.tokens, ((0, 0), longer, (0, 0), (0, 0))))
    labels = jnp.asarray(np.pad(train.labels, ((0, 0), longer)))
    steps = -(-max(sizes) // batch_size)
    orders = [np.random.default_rng([seed, 1]) for seed in seeds]
    best = np.full(len(seeds), -1.0)
    found = np.zeros(test.tokens.shape[:2], np.int64)
    for epoch in range(settings.epochs):
        rows = _drawn(orders, sizes, steps, batch_size)
        state, loss = programs.epoch(
            state, keys, tokens, labels, vectors, rows, steps, epoch
        )
        if not np.isfinite(np.asarray(loss)).all():
            raise UserError(
                f"the loss is {np.asarray(loss)} in epoch {epoch + 1}. Take a smaller "
                f"learning_rate than {settings.learning_rate}."
            )
        guesses = np.asarray(programs.classes(state[0], validation.tokens, vectors))
        right = np.mean(guesses == validation.labels, axis=1)
        better = right > best
        if better.any():
            tested = np.asarray(programs.classes(state[0], test.tokens, vectors))
            found[better] = tested[better]
            best = np.where(better, right, best)
    return found


def _drawn(
    orders: Sequence[np.random.Generator],
    sizes: Sequence[int],
    steps: int,
    batch_size: int,
) -> Int[np.ndarray, "seeds rows batch"]:
    """Returns a permutation of the examples of each seed, padded by its beginning."""
    drawn = [
        np.resize(rng.permutation(size), (steps, batch_size))
        for rng, size in zip(orders, sizes, strict=True)
    ]
    unused = ((0, 0), (0, _round(steps, 64) - steps), (0, 0))
    return np.pad(np.array(drawn, np.int32), unused)


def _round(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


class _Programs:
    """The compiled programs of a network.

    The first axis of every array is the seed, except for fixed word vectors, which may
    be None.
    """

    def __init__(self, network: Network):
        self._network = network
        self._optimizer = optax.adam(network.settings.learning_rate)

    @functools.cached_property
    def init(self) -> Callable[..., Any]:
        """The function (keys, examples, vectors) -> parameters and optimizer state."""

        def one(key: Array, tokens: Array, vectors: Any) -> Any:
            params = self._network.init(key, tokens, vectors, False)["params"]
            return params, self._optimizer.init(params)

        return jax.jit(jax.vmap(one, in_axes=(0, 0, None)))

    @functools.cached_property
    def epoch(self) -> Callable[..., Any]:
        """The function that trains an epoch.

        It is (state, keys, examples, labels, vectors, rows, steps, epoch) -> state,
        loss. `rows` has the indices of examples, [seeds, rows, batch]. Each of the
        first `steps` rows is an update. The loss is the mean over updates.
        """

        def one(
            state: Any,
            key: Array,
            tokens: Array,
            labels: Array,
            vectors: Any,
            rows: Array,
            steps: Any,
            epoch: Any,
        ) -> Any:
            def update(step: Any, carry: Any) -> Any:
                (params, optimizer), total = carry
                chosen = rows[step]
                dropout = jax.random.fold_in(jax.random.fold_in(key, epoch), step)

                def objective(params: Any) -> Array:
                    scores: Any = self._network.apply(
                        {"params": params},
                        tokens[chosen],
                        vectors,
                        True,
                        rngs={"dropout": dropout},
                    )
                    return _loss(scores, labels[chosen])

                loss, gradients = jax.value_and_grad(objective)(params)
                changes, optimizer = self._optimizer.update(gradients, optimizer)
                params = optax.apply_updates(params, changes)
                return (params, optimizer), total + loss

            state, total = jax.lax.fori_loop(0, steps, update, (state, 0.0))
            return state, total / steps

        return jax.jit(jax.vmap(one, in_axes=(0, 0, 0, 0, None, 0, None, None)))

    @functools.cached_property
    def classes(self) -> Callable[..., Any]:
        """The function (parameters, examples, vectors) -> best class per example."""

        def one(params: Any, tokens: Array, vectors: Any) -> Array:
            scores: Any = self._network.apply(
                {"params": params}, tokens, vectors, False
            )
            return _best(scores)

        return jax.jit(jax.vmap(one, in_axes=(0, 0, None)))


_programs = functools.cache(_Programs)
