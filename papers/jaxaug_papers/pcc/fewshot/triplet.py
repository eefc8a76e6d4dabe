"""The triplet network: a small network on frozen encodings, trained on triplets.

Sources: Schroff et al. (2015), and Wei et al. (2021) for few-shot text classification.
All seeds of an experiment are trained in parallel; the seed is the first axis of every
array of a `Trainer`.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jaxaug.core.errors import UserError
from jaxaug_papers.shared.configs import Above, Count, Rate

_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyperparameters; the defaults are from Wei et al. (2021).

    Wei et al. use a learning rate of 2e-5 and 15,000 to 48,000 updates.

    Attributes:
        batch_size: number of triplets per update.
        candidates: number of drawn triplets per used one; 1 disables mining. See
            `hardest`.
    """

    hidden: Count = 200
    output: Count = 30
    dropout_rate: Rate = 0.4
    margin: float = 0.4
    learning_rate: Above = 5e-4
    batch_size: Count = 64
    candidates: Count = 1


class Pools(NamedTuple):
    """The texts for triplets of each seed; items beyond `counts` are padding."""

    items: Int[Array, "seeds labels levels most"]
    counts: Int[Array, "seeds labels levels"]


class Network(nn.Module):
    """Two layers with tanh and dropout between them."""

    hidden: int
    output: int
    dropout_rate: float

    @nn.compact
    def __call__(
        self, x: Float[Array, "... width"], enable_dropout: bool
    ) -> Float[Array, "... output"]:
        x = jnp.tanh(_dense(self.hidden, x.shape[-1])(x))
        x = nn.Dropout(self.dropout_rate)(x, deterministic=not enable_dropout)
        return _dense(self.output, self.hidden)(x)


def _dense(size: int, fan_in: int) -> nn.Dense:
    # The default initialization of torch for weights and biases, as in the original
    # code.
    limit = fan_in**-0.5

    def uniform(key: Array, shape: Sequence[int], dtype: Any = jnp.float32) -> Array:
        return jax.random.uniform(key, shape, dtype, -limit, limit)

    return nn.Dense(size, kernel_init=uniform, bias_init=uniform)


def triplet_losses(
    embedded: Float[Array, "3 n output"], margin: float
) -> Float[Array, " n"]:
    """Returns max(0, margin - cos(anchor, positive) + cos(anchor, negative))."""
    anchor, positive, negative = embedded
    return jax.nn.relu(margin - _cosine(anchor, positive) + _cosine(anchor, negative))


def _cosine(a: Float[Array, "n d"], b: Float[Array, "n d"]) -> Float[Array, " n"]:
    norms = jnp.maximum(_norm(a) * _norm(b), _EPSILON)
    return jnp.sum(a * b, axis=-1) / norms


def _norm(x: Float[Array, "n d"]) -> Float[Array, " n"]:
    # The root has no derivative at 0, the encoding of a text without tokens.
    return jnp.sqrt(jnp.sum(x * x, axis=-1) + _EPSILON**2)


def draw_triplets(
    key: Array,
    items: Int[Array, "labels levels most"],
    counts: Int[Array, "labels levels"],
    weights: Float[Array, " levels"],
    number: int,
) -> Int[Array, "3 n"]:
    """Draws anchors, positives, and negatives, as rows of the table of encodings.

    Two different labels are drawn at random. Anchor and positive are different items of
    the first label; the negative is an item of the second. Within a label, the
    probability of an item is the weight of its level, divided by the number of items of
    the level. Weights of 1/5 and 4/5 for 10 originals and 40 paraphrases therefore draw
    uniformly, as in the code of Wei et al.

    Args:
        items: see `Pools`; at least two per label and level.
    """
    u = jax.random.uniform(key, (8, number))
    labels = counts.shape[0]
    first = _below(u[0], labels)
    second = (first + 1 + _below(u[1], labels - 1)) % labels
    shares = jnp.broadcast_to(weights, (number, len(weights)))
    level = _level(u[2], shares)
    anchor = _below(u[3], counts[first, level])
    # The positive is drawn without the anchor, whose probability is removed.
    lost = jax.nn.one_hot(level, len(weights)) / counts[first]
    level_2 = _level(u[4], shares - shares * lost)
    same = level_2 == level
    positive = _below(u[5], counts[first, level_2] - same)
    positive += same & (positive >= anchor)
    level_3 = _level(u[6], shares)
    negative = _below(u[7], counts[second, level_3])
    return jnp.stack(
        [
            items[first, level, anchor],
            items[first, level_2, positive],
            items[second, level_3, negative],
        ]
    )


def _below(u: Float[Array, " n"], limit: Any) -> Int[Array, " n"]:
    return jnp.minimum(jnp.int32(u * limit), limit - 1)


def _level(u: Float[Array, " n"], shares: Float[Array, "n levels"]) -> Int[Array, " n"]:
    ends = jnp.cumsum(shares, axis=1)
    # A level of weight 0 is an empty interval and is never selected.
    return jnp.argmax(u[:, None] * ends[:, -1:] < ends, axis=1)


def hardest(losses: Float[Array, " n"], number: int) -> Int[Array, " number"]:
    """Returns the indices of the training triplets; margin violations come first.

    Hard-negative mining draws more triplets than an update uses. The first triplets
    with a loss above 0 are used. The largest losses are not preferred, because they are
    mostly outliers. If there are too few, other triplets fill the batch. Wei et al.
    draw a batch with an expected number of 64 violations and average over all of it.
    Here a fixed batch size avoids recompilation.
    """
    _, places = jax.lax.top_k(jnp.int32(losses > 0), number)
    return places


class State(NamedTuple):
    """Parameters and optimizer, for each seed."""

    params: Any
    optimizer: Any


class Figures(NamedTuple):
    """Means over one `Trainer.train`; `active` triplets have a loss above 0."""

    loss: Float[np.ndarray, " seeds"]
    active: Float[np.ndarray, " seeds"]


class Trainer:
    """Trains one network per seed, all in one compiled program."""

    def __init__(self, settings: Settings, width: int):
        """Creates a trainer for encodings of a width."""
        self._settings, self._width = settings, width
        self._network = Network(settings.hidden, settings.output, settings.dropout_rate)
        self._optimizer = optax.adam(settings.learning_rate)

    def init(self, seeds: Sequence[int]) -> State:
        """Returns untrained networks; equal seeds give equal networks."""
        example = jnp.zeros((1, self._width))

        def one(key: Array) -> State:
            params = self._network.init(key, example, False)["params"]
            return State(params, self._optimizer.init(params))

        return jax.jit(jax.vmap(one))(_keys(seeds, 0))

    def train(
        self,
        state: State,
        seeds: Sequence[int],
        table: Float[Array, "texts width"],
        pools: Pools,
        weights: Float[np.ndarray, "updates levels"],
        first: int,
    ) -> tuple[State, Figures]:
        """Makes one update for each row of weights, after `first` previous ones.

        Raises:
            UserError: a loss is not finite.
        """
        state, loss, active = self._train(
            state, _keys(seeds, 1), table, pools, jnp.asarray(weights), first
        )
        figures = Figures(np.asarray(loss), np.asarray(active))
        if not np.isfinite(figures.loss).all():
            raise UserError(
                f"the loss is {figures.loss} in updates {first} to "
                f"{first + len(weights)}. Take a smaller learning_rate than "
                f"{self._settings.learning_rate}."
            )
        return state, figures

    def right(
        self,
        state: State,
        support: Float[Array, "seeds n width"],
        support_labels: Int[Array, "seeds n"],
        tests: Float[Array, "m width"],
        test_labels: Int[Array, " m"],
    ) -> Bool[np.ndarray, "seeds m"]:
        """Returns whether the nearest few-shot original has the label of each test."""
        return np.asarray(
            self._right(state.params, support, support_labels, tests, test_labels)
        )

    @functools.cached_property
    def _train(self) -> Callable[..., Any]:
        def one(
            state: State,
            key: Array,
            table: Array,
            pools: Pools,
            weights: Array,
            first: Any,
        ) -> Any:
            def update(state: State, row: Any) -> Any:
                step, shares = row
                return self._update(
                    state, jax.random.fold_in(key, step), table, pools, shares
                )

            steps = first + jnp.arange(len(weights))
            state, (loss, active) = jax.lax.scan(update, state, (steps, weights))
            return state, jnp.mean(loss), jnp.mean(active)

        return jax.jit(jax.vmap(one, in_axes=(0, 0, None, 0, None, None)))

    def _update(
        self, state: State, key: Array, table: Array, pools: Pools, weights: Array
    ) -> Any:
        draw, dropout = jax.random.split(key)
        number = self._settings.batch_size
        drawn = draw_triplets(draw, *pools, weights, number * self._settings.candidates)
        margin = self._settings.margin
        if self._settings.candidates > 1:
            losses = triplet_losses(self._embed(state.params, table[drawn]), margin)
            drawn = drawn[:, hardest(losses, number)]
        encodings = table[drawn]

        def objective(params: Any) -> tuple[Array, Array]:
            embedded = self._embed(params, encodings, dropout)
            losses = triplet_losses(embedded, margin)
            return jnp.mean(losses), jnp.mean(losses > 0)

        (loss, active), gradients = jax.value_and_grad(objective, has_aux=True)(
            state.params
        )
        updates, optimizer = self._optimizer.update(gradients, state.optimizer)
        params = optax.apply_updates(state.params, updates)
        return State(params, optimizer), (loss, active)

    def _embed(self, params: Any, x: Array, dropout: Array | None = None) -> Any:
        random = {} if dropout is None else {"dropout": dropout}
        return self._network.apply({"params": params}, x, bool(random), rngs=random)

    @functools.cached_property
    def _right(self) -> Callable[..., Array]:
        def one(
            params: Any, support: Array, labels: Array, tests: Array, expected: Array
        ) -> Array:
            return _right(
                self._embed(params, support),
                labels,
                self._embed(params, tests),
                expected,
            )

        return jax.jit(jax.vmap(one, in_axes=(0, 0, 0, None, None)))


def nearest_right(
    support: Float[Array, "seeds n width"],
    support_labels: Int[Array, "seeds n"],
    tests: Float[Array, "m width"],
    test_labels: Int[Array, " m"],
) -> Bool[np.ndarray, "seeds m"]:
    """Returns whether the nearest support has the label of each test, by encodings.

    Of several nearest ones the first counts.
    """
    one = jax.jit(jax.vmap(_right, in_axes=(0, 0, None, None)))
    return np.asarray(one(support, support_labels, tests, test_labels))


def _right(support: Array, labels: Array, tests: Array, expected: Array) -> Array:
    # The norm of a test sentence does not change which one is nearest to it.
    unit = support / jnp.maximum(
        jnp.linalg.norm(support, axis=-1, keepdims=True), _EPSILON
    )
    nearest = jnp.argmax(tests @ unit.T, axis=1)
    return labels[nearest] == expected


def _keys(seeds: Sequence[int], stream: int) -> Array:
    """Returns one key for each seed; streams do not depend on each other."""
    return jnp.stack([jax.random.fold_in(jax.random.key(s), stream) for s in seeds])
