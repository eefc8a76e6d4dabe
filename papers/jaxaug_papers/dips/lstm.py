"""The attentive LSTM sequence-to-sequence model of the DiPS paper.

Kumar et al. (2019), "Submodular Optimization-based Diverse Paraphrasing", section 4.
The model has an LSTM encoder and an LSTM decoder with the global "general" attention of
Luong et al. (2015), equations 1, 5, 6, and 8.

As in the authors' program, the attentional vector is rectified (Luong et al. use tanh),
it is not fed to the next step, and both sides share one embedding. There are two
differences. Attention ignores the padding of the source. `general` has no bias, because
a bias would add the same constant to every score of a query.
"""

from collections.abc import Mapping
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import with_sharding_constraint
from jaxtyping import Array, Bool, Float, Int

from jaxaug.models.layers import MASKED, linear
from jaxaug.models.weights.keymap import Weight, identity, transposed
from jaxaug_papers.dips.lstm_layers import (
    LstmLayer,
    State,
    embedder,
    output,
    run_layers,
)
from jaxaug_papers.shared import networks

# Aliases of the embedding, and the bias without effect (see the module docstring).
IGNORED = (r"(encoder|decoder)\.embedding\.weight", r"decoder\.attn\.attn\.bias")


@flax.struct.dataclass
class Config:
    """The configuration; the defaults are from the paper's program.

    Attributes:
        dtype: type of matrix products; parameters, cell states, and logits are float32.
        bidirectional: whether the encoder also reads backward; both outputs are added.
        embedding_range: initial embeddings are uniform in [-range, range].
    """

    vocab_size: int
    dtype: Any = jnp.float32
    emb_dim: int = 256
    hidden_dim: int = 384
    num_layers: int = 3
    bidirectional: bool = False
    dropout_rate: float = 0.3
    embedding_range: float = 0.08


class Encoder(nn.Module):
    """LSTM layers of one or two directions."""

    config: Config

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch length emb"],
        is_token: Bool[Array, "batch length"],
        deterministic: bool,
    ) -> tuple[Float[Array, "batch length hidden"], list[State]]:
        """Returns the outputs of the last layer, and the final states of all layers."""
        config = self.config
        zeros = jnp.zeros((x.shape[0], config.hidden_dim), jnp.float32)
        directions = ("forward", "backward")[: 1 + config.bidirectional]
        outputs, states = [x], []
        for i in range(config.num_layers):
            x = jnp.concatenate(outputs, axis=-1)
            if i > 0:
                x = nn.Dropout(config.dropout_rate)(x, deterministic=deterministic)
            outputs = []
            for direction in directions:
                layer = LstmLayer(
                    config.hidden_dim,
                    direction == "backward",
                    config.dtype,
                    name=f"{direction}_{i}",
                )
                y, state = layer(x, is_token, (zeros, zeros))
                outputs.append(y)
                states.append(state)
        return sum(outputs[1:], outputs[0]), states


class Decoder(nn.Module):
    """LSTM layers, attention, and the output layer.

    With `decode`, the collection `cache` stores the states of all layers. The first
    call creates them from the states of the encoder; each further call processes one
    position.
    """

    config: Config

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch length emb"],
        memory: Float[Array, "batch input_length hidden"],
        initial: Float[Array, "batch layers 2 hidden"],
        is_source: Bool[Array, "batch input_length"],
        deterministic: bool,
        decode: bool,
    ) -> Float[Array, "batch length vocab"]:
        config = self.config
        started = self.has_variable("cache", "cached_state")
        states = initial
        if decode:
            cached = self.variable("cache", "cached_state", lambda: initial)
            states = cached.value
        x, states = run_layers(config, x, states, deterministic)
        if decode and started:
            cached.value = states
        context = self._attend(x, memory, is_source)
        x = jnp.concatenate([jnp.asarray(x, config.dtype), context], axis=-1)
        x = linear(
            config.hidden_dim,
            ("mlp", "embed"),
            use_bias=True,
            dtype=config.dtype,
            name="concat",
        )(x)
        x = with_sharding_constraint(nn.relu(x), ("batch", "length", "embed"))
        return output(config)(x)

    def _attend(self, x: Array, memory: Array, is_source: Array) -> Array:
        dtype = self.config.dtype
        size = self.config.hidden_dim
        query = linear(size, ("embed", "kv"), dtype=dtype, name="attention")(x)
        memory = jnp.asarray(memory, dtype)
        scores = jnp.einsum("bqh,bkh->bqk", query, memory).astype(jnp.float32)
        scores = jnp.where(is_source[:, None], scores, MASKED)
        weights = jax.nn.softmax(scores).astype(dtype)
        return jnp.einsum("bqk,bkh->bqh", weights, memory)


class Transducer(networks.EncoderDecoder):
    """The encoder-decoder."""

    config: Config

    def setup(self) -> None:
        self.token_embedder = embedder(self.config)
        self.encoder = Encoder(self.config)
        self.decoder = Decoder(self.config)

    def encode_tokens(
        self, tokens: networks.Tokens, enable_dropout: bool
    ) -> Float[Array, "batch length_and_states hidden"]:
        """Encodes inputs; 0 is padding and occurs only at the end of a row.

        Returns:
            The outputs [batch, length, hidden], followed on the length axis by the
            final hidden and cell states of the layers. They are one array, because
            decoding repeats it for every decode of a row.
        """
        outputs, states = self.encoder(
            self.token_embedder(tokens), tokens > 0, not enable_dropout
        )
        # As in the program of the paper, the order of a bidirectional encoder is: layer
        # 0 forward, layer 0 backward, layer 1 forward, and so on.
        rows = [row for state in states[: self.config.num_layers] for row in state]
        return jnp.concatenate([outputs, jnp.stack(rows, axis=1)], axis=1)

    def decode_tokens(
        self,
        encoded: Float[Array, "batch length_and_states hidden"],
        sources: Int[Array, "batch input_length"],
        tokens: networks.Tokens,
        enable_dropout: bool,
        decode: bool,
    ) -> Float[Array, "batch length vocab"]:
        """Returns the logits; see `EncoderDecoder.decode`."""
        length = sources.shape[1]
        memory, states = encoded[:, :length], encoded[:, length:]
        shape = (encoded.shape[0], self.config.num_layers, 2, self.config.hidden_dim)
        return self.decoder(
            self.token_embedder(tokens),
            memory,
            states.reshape(shape),
            sources > 0,
            not enable_dropout,
            decode,
        )


def key_map(config: Config) -> dict[str, Weight]:
    """Returns Flax path -> name in the state dict of the paper's program."""
    names: dict[str, Weight] = {
        "token_embedder/embedding": identity("embedding.weight"),
        "decoder/attention/kernel": identity("decoder.attn.attn.weight"),
    }
    for ours, theirs in (("concat", "concat"), ("output", "out")):
        names[f"decoder/{ours}/kernel"] = transposed(f"decoder.{theirs}.weight")
        names[f"decoder/{ours}/bias"] = identity(f"decoder.{theirs}.bias")
    for i in range(config.num_layers):
        names |= _layer_map(f"encoder/forward_{i}", f"encoder.rnn.{{}}_l{i}")
        names |= _layer_map(f"decoder/layers_{i}", f"decoder.rnn.{{}}_l{i}")
        if config.bidirectional:
            path, name = f"encoder/backward_{i}", f"encoder.rnn.{{}}_l{i}_reverse"
            names |= _layer_map(path, name)
    return names


def _layer_map(path: str, name: str) -> Mapping[str, Weight]:
    return {
        f"{path}/input_kernel": transposed(name.format("weight_ih")),
        f"{path}/recurrent_kernel": transposed(name.format("weight_hh")),
        f"{path}/input_bias": identity(name.format("bias_ih")),
        f"{path}/recurrent_bias": identity(name.format("bias_hh")),
    }
