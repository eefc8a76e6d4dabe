"""An evaluator of paraphrases: the decomposable attention model (Parikh et al., 2016).

Li et al. (2018) train such a matching model on pairs of texts and use its scores as the
rewards of a generator. Positions are added to the words, because the model itself
ignores word order.
"""

from collections.abc import Mapping
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jaxaug_base.clu_names import metrics as clu_metrics
from jaxtyping import Array, Float, Int
from t5x import models
from t5x.examples.t5 import layers as t5_layers

from jaxaug.core.errors import UserError
from jaxaug.models.layers import MASKED, linear

Tokens = Int[Array, "batch length"]


@flax.struct.dataclass
class Config:
    """The configuration.

    Attributes:
        dtype: type of matrix products; parameters and the result are float32.
        emb_dim: width of the embedding; even.
    """

    vocab_size: int
    dtype: Any = jnp.float32
    emb_dim: int = 256
    hidden_dim: int = 256
    dropout_rate: float = 0.2


class Matcher(nn.Module):
    """Scores whether two texts have the same meaning, as a logit."""

    config: Config

    @nn.compact
    def __call__(
        self, left: Tokens, right: Tokens, enable_dropout: bool = False
    ) -> Float[Array, " batch"]:
        """Returns the logits of pairs of texts in which 0 is padding."""
        config = self.config
        embed = t5_layers.Embed(
            config.vocab_size,
            config.emb_dim,
            dtype=config.dtype,
            embedding_init=nn.initializers.normal(config.emb_dim**-0.5),
            name="token_embedder",
        )
        attend = _Layers(config, "attend", 2, enable_dropout)
        compare = _Layers(config, "compare", 2, enable_dropout)
        sides = [
            embed(tokens.astype(jnp.int32))
            + _positions(tokens.shape[1], config.emb_dim)
            for tokens in (left, right)
        ]
        real = [tokens > 0 for tokens in (left, right)]
        keys = [attend(side) for side in sides]
        scores = jnp.einsum("bih,bjh->bij", *keys).astype(jnp.float32)
        summed = []
        for own, other, matrix in ((0, 1, scores), (1, 0, jnp.swapaxes(scores, 1, 2))):
            masked = jnp.where(real[other][:, None], matrix, MASKED)
            weights = jax.nn.softmax(masked).astype(config.dtype)
            aligned = jnp.einsum("bij,bjh->bih", weights, sides[other])
            compared = compare(jnp.concatenate([sides[own], aligned], axis=-1))
            summed.append(jnp.sum(compared * real[own][..., None], axis=1))
        x = _Layers(config, "judge", 1, enable_dropout)(
            jnp.concatenate(summed, axis=-1)
        )
        logit = linear(
            1, ("embed", "mlp"), use_bias=True, output_dtype=jnp.float32, name="logit"
        )
        return logit(x)[..., 0]


def _positions(length: int, width: int) -> Float[np.ndarray, "length width"]:
    """Returns sinusoidal positions (Vaswani et al., 2017) of the embedding's size."""
    rates = 10000.0 ** (-np.arange(width // 2) / (width // 2))
    angles = np.arange(length)[:, None] * rates
    both = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return (both * width**-0.5).astype(np.float32)


class _Layers:
    """A stack of layers with ReLU, shared by both texts."""

    def __init__(self, config: Config, name: str, count: int, enable_dropout: bool):
        self._dropout = nn.Dropout(
            config.dropout_rate, deterministic=not enable_dropout
        )
        self._layers = [
            linear(
                config.hidden_dim, ("embed", "mlp"), use_bias=True, dtype=config.dtype,
                name=f"{name}_{i}",
            )
            for i in range(count)
        ]  # fmt: skip

    def __call__(self, x: Float[Array, "*shape features"]) -> Float[Array, "*shape h"]:
        for layer in self._layers:
            x = nn.relu(layer(self._dropout(x)))
        return x


class MatchingModel(models.EncoderDecoderModel):
    """Trains a `Matcher` on pairs and on negative examples.

    Each pair has three negatives: the target of another pair, the target with half of
    its words from that target, and the shuffled target. They are random in training and
    fixed in evaluation. Pairs and negatives have the same total weight in the loss.
    """

    def get_initial_variables(
        self,
        rng: Array,
        input_shapes: Mapping[str, tuple[int, ...]],
        input_types: Mapping[str, Any] | None = None,
    ) -> flax.core.FrozenDict:
        """Returns the initial variables; both features are int32 [batch, length]."""
        del input_types
        shapes = (
            input_shapes[name]
            for name in ("encoder_input_tokens", "decoder_target_tokens")
        )
        tokens = [jnp.ones(shape, jnp.int32) for shape in shapes]
        return flax.core.freeze(self.module.init(rng, *tokens))

    def match(
        self, params: Any, sources: Tokens, texts: Tokens, rng: Array | None = None
    ) -> Float[Array, " batch"]:
        """Returns the logits of pairs; `rng` enables dropout."""
        found: Any = self.module.apply(
            {"params": params},
            sources,
            texts,
            enable_dropout=rng is not None,
            rngs=None if rng is None else {"dropout": rng},
        )
        return found

    def loss_fn(
        self, params: Any, batch: Mapping[str, Array], dropout_rng: Array | None
    ) -> Any:
        """Returns the cross entropy, and metrics such as `accuracy` and `match`.

        Raises:
            UserError: the batch has a single pair, or the examples are packed.
        """
        sources, targets = batch["encoder_input_tokens"], batch["decoder_target_tokens"]
        if len(sources) < 2 or "encoder_segment_ids" in batch:
            raise UserError(
                "MatchingModel takes its negatives from the other pairs of a "
                "batch: give batches of two pairs or more, with `pack = False`."
            )
        key = jax.random.PRNGKey(0) if dropout_rng is None else dropout_rng
        key, dropout = jax.random.split(key)
        texts = jnp.concatenate([targets, *others(targets, key)])
        logits = self.match(
            params,
            jnp.concatenate([sources] * (len(texts) // len(targets))),
            texts,
            None if dropout_rng is None else dropout,
        )
        right = jnp.arange(len(texts)) < len(targets)
        weights = jnp.where(right, 0.5 / right.sum(), 0.5 / (~right).sum())
        labels = right.astype(jnp.float32)
        loss = jnp.sum(weights * optax.sigmoid_binary_cross_entropy(logits, labels))
        hit = (logits > 0) == right
        chance = jax.nn.sigmoid(logits)
        one = jnp.ones(())
        values = {
            "loss": loss,
            "accuracy": jnp.sum(weights * hit),
            "match/pairs": jnp.sum(weights * right * chance) * 2,
            "match/others": jnp.sum(weights * ~right * chance) * 2,
        }
        metrics = {
            name: clu_metrics.Average(total=value, count=one)
            for name, value in values.items()
        }
        return loss, metrics

    def score_batch(
        self,
        params: Any,
        batch: Mapping[str, Array],
        return_intermediates: bool = False,
    ) -> Any:
        """Returns the log probability that each target is a paraphrase of its input."""
        del return_intermediates
        logits = self.match(
            params, batch["encoder_input_tokens"], batch["decoder_target_tokens"]
        )
        return jax.nn.log_sigmoid(logits)

    def predict_batch_with_aux(self, *args: Any, **kwargs: Any) -> Any:
        """Raises `UserError`, because the model does not generate text."""
        raise UserError("MatchingModel judges texts and writes none: score with it.")


def others(
    targets: Tokens, rng: Array
) -> tuple[Tokens, Tokens, Int[Array, "batch length"]]:
    """Returns negatives: another target, a mixed target, and a shuffled target."""
    roll_key, mix_key, order_key = jax.random.split(rng, 3)
    rows, length = targets.shape
    other = jnp.roll(targets, jax.random.randint(roll_key, (), 1, rows), axis=0)
    # EOS (1) and padding keep their positions.
    word = targets > 1
    take = jax.random.bernoulli(mix_key, 0.5, targets.shape) & word & (other > 1)
    mixed = jnp.where(take, other, targets)
    noise = jax.random.uniform(order_key, targets.shape)
    order = jnp.argsort(jnp.where(word, noise, 1.0 + jnp.arange(length)), axis=1)
    return other, mixed, jnp.take_along_axis(targets, order, axis=1)
