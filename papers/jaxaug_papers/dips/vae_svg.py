"""VAE-SVG: paraphrases from a variational autoencoder (Gupta et al., 2018).

In training, an LSTM reads the source, and a second LSTM continues with the paraphrase.
The final state gives a normal distribution of a latent vector. A third LSTM encodes the
source for the decoder, an LSTM that reads the latent vector with every word. For new
sources, a vector is drawn from the standard normal distribution for each output
(`jaxaug_papers.dips.prior`). Other decode functions use the mean.
"""

import copy
from collections.abc import Mapping
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import AxisMetadata
from jaxaug_base.clu_names import metrics as clu_metrics
from jaxtyping import Array, Bool, Float, Int
from t5x import models

from jaxaug.core.errors import UserError
from jaxaug.models.layers import linear
from jaxaug_papers.dips.lstm_layers import (
    LstmLayer,
    State,
    embedder,
    output,
    run_layers,
)
from jaxaug_papers.shared import networks

Tokens = Int[Array, "batch length"]
_ANNEALING, _STEP = "annealing", "step"


@flax.struct.dataclass
class Config:
    """The configuration; the defaults are from the paper.

    Attributes:
        dtype: type of matrix products; parameters, cell states, and logits are float32.
        num_layers: number of LSTM layers of the decoder; the encoders have one.
        embedding_range: initial embeddings are uniform in [-range, range].
    """

    vocab_size: int
    dtype: Any = jnp.float32
    emb_dim: int = 300
    hidden_dim: int = 600
    latent_dim: int = 1100
    num_layers: int = 2
    dropout_rate: float = 0.3
    embedding_range: float = 0.08


class Posterior(flax.struct.PyTreeNode):
    """Normal distributions of latent vectors with diagonal covariance."""

    mean: Float[Array, "batch latent"]
    log_variance: Float[Array, "batch latent"]

    def divergence(self) -> Float[Array, "batch latent"]:
        """Returns the Kullback-Leibler divergence from the standard normal, in nats."""
        mean, log_variance = self.mean, self.log_variance
        return 0.5 * (mean**2 + jnp.exp(log_variance) - 1.0 - log_variance)

    def draw(self, rng: Array) -> Float[Array, "batch latent"]:
        """Returns a random vector of each distribution."""
        noise = jax.random.normal(rng, self.mean.shape)
        return self.mean + jnp.exp(0.5 * self.log_variance) * noise


class Decoder(nn.Module):
    """LSTM layers that read a latent vector with every word, and the output layer.

    With `decode`, the collection `cache` stores the states and the vectors. The first
    call creates them; each further call processes one position.
    """

    config: Config

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch length emb"],
        state: Float[Array, "batch 2 hidden"],
        latent: Float[Array, "batch latent"],
        deterministic: bool,
        decode: bool,
    ) -> Float[Array, "batch length vocab"]:
        config = self.config
        started = self.has_variable("cache", "cached_state")
        states = jnp.stack([state] * config.num_layers, axis=1)
        if decode:
            cached = self.variable("cache", "cached_state", lambda: states)
            vector = self.variable("cache", "latent", lambda: latent)
            states, latent = cached.value, vector.value
        x, states = run_layers(config, x, states, deterministic, beside=latent)
        if decode and started:
            cached.value = states
        return output(config)(x)


class Network(networks.EncoderDecoder):
    """The three encoders and the decoder."""

    config: Config

    def setup(self) -> None:
        config = self.config
        self.token_embedder = embedder(config)
        self.source_reader = LstmLayer(config.hidden_dim, dtype=config.dtype)
        self.target_reader = LstmLayer(config.hidden_dim, dtype=config.dtype)
        self.encoder = LstmLayer(config.hidden_dim, dtype=config.dtype)
        self.latent = linear(
            2 * config.latent_dim,
            ("embed", "mlp"),
            use_bias=True,
            dtype=config.dtype,
            output_dtype=jnp.float32,
        )
        self.decoder = Decoder(config)

    def _read(
        self, reader: LstmLayer, tokens: Tokens, state: State | None = None
    ) -> State:
        is_token: Bool[Array, "batch length"] = tokens > 0
        zeros = jnp.zeros((tokens.shape[0], self.config.hidden_dim), jnp.float32)
        # Initialization feeds floats if no type is given.
        embedded = self.token_embedder(tokens.astype(jnp.int32))
        return reader(embedded, is_token, state or (zeros, zeros))[1]

    def posterior(self, sources: Tokens, targets: Tokens) -> Posterior:
        """Returns the posterior of the latent vector of a pair; 0 is padding."""
        state = self._read(self.source_reader, sources)
        hidden, _ = self._read(self.target_reader, targets, state)
        return Posterior(*jnp.split(self.latent(hidden), 2, axis=-1))

    def encode_tokens(
        self, tokens: Tokens, enable_dropout: bool
    ) -> Float[Array, "batch 2 hidden"]:
        """Returns the initial hidden and cell state of the decoder."""
        del enable_dropout
        return jnp.stack(self._read(self.encoder, tokens), axis=1)

    def decode_tokens(
        self,
        encoded: Float[Array, "batch 2 hidden"],
        sources: Int[Array, "batch input_length"],
        tokens: Tokens,
        enable_dropout: bool,
        decode: bool,
        latent: Float[Array, "batch latent"] | None = None,
    ) -> Float[Array, "batch length vocab"]:
        """Returns the logits; see `EncoderDecoder.decode`.

        `latent` has the vector of each row; None means zeros, the mean of the prior.
        Decoding steps use the vector in the collection `cache`.
        """
        del sources
        if latent is None:
            latent = jnp.zeros((encoded.shape[0], self.config.latent_dim))
        words = self.token_embedder(tokens)
        return self.decoder(words, encoded, latent, not enable_dropout, decode)

    def __call__(
        self,
        encoder_input_tokens: Int[Array, "batch input_length"],
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        encoder_segment_ids: Int[Array, "batch input_length"] | None = None,
        decoder_segment_ids: Tokens | None = None,
        encoder_positions: Int[Array, "batch input_length"] | None = None,
        decoder_positions: Tokens | None = None,
        *,
        enable_dropout: bool = True,
        decode: bool = False,
        latent_rng: Array | None = None,
    ) -> tuple[Float[Array, "batch length vocab"], Posterior]:
        """Returns the logits, and the posterior.

        The vector is drawn from the posterior with `latent_rng`, or is its mean without
        a key.
        """
        del encoder_positions, decoder_positions
        networks.refuse_packed(decoder_segment_ids)
        posterior = self.posterior(encoder_input_tokens, decoder_target_tokens)
        logits = self.decode_tokens(
            self.encode(encoder_input_tokens, encoder_segment_ids),
            encoder_input_tokens,
            decoder_input_tokens.astype(jnp.int32),
            enable_dropout,
            decode,
            posterior.mean if latent_rng is None else posterior.draw(latent_rng),
        )
        return logits, posterior


class VaeModel(models.EncoderDecoderModel):
    """Trains a `Network` on the evidence lower bound.

    The weight of the divergence rises linearly to 1 (Bowman et al., 2016). Word dropout
    replaces some input words of the decoder by the unknown word. Components of the
    vector with a small divergence are not penalized (free bits; Kingma et al., 2016).
    The number of steps is stored among the mutable variables of the train state.
    """

    ignores_padding = True

    def __init__(
        self,
        *args: Any,
        anneal_steps: int = 0,
        word_dropout: float = 0.0,
        free_bits: float = 0.0,
        **kwargs: Any,
    ):
        """Creates the model; the base class takes further arguments.

        Args:
            anneal_steps: number of batches (or microbatches) until the weight is 1.
            free_bits: nats per component of the vector, as a batch mean, without
                penalty.

        Raises:
            UserError: a setting is out of range.
        """
        super().__init__(*args, **kwargs)
        for name, value, most in (
            ("anneal_steps", anneal_steps, float("inf")),
            ("word_dropout", word_dropout, 1.0),
            ("free_bits", free_bits, float("inf")),
        ):
            if not 0 <= value <= most:
                raise UserError(
                    f"VaeModel.{name} = {value}: give 0 or more"
                    f"{', at most 1.' if most == 1.0 else '.'}"
                )
        self._anneal_steps, self._free_bits = anneal_steps, free_bits
        self._word_dropout = word_dropout

    def get_initial_variables(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the variables of the base class, and a collection with step 0."""
        variables = dict(super().get_initial_variables(*args, **kwargs))
        variables[_ANNEALING] = {_STEP: jnp.zeros((), jnp.int32)}
        variables[f"{_ANNEALING}_axes"] = {f"{_STEP}_axes": AxisMetadata(names=())}
        return flax.core.freeze(variables)

    def _compute_logits(
        self,
        params: Any,
        batch: Mapping[str, Array],
        dropout_rng: Array | None = None,
        **kwargs: Any,
    ) -> Any:
        del kwargs
        return self._forward(params, batch, dropout_rng)[0]

    def _forward(
        self, params: Any, batch: Mapping[str, Array], rng: Array | None
    ) -> tuple[Float[Array, "batch length vocab"], Posterior]:
        inputs, rngs, latent_rng = batch["decoder_input_tokens"], None, None
        if rng is not None:
            dropout_rng, latent_rng, word_rng = jax.random.split(rng, 3)
            rngs = {"dropout": dropout_rng}
            hidden = jax.random.bernoulli(word_rng, self._word_dropout, inputs.shape)
            unknown = self.input_vocabulary.unk_id
            inputs = jnp.where(hidden & (inputs > 0), unknown, inputs)
        found: Any = self.module.apply(
            {"params": params},
            batch["encoder_input_tokens"],
            inputs,
            batch["decoder_target_tokens"],
            batch.get("encoder_segment_ids"),
            batch.get("decoder_segment_ids"),
            enable_dropout=rng is not None,
            latent_rng=latent_rng,
            rngs=rngs,
        )
        return found

    def loss_fn(  # type: ignore[override]
        self,
        params: Any,
        batch: Mapping[str, Array],
        dropout_rng: Array | None,
        flax_mutables: Any,
    ) -> Any:
        """Returns the loss, and (metrics with `kl` in nats, number of steps)."""
        step = flax_mutables[_ANNEALING][_STEP]
        weight = jnp.minimum(1.0, (step + 1) / max(1, self._anneal_steps))
        if dropout_rng is None:
            weight = jnp.ones(())
        logits, posterior = self._forward(params, batch, dropout_rng)
        # The base class computes loss and metrics from the available logits.
        given: Any = copy.copy(self)
        given._compute_logits = lambda *_, **__: logits
        loss, metrics = super(VaeModel, given).loss_fn(params, batch, dropout_rng)
        each = posterior.divergence()
        rows = each.shape[0]
        charged = jnp.sum(jnp.maximum(jnp.mean(each, axis=0), self._free_bits))
        scale = self._loss_normalizing_factor
        if scale is not None and not isinstance(scale, int | float):
            raise UserError(
                f"VaeModel.loss_normalizing_factor = {scale!r}: give a number or None, "
                "by which the divergence is divided too."
            )
        loss += weight * charged * rows / (scale or 1.0)
        metrics = {
            **metrics,
            "kl": clu_metrics.Average(total=jnp.sum(each), count=jnp.asarray(rows)),
            "kl_weight": clu_metrics.Average(total=weight, count=jnp.ones(())),
        }
        steps = {_STEP: step + (dropout_rng is not None)}
        return loss, (metrics, flax.core.freeze({**flax_mutables, _ANNEALING: steps}))

    def eval_fn(  # type: ignore[override]
        self, params: Any, batch: Mapping[str, Array], flax_mutables: Any
    ) -> Any:
        """Returns loss and metrics at the posterior mean, with divergence weight 1."""
        loss, (metrics, _) = self.loss_fn(params, batch, None, flax_mutables)
        return loss, metrics

    def score_batch(
        self,
        params: Any,
        batch: Mapping[str, Array],
        return_intermediates: bool = False,
    ) -> Any:
        """Returns a lower bound on each log likelihood, at the posterior mean."""
        if return_intermediates:
            raise UserError("VaeModel.score_batch: it has no intermediates.")
        likelihood = super().score_batch(params, batch)
        posterior: Any = self.module.apply(
            {"params": params},
            batch["encoder_input_tokens"],
            batch["decoder_target_tokens"],
            method=self.module.posterior,
        )
        return likelihood - jnp.sum(posterior.divergence(), axis=-1)
