"""Base of the decoder-only families: a stack of layers with the interface of T5X.

A family adds its blocks, its norm, and its position embeddings if any; see `llama` and
`gpt2`.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import with_sharding_constraint
from jaxtyping import Array, Float, Int
from t5x import output_product
from t5x.examples.t5 import layers as t5_layers

from jaxaug.core import typed
from jaxaug.core.ranges import Range
from jaxaug.models import layers

Tokens = Int[Array, "rows length"]
Activations = Float[Array, "rows length emb"]
Logits = Float[Array, "rows length vocab"]

Size = Annotated[int, Range(1)]
Layers = Annotated[int, Range(0)]
_REMAT_POLICIES = {
    "none": None,
    "minimal": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "full": jax.checkpoint_policies.nothing_saveable,
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and options that every decoder-only family has.

    Attributes:
        dropout_rate: rate after each half of a block.
        dtype: dtype of activations; parameters, norm statistics, and logits are
            float32.
        fused_attention: whether attention without dropout avoids storing its weights if
            possible. It runs in a cuDNN kernel on a GPU with a 16-bit dtype, and in
            blocks on a CPU.
        remat_policy: results of a block that the backward pass recomputes: "none",
            "minimal" (all but matrix products with parameters), or "full" (all). The
            names come from the networks of T5X.
        id_offset: 0 if token ids equal the published ones. 1 if they are larger by 1,
            which reserves 0 for T5X (see `layers.Embed`).
        bos_token_id: token of the published vocabulary that replaces id 0 of T5X before
            the first token; needs `id_offset` 1.

    Raises:
        UserError: a size below 1, a negative number of layers, or an unknown policy.
    """

    vocab_size: Size
    emb_dim: Size
    num_layers: Layers
    num_heads: Size
    head_dim: Size
    mlp_dim: Size
    norm_epsilon: float
    activation: str
    tie_embeddings: bool
    dropout_rate: float = 0.0
    embedding_dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    dtype: Any = jnp.float32
    fused_attention: bool = True
    remat_policy: Literal["none", "minimal", "full"] = "none"
    id_offset: int = 0
    bos_token_id: int = 0

    def __post_init__(self) -> None:
        module = type(self).__module__.rpartition(".")[2]
        typed.check_fields(self, f"{module}.Config.")


class Mode(NamedTuple):
    """Options of one call of the layers.

    Attributes:
        decode: whether to create or use the cache.
        prefill_lengths: number of positions of each row to put into the cache.
    """

    deterministic: bool
    decode: bool
    prefill_lengths: Int[Array, " rows"] | None


class Stack(nn.Module, abc.ABC):
    """Embedding, blocks, norm, and logits."""

    config: Any

    @abc.abstractmethod
    def block(self, index: int) -> nn.Module:
        """Returns a block, which takes activations, mask, positions, and `Mode`."""

    @abc.abstractmethod
    def norm(self) -> nn.Module:
        """Returns the norm after the last block."""

    def embed_positions(
        self, positions: Int[Array, "#rows length"]
    ) -> Activations | None:
        """Returns position embeddings to add to the token embeddings, if any."""
        return None

    def embed_told(self, told: Any) -> Activations | None:
        """Returns embeddings of the token information in `told` to add, if any."""
        return None

    def read(self, x: Activations, told: Any, mode: Mode) -> Activations:
        """Returns the input of the output matrix; families may transform it."""
        return x

    def scaled(self, x: Activations) -> Activations:
        """Returns the token embeddings after the scaling of the family."""
        return x

    def capped(self, logits: Logits) -> Logits:
        """Returns the logits after the cap of the family."""
        return logits

    @nn.compact
    def __call__(
        self,
        tokens: Tokens,
        mask: layers.Mask | None,
        positions: Tokens | None,
        mode: Mode,
        told: Any = None,
    ) -> Logits:
        config = self.config
        embedder = layers.Embed(
            config.vocab_size,
            config.emb_dim,
            dtype=config.dtype,
            id_offset=config.id_offset,
            bos_token_id=config.bos_token_id,
            name="token_embedder",
        )
        positions = layers.Positions(name="positions")(
            tokens, positions, decode=mode.decode, prefill_lengths=mode.prefill_lengths
        )
        x = self.scaled(embedder(tokens))
        embedded_positions = self.embed_positions(positions)
        if embedded_positions is not None:
            x = x + embedded_positions
        embedded_told = self.embed_told(told)
        if embedded_told is not None:
            x = x + embedded_told
        x = nn.Dropout(config.embedding_dropout_rate)(
            x, deterministic=mode.deterministic
        )
        through = self._through(mask, positions, mode)
        for index in range(config.num_layers):
            x = through(self.block(index), x)
        x = self.read(self.norm()(x), told, mode)
        if config.tie_embeddings:
            output: nn.Module = embedder
            logits = embedder.attend(x)
        else:
            output = layers.linear(
                config.vocab_size,
                ("embed", "vocab"),
                dtype=config.dtype,
                output_dtype=jnp.float32,
                name="logits_dense",
            )
            logits = output(x)
        product = logits
        logits = self.capped(product)
        linear = logits is product
        logits = layers.shift_logits(logits, config.id_offset)
        # Capped logits are no product of two factors.
        if linear and output_product.is_wanted(self):
            tied = config.tie_embeddings
            ours, theirs = ("table", "embedding") if tied else ("kernel", "kernel")
            matrix = jnp.asarray(output.get_variable("params", theirs), config.dtype)
            output_product.tell(
                self,
                logits,
                jnp.asarray(x, config.dtype),
                offset=config.id_offset,
                **{ours: matrix},
            )
        return logits

    def _through(
        self,
        mask: layers.Mask | None,
        positions: Int[Array, "#rows length"],
        mode: Mode,
    ) -> Callable[[nn.Module, Activations], Activations]:
        def through(block: nn.Module, x: Activations) -> Activations:
            return block(x, mask, positions, mode)

        # A pass that writes a cache has no backward pass.
        policy = _REMAT_POLICIES[self.config.remat_policy]
        if policy is None or mode.decode or mode.prefill_lengths is not None:
            return through
        return nn.remat(through, policy=policy)


class Block(nn.Module, abc.ABC):
    """Pre-norm block: x + attention(norm(x)), then x + mlp(norm(x))."""

    config: Any
    index: int

    @abc.abstractmethod
    def norm(self, name: str) -> nn.Module:
        """Returns a norm of the family."""

    def after(self, name: str, x: Activations) -> Activations:
        """Returns the output of one half in the form in which it is added."""
        return x

    @abc.abstractmethod
    def attention(self) -> layers.Attention:
        """Returns the attention of the family, named `self_attention`."""

    @abc.abstractmethod
    def mlp(self) -> nn.Module:
        """Returns the MLP of the family, named `mlp`."""

    @nn.compact
    def __call__(
        self,
        x: Activations,
        mask: layers.Mask | None,
        positions: Int[Array, "#rows length"],
        mode: Mode,
    ) -> Activations:
        dropout = nn.Dropout(self.config.dropout_rate, deterministic=mode.deterministic)
        y = self.norm("pre_self_attention_layer_norm")(x)
        y = self.attention()(
            y,
            y,
            mask,
            positions=positions,
            decode=mode.decode,
            deterministic=mode.deterministic,
            prefill_lengths=mode.prefill_lengths,
        )
        y = self.after("post_self_attention_layer_norm", y)
        x = _constrain(x + dropout(y))
        y = self.norm("pre_mlp_layer_norm")(x)
        y = self.mlp()(y, deterministic=mode.deterministic)
        y = self.after("post_mlp_layer_norm", y)
        return _constrain(x + dropout(y))


def _constrain(x: Activations) -> Activations:
    return with_sharding_constraint(x, ("batch", "length", "embed"))


class CausalLM(nn.Module):
    """The stack of a family as a module of `t5x.models.DecoderOnlyModel`."""

    config: Any

    stack_cls: ClassVar[type[Stack]]

    def setup(self) -> None:
        self.decoder = self.stack_cls(self.config)

    def __call__(
        self,
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        decoder_segment_ids: Tokens | None = None,
        decoder_positions: Tokens | None = None,
        decoder_causal_attention: Tokens | None = None,
        *,
        enable_dropout: bool = True,
        decode: bool = False,
        max_decode_length: int | None = None,
        prefill: bool = False,
        prefill_lengths: Int[Array, " rows"] | None = None,
        told: Any = None,
    ) -> Logits:
        """Returns float32 logits of the target tokens.

        Args:
            decoder_input_tokens: the targets shifted right. A decoding step takes one
                column, or several if all rows are at the same position.
            decoder_target_tokens: show which positions are padding (0); unused with
                `decode`.
            decoder_causal_attention: 1 at positions that see each other in both
                directions.
            decode: whether to take one step with the collection `cache`, or to create
                that collection if it is missing.
            prefill: whether to put the first positions into an existing cache in one
                call.
            told: additional token information of a family; see `Stack.embed_told` and
                `Stack.read`.

        Raises:
            ValueError: `prefill` together with `decode` or without `prefill_lengths`.
        """
        del max_decode_length
        if prefill and (decode or prefill_lengths is None):
            raise ValueError(
                "prefill=True needs prefill_lengths and a separate call "
                "before the steps with decode=True"
            )
        mask = None
        if not decode:
            mask = t5_layers.make_decoder_mask(
                decoder_target_tokens,
                jnp.float32,
                decoder_causal_attention,
                decoder_segment_ids,
            )
        elif decoder_input_tokens.shape[1] > 1 and not self.variables.get("cache"):
            # This call creates the cache and returns the logits of the prompt.
            mask = t5_layers.make_causal_mask(decoder_input_tokens)
        mode = Mode(not enable_dropout, decode, prefill_lengths if prefill else None)
        return self.decoder(decoder_input_tokens, mask, decoder_positions, mode, told)
