"""PerCVAE (Song et al., 2019): a conditional VAE with a memory of the persona.

Source: "Exploiting Persona Information for Diverse Generation of Conversational
Responses". The last utterance queries a memory of the persona's words several times
(Sukhbaatar et al., 2015). The result, and the last utterances encoded by two layers of
GRUs, condition a latent variable z and the words of the reply. In training, z comes
from a posterior network that sees the reply; otherwise z comes from the prior.

The network follows the authors' program. Its inputs are the persona tasks in the style
`marked`. The softmax over the memory ignores padding. The program has auxiliary labels
(the trait of a reply, and its words in the reply) and decoding weights that depend on
them. Both are omitted, because the data have no such labels.
"""

import itertools
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int
from t5x.examples.t5 import layers as t5_layers

from jaxaug.models.layers import MASKED
from jaxaug_papers.pcc.dialogue import speakers
from jaxaug_papers.pcc.dialogue.gru import Affine, Gru, Vectors, uniform
from jaxaug_papers.shared import networks

Tokens = Int[Array, "batch length"]


@flax.struct.dataclass
class Config:
    """The configuration; the defaults are from the authors' program.

    Attributes:
        markers: see `speakers.markers_of`.
        dtype: required by the interface; the network computes in float32.
        sentence_dim: width of each direction of the GRU over an utterance.
        context_dim: width of each layer of the GRU over utterances.
        utterances: maximum number of utterances to read, the last ones of the dialogue.
        initial_range: initial weights are uniform in [-range, range].
    """

    vocab_size: int
    markers: speakers.Markers
    dtype: Any = jnp.float32
    emb_dim: int = 300
    sentence_dim: int = 300
    context_dim: int = 600
    memory_dim: int = 300
    decoder_dim: int = 500
    latent_dim: int = 100
    bow_dim: int = 400
    hops: int = 3
    utterances: int = 2
    dropout_rate: float = 0.0
    initial_range: float = 0.08


class Gaussian(NamedTuple):
    """A diagonal normal distribution: means and log variances."""

    mean: Vectors
    log_variance: Vectors

    def draw(self, key: Array | None) -> Vectors:
        """Returns a sample, or the mean if `key` is None."""
        if key is None:
            return self.mean
        noise = jax.random.normal(key, self.mean.shape)
        return self.mean + noise * jnp.exp(0.5 * self.log_variance)


def divergence(posterior: Gaussian, prior: Gaussian) -> Float[Array, " batch"]:
    """Returns KL(posterior || prior) in nats, at least 0."""
    square = jnp.square(posterior.mean - prior.mean)
    log_ratio = posterior.log_variance - prior.log_variance
    terms = jnp.exp(log_ratio) + square * jnp.exp(-prior.log_variance) - 1 - log_ratio
    return 0.5 * jnp.sum(terms, axis=-1)


def _table(config: Config, features: int, name: str | None = None) -> t5_layers.Embed:
    return t5_layers.Embed(
        config.vocab_size,
        features,
        embedding_init=uniform(config.initial_range),
        name=name,
    )


class Memory(nn.Module):
    """Attention of the words of a query over the words of the persona."""

    config: Config

    @nn.compact
    def __call__(
        self, tokens: Tokens, is_persona: Bool[Array, "..."], is_query: Array
    ) -> Vectors:
        config = self.config
        tables = [
            _table(config, config.memory_dim, f"table_{hop}")(tokens)
            for hop in range(config.hops + 1)
        ]
        found = jnp.sum(tables[0] * is_query[..., None], axis=1)
        # A persona without words contributes zeros.
        some = jnp.any(is_persona, axis=1, keepdims=True)
        for keys, values in itertools.pairwise(tables):
            scores = jnp.einsum("blm,bm->bl", keys, found)
            weights = nn.softmax(jnp.where(is_persona, scores, MASKED))
            found = found + some * jnp.einsum("bl,blm->bm", weights, values)
        return found


class Decoder(nn.Module):
    """The decoder of the reply; with `decode`, the collection `cache` has its state.

    The first call creates the state from the encoded inputs; each further call
    processes one position.
    """

    config: Config

    @nn.compact
    def __call__(
        self, encoded: Vectors, x: Float[Array, "batch length emb"], decode: bool
    ) -> Float[Array, "batch length vocab"]:
        config, bound = self.config, self.config.initial_range
        state = initial = Affine(config.decoder_dim, bound, name="start")(encoded)
        started = self.has_variable("cache", "cached_state")
        if decode:
            cached = self.variable("cache", "cached_state", lambda: initial)
            state = cached.value
        everywhere = jnp.ones(x.shape[:2], jnp.bool_)
        gru = Gru(config.decoder_dim, bound, name="gru")
        states, state = gru(x, everywhere, state=state)
        if decode and started:
            cached.value = state
        return Affine(config.vocab_size, bound, "vocab", name="output")(states)


class Outcome(NamedTuple):
    """The outputs for training."""

    logits: Float[Array, "batch length vocab"]
    bag_logits: Float[Array, "batch vocab"]
    divergence: Float[Array, " batch"]


class Network(networks.EncoderDecoder):
    """The network."""

    config: Config

    def setup(self) -> None:
        config, bound = self.config, self.config.initial_range
        width = 2 * config.latent_dim
        self.token_embedder = _table(config, config.emb_dim)
        self.forwards = Gru(config.sentence_dim, bound)
        self.backwards = Gru(config.sentence_dim, bound, reverse=True)
        self.context = [Gru(config.context_dim, bound) for _ in range(2)]
        self.memory = Memory(config)
        self.prior_hidden = Affine(max(width, 100), bound)
        self.prior_output = Affine(width, bound)
        self.posterior_output = Affine(width, bound)
        self.bag_hidden = Affine(config.bow_dim, bound)
        self.bag_output = Affine(config.vocab_size, bound, "vocab")
        self.decoder = Decoder(config)
        self.dropout = nn.Dropout(config.dropout_rate)

    def _condition(self, tokens: Tokens) -> Vectors:
        """Returns the memory and context of inputs."""
        tokens = tokens.astype(jnp.int32)
        config = self.config
        marks, last, types = speakers.marked(tokens, config.markers)
        words = (tokens > 0) & ~marks
        said = types > speakers.PERSONA
        begun = jnp.cumsum(marks & said, axis=1)
        utterances = jnp.max(begun, axis=1, keepdims=True)
        read = words & said & (begun > utterances - config.utterances)
        embedded = self.token_embedder(tokens)
        ahead, _ = self.forwards(embedded, read, marks)
        back, _ = self.backwards(embedded, read, marks)
        first = jnp.minimum(last + 1, tokens.shape[1] - 1)
        back = jnp.take_along_axis(back, first[..., None], axis=1)
        goes_on = jnp.pad(read[:, 1:], ((0, 0), (0, 1)))
        ends = read & ~goes_on
        states, first_layer = self.context[0](jnp.concatenate([ahead, back], -1), ends)
        _, second_layer = self.context[1](states, ends)
        query = words & said & (begun == utterances)
        found = self.memory(tokens, words & (types == speakers.PERSONA), query)
        return jnp.concatenate([found, first_layer, second_layer], axis=-1)

    def _prior(self, condition: Vectors) -> Gaussian:
        hidden = jnp.tanh(self.prior_hidden(condition))
        return Gaussian(*jnp.split(self.prior_output(hidden), 2, axis=-1))

    def _posterior(self, condition: Vectors, reply: Tokens) -> Gaussian:
        embedded, words = self.token_embedder(reply), reply > 0
        sentence = [gru(embedded, words)[1] for gru in (self.forwards, self.backwards)]
        seen = jnp.concatenate([condition, *sentence], axis=-1)
        return Gaussian(*jnp.split(self.posterior_output(seen), 2, axis=-1))

    def _key(self) -> Array | None:
        return self.make_rng("latent") if self.has_rng("latent") else None

    def encode_tokens(self, tokens: Tokens, enable_dropout: bool) -> Vectors:
        """Returns the condition and z, drawn with the stream "latent" or the mean."""
        del enable_dropout
        condition = self._condition(tokens)
        z = self._prior(condition).draw(self._key())
        return jnp.concatenate([condition, z], axis=-1)

    def decode_tokens(
        self,
        encoded: Vectors,
        sources: Int[Array, "batch input_length"],
        tokens: Tokens,
        enable_dropout: bool,
        decode: bool,
    ) -> Float[Array, "batch length vocab"]:
        """Returns the logits of the reply; see `EncoderDecoder.decode`."""
        del sources
        x = self.dropout(self.token_embedder(tokens), deterministic=not enable_dropout)
        return self.decoder(encoded, x, decode)

    def reconstruct(
        self,
        encoder_input_tokens: Int[Array, "batch input_length"],
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        enable_dropout: bool = True,
    ) -> Outcome:
        """Returns the outputs with z from the posterior; "latent" draws z randomly."""
        reply = decoder_target_tokens.astype(jnp.int32)
        condition = self._condition(encoder_input_tokens)
        prior = self._prior(condition)
        posterior = self._posterior(condition, reply)
        encoded = jnp.concatenate([condition, posterior.draw(self._key())], axis=-1)
        hidden = jnp.tanh(self.bag_hidden(encoded))
        hidden = self.dropout(hidden, deterministic=not enable_dropout)
        logits = self.decode(
            encoded,
            encoder_input_tokens,
            decoder_input_tokens,
            reply,
            enable_dropout=enable_dropout,
        )
        return Outcome(logits, self.bag_output(hidden), divergence(posterior, prior))

    def __call__(self, *args: Any, enable_dropout: bool = True, **kwargs: Any) -> Any:
        """Returns the logits with z from the prior."""
        if self.is_initializing():
            sources, inputs, targets = args[:3]
            return self.reconstruct(sources, inputs, targets, enable_dropout).logits
        return super().__call__(*args, enable_dropout=enable_dropout, **kwargs)
