"""BART, Pegasus, and Marian: encoder-decoders that differ in a few flags.

BART (Lewis et al. 2020) has learned positions, a norm on the embedding, and norms after
each residual. Pegasus (Zhang et al. 2020) has sinusoidal positions and norms before
each half of a block. Marian (Junczys-Dowmunt et al. 2018) has sinusoidal positions and
norms after each half. All tie the output matrix to the embedding and add a bias to the
logits.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import param_with_axes, with_sharding_constraint
from jax import lax
from jaxtyping import Array, Float, Int
from t5x.examples.t5 import layers as t5_layers

from jaxaug.core.errors import UserError
from jaxaug.models import layers
from jaxaug.models.weights import hf_config
from jaxaug.models.weights.hf_config import REQUIRED, key
from jaxaug.models.weights.keymap import Weight, attention, dense, identity, layer_norm

# Some files store sinusoidal tables and versions of fairseq. Learned tables are in the
# key map.
IGNORED = (
    r"(model\.)?(encoder|decoder)\.embed_positions\.weight",
    r"(model\.)?(encoder|decoder)\.version",
)

# Flags by `model_type`. Old config.json files express them with `_OLD_FLAGS`.
_FAMILIES: Mapping[str, Mapping[str, bool]] = {
    "bart": {"learned_positions": True, "pre_norm": False, "embedding_norm": True},
    "pegasus": {"learned_positions": False, "pre_norm": True, "embedding_norm": False},
    "marian": {"learned_positions": False, "pre_norm": False, "embedding_norm": False},
}
# Defaults of transformers for a config.json without the key.
_FORCED_EOS = {"bart": 2, "pegasus": 1, "marian": 0}
_OLD_FLAGS = {
    "normalize_before": "pre_norm",
    "add_final_layer_norm": "pre_norm",
    "normalize_embedding": "embedding_norm",
}
_ARCHITECTURES = {
    "bart": {
        "BartForConditionalGeneration": "lm",
        "BartModel": "none",
        "BartForSequenceClassification": "classifier",
    },
    "pegasus": {"PegasusForConditionalGeneration": "lm"},
    "marian": {"MarianMTModel": "lm"},
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and options.

    Attributes:
        family: "bart", "pegasus", or "marian": the `model_type` of config.json.
        num_encoder_heads: heads of the encoder, each emb_dim / num_encoder_heads wide.
        learned_positions: whether positions have a table; otherwise they are
            sinusoidal.
        pre_norm: whether norms precede attention and MLP, with one more at the end of
            each side; otherwise they follow the residual.
        decoder_vocab_size: rows of a separate decoder embedding; None if both sides
            share one.
        labels: names of the classifier's outputs; empty without a classifier.
        dropout_rate: rate after the embedding and after each part of a block.
        activation_dropout_rate: rate on the hidden layers of the MLPs.
        dtype: dtype of activations; parameters, statistics, and logits are float32.
        id_offset: 0 if token ids equal the published ones. 1 if they are larger by 1,
            which reserves 0 for T5X (see `layers.Embed`).
        decoder_start_token_id: row of the embedding for the 0 before the first target.
        pad_token_id: row of the padding; no token id maps to it if `id_offset` is 1.
        never_pad: whether decoding cannot choose `pad_token_id`.
        forced_bos_token_id: row that decoding chooses first, if any.
        forced_eos_token_id: row that decoding chooses in the last column, if any.
    """

    family: str = key("model_type")
    vocab_size: int = key("vocab_size")
    emb_dim: int = key("d_model")
    num_encoder_layers: int = key("encoder_layers")
    num_decoder_layers: int = key("decoder_layers")
    num_encoder_heads: int = key("encoder_attention_heads")
    num_decoder_heads: int = key("decoder_attention_heads")
    encoder_mlp_dim: int = key("encoder_ffn_dim")
    decoder_mlp_dim: int = key("decoder_ffn_dim")
    num_positions: int = key("max_position_embeddings", 1024, absent=REQUIRED)
    learned_positions: bool = True
    pre_norm: bool = False
    embedding_norm: bool = True
    scale_embedding: bool = key("scale_embedding", False)
    logits_bias: bool = True
    decoder_vocab_size: int | None = None
    labels: tuple[str, ...] = ()
    activation: str = key("activation_function", "gelu", read=hf_config.activation)
    dropout_rate: float = key("dropout", 0.1, read=float)
    attention_dropout_rate: float = key("attention_dropout", 0.0, read=float)
    activation_dropout_rate: float = key("activation_dropout", 0.0, read=float)
    dtype: Any = jnp.float32
    id_offset: int = 0
    decoder_start_token_id: int = key("decoder_start_token_id", 0, absent=REQUIRED)
    pad_token_id: int = key("pad_token_id", 0, read=hf_config.or_zero)
    never_pad: bool = False
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | None = None

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "Config":
        """Returns the configuration of a published model from its config.json.

        `id_offset` is 0 if the published id 0 is the padding, and also the decoder
        start or no other token that texts have, as in Pegasus; otherwise it is 1.

        Raises:
            UserError: another architecture, missing sizes, or an unsupported option.
        """
        family = hf_config.checked_type(config, _FAMILIES)
        known = _ARCHITECTURES[family]
        head = hf_config.head(config, known, next(iter(known)))
        flags = _FAMILIES[family]
        hf_config.refuse(config, {old: flags[new] for old, new in _OLD_FLAGS.items()})
        hf_config.refuse(config, {"tie_word_embeddings": True})
        fields = hf_config.read_fields(hf_config.table_of(cls), config)
        pad, start = fields["pad_token_id"], fields["decoder_start_token_id"]
        shared = config.get("share_encoder_decoder_embeddings", True)
        forced = {"forced_eos_token_id": _FORCED_EOS[family], **config}
        options: dict[str, Any] = {
            key: hf_config.token(forced, key) for key in hf_config.FORCED
        }
        options |= flags
        with hf_config.complete():
            return cls(
                **fields,
                logits_bias=head == "lm",
                decoder_vocab_size=None if shared else config["decoder_vocab_size"],
                labels=hf_config.labels(config, 3) if head == "classifier" else (),
                id_offset=int(
                    pad != 0 or (start != 0 and _in_texts(0, config, family))
                ),
                never_pad=[pad] in (config.get("bad_words_ids") or []),
                **options,
            )


def _in_texts(token: int, config: Mapping[str, Any], family: str) -> bool:
    """Returns whether a token begins or ends texts; only BART has a first token."""
    ends = config.get("eos_token_id", _FORCED_EOS[family])
    first = config.get("bos_token_id", 0) if family == "bart" else None
    return token in (first, *(ends if isinstance(ends, list) else [ends]))


def to_hf(config: Config) -> dict[str, Any]:
    """Returns the config.json of a model; inverts `from_hf`."""
    head = "classifier" if config.labels else "lm" if config.logits_bias else "none"
    named = {head: name for name, head in _ARCHITECTURES[config.family].items()}
    result = {
        "architectures": [named[head]],
        "is_encoder_decoder": True,
        **hf_config.written_fields(hf_config.table_of(Config), vars(config)),
        **{key: getattr(config, key) for key in hf_config.FORCED},
    }
    if config.decoder_vocab_size is not None:
        result["share_encoder_decoder_embeddings"] = False
        result["decoder_vocab_size"] = config.decoder_vocab_size
    if config.never_pad:
        result["bad_words_ids"] = [[config.pad_token_id]]
    return result | hf_config.with_labels(config.labels)


def key_map(config: Config) -> dict[str, Weight]:
    """Returns the Hugging Face name of each parameter path of `Bart`.

    A model without a head has names without the prefix `model.`; both forms are read.
    """
    weights = _embeddings_map(config)
    encoder, decoder = "encoder", "decoder"
    for side in (encoder, decoder):
        weights |= _side_map(config, side)
    for i in range(config.num_encoder_layers):
        weights |= _block_map(config, encoder, i, {"attention": "self_attn"})
    for i in range(config.num_decoder_layers):
        attentions = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
        weights |= _block_map(config, decoder, i, attentions)
    bare = not config.logits_bias and not config.labels
    weights = {path: _placed(weight, bare) for path, weight in weights.items()}
    if config.logits_bias:
        weights["final_logits_bias"] = Weight(
            "final_logits_bias", lambda b: b.reshape(-1), lambda b: b.reshape(1, -1)
        )
    if config.labels:
        weights |= dense("dense", "classification_head.dense")
        weights |= dense("output", "classification_head.out_proj")
    return weights


def _placed(weight: Weight, bare: bool) -> Weight:
    names = (weight.name, *weight.aliases)
    prefixed = tuple(n if n == "lm_head.weight" else f"model.{n}" for n in names)
    first, *others = (*names, *prefixed) if bare else (*prefixed, *names)
    aliases = tuple(name for name in dict.fromkeys(others) if name != first)
    return weight._replace(name=first, aliases=aliases)


def _embeddings_map(config: Config) -> dict[str, Weight]:
    both = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    path, output = "token_embedder/embedding", "lm_head.weight"
    if config.decoder_vocab_size is None:
        return {path: identity("shared.weight", *both, output)}
    return {
        path: identity(both[0]),
        "target_embedder/embedding": identity(both[1], output),
    }


def _side_map(config: Config, side: str) -> dict[str, Weight]:
    weights: dict[str, Weight] = {}
    if config.learned_positions:
        weights[f"{side}/position_embedder/embedding"] = identity(
            f"{side}.embed_positions.weight"
        )
    if config.embedding_norm:
        weights |= layer_norm(f"{side}/embedding_norm", f"{side}.layernorm_embedding")
    if config.pre_norm:
        weights |= layer_norm(f"{side}/norm", f"{side}.layer_norm")
    return weights


def _block_map(
    config: Config, side: str, index: int, attentions: Mapping[str, str]
) -> dict[str, Weight]:
    encoder = side == "encoder"
    heads = config.num_encoder_heads if encoder else config.num_decoder_heads
    dim = config.emb_dim // heads
    path, name = f"{side}/layers_{index}", f"{side}.layers.{index}"
    weights: dict[str, Weight] = {}
    letters = {"query": "q", "key": "k", "value": "v"}
    for ours, theirs in attentions.items():
        at, tensor = f"{path}/{ours}", f"{name}.{theirs}"
        parts = {part: f"{tensor}.{letter}_proj" for part, letter in letters.items()}
        weights |= attention(at, parts, f"{tensor}.out_proj", heads, dim)
        weights |= layer_norm(f"{at}_norm", f"{tensor}_layer_norm")
    return weights | {
        **dense(f"{path}/mlp/wi", f"{name}.fc1"),
        **dense(f"{path}/mlp/wo", f"{name}.fc2"),
        **layer_norm(f"{path}/mlp_norm", f"{name}.final_layer_norm"),
    }


Tokens = Int[Array, "batch length"]
Activations = Float[Array, "batch length emb"]
Encoded = Float[Array, "batch input_length emb"]

_NORM_EPSILON = 1e-5


def _norm(config: Config, name: str) -> layers.LayerNorm:
    return layers.LayerNorm(_NORM_EPSILON, config.dtype, name=name)


def _attention(config: Config, heads: int, name: str) -> layers.Attention:
    return layers.Attention(
        num_heads=heads,
        head_dim=config.emb_dim // heads,
        qkv_bias=True,
        out_bias=True,
        dropout_rate=config.attention_dropout_rate,
        dtype=config.dtype,
        name=name,
    )


class _Block(nn.Module):
    """Base of encoder and decoder blocks: the residual with its norm, and the MLP."""

    config: Config
    deterministic: bool

    def before(self, name: str, x: Activations) -> Activations:
        return _norm(self.config, name)(x) if self.config.pre_norm else x

    def after(self, name: str, x: Activations, y: Activations) -> Activations:
        config = self.config
        y = nn.Dropout(config.dropout_rate)(y, deterministic=self.deterministic)
        x = x + y
        if not config.pre_norm:
            x = _norm(config, name)(x)
        return with_sharding_constraint(x, ("batch", "length", "embed"))

    def mlp(self, x: Activations, mlp_dim: int) -> Activations:
        config = self.config
        y = layers.mlp(
            mlp_dim,
            activation=config.activation,
            dropout_rate=config.activation_dropout_rate,
            dtype=config.dtype,
            name="mlp",
        )(self.before("mlp_norm", x), deterministic=self.deterministic)
        return self.after("mlp_norm", x, y)


class EncoderBlock(_Block):
    """Self-attention and MLP."""

    @nn.compact
    def __call__(self, x: Activations, mask: layers.Mask) -> Activations:
        config = self.config
        y = self.before("attention_norm", x)
        y = _attention(config, config.num_encoder_heads, "attention")(
            y, y, mask, deterministic=self.deterministic
        )
        x = self.after("attention_norm", x, y)
        return self.mlp(x, config.encoder_mlp_dim)


class DecoderBlock(_Block):
    """Causal self-attention, cross-attention, and MLP."""

    decode: bool

    @nn.compact
    def __call__(
        self,
        x: Activations,
        encoded: Encoded,
        mask: layers.Mask | None,
        cross_mask: layers.Mask,
    ) -> Activations:
        config, fixed = self.config, self.deterministic
        heads = config.num_decoder_heads
        y = self.before("self_attention_norm", x)
        y = _attention(config, heads, "self_attention")(
            y, y, mask, decode=self.decode, deterministic=fixed
        )
        x = self.after("self_attention_norm", x, y)
        y = self.before("cross_attention_norm", x)
        y = _attention(config, heads, "cross_attention")(
            y, encoded, cross_mask, decode=self.decode, deterministic=fixed, cross=True
        )
        x = self.after("cross_attention_norm", x, y)
        return self.mlp(x, config.decoder_mlp_dim)


class _Side(nn.Module):
    """Base of encoder and decoder: token embedding with positions, and last norm."""

    config: Config
    token_embedder: nn.Module

    def embed(
        self, tokens: Tokens, positions: Int[Array, "#rows length"], fixed: bool
    ) -> Activations:
        config = self.config
        x = self.token_embedder(tokens)
        if config.scale_embedding:
            x = x * jnp.sqrt(config.emb_dim).astype(x.dtype)
        x = x + self._embed_positions(positions)
        if config.embedding_norm:
            x = _norm(config, "embedding_norm")(x)
        return nn.Dropout(config.dropout_rate)(x, deterministic=fixed)

    def _embed_positions(self, positions: Int[Array, "#rows length"]) -> Activations:
        config = self.config
        if config.learned_positions:
            # The published table has two additional rows before the first position.
            return layers.LearnedPositions(
                config.num_positions + 2,
                config.emb_dim,
                offset=2,
                dtype=config.dtype,
                name="position_embedder",
            )(positions)
        length = positions.shape[-1]
        if length > config.num_positions:
            raise UserError(
                f"the model has {config.num_positions} positions, but the sequences "
                f"are {length} long: shorten them (task_feature_lengths)"
            )
        table = layers.sinusoidal_positions(config.num_positions, config.emb_dim)
        return jnp.asarray(table, config.dtype)[positions]

    def last_norm(self, x: Activations) -> Activations:
        return _norm(self.config, "norm")(x) if self.config.pre_norm else x


class Encoder(_Side):
    """Embedding and blocks."""

    @nn.compact
    def __call__(
        self,
        tokens: Tokens,
        positions: Tokens | None,
        mask: layers.Mask,
        deterministic: bool,
    ) -> Activations:
        if positions is None:
            positions = jnp.arange(tokens.shape[1])[None]
        x = self.embed(tokens, positions, deterministic)
        for i in range(self.config.num_encoder_layers):
            block = EncoderBlock(self.config, deterministic, name=f"layers_{i}")
            x = block(x, mask)
        return self.last_norm(x)


class Decoder(_Side):
    """Embedding and blocks; `decode` adds a position counter and caches."""

    @nn.compact
    def __call__(
        self,
        encoded: Encoded,
        tokens: Tokens,
        positions: Tokens | None,
        mask: layers.Mask | None,
        cross_mask: layers.Mask,
        deterministic: bool,
        decode: bool,
    ) -> Activations:
        config, counter = self.config, layers.Positions(name="positions")
        here = counter(tokens, positions, decode=decode)
        if config.id_offset == 0 != config.decoder_start_token_id:
            # With an offset, the embedder does this for every 0.
            starts = (here == 0) & (tokens == 0)
            tokens = jnp.where(starts, config.decoder_start_token_id, tokens)
        x = self.embed(tokens, here, deterministic)
        for i in range(config.num_decoder_layers):
            block = DecoderBlock(config, deterministic, decode, name=f"layers_{i}")
            x = block(x, encoded, mask, cross_mask)
        return self.last_norm(x)


Inputs = Int[Array, "batch input_length"]
Logits = Float[Array, "batch length vocab"]


class Bart(nn.Module):
    """Encoder-decoder with the methods of `t5x.examples.t5.network.Transformer`.

    If the configuration names labels, the model has a classifier (`classify`) and no
    logits bias, like BART-large-MNLI.
    """

    config: Config

    ignores_padding: ClassVar[bool] = True

    def setup(self) -> None:
        config = self.config
        self.token_embedder = self._embedder(config.vocab_size)
        # Marian may have a vocabulary per side; the first one belongs to the encoder.
        target_embedder = self.token_embedder
        if config.decoder_vocab_size is not None:
            target_embedder = self._embedder(config.decoder_vocab_size)
        self.target_embedder = target_embedder
        self.encoder = Encoder(config, self.token_embedder)
        self.decoder = Decoder(config, self.target_embedder)
        if config.logits_bias:
            self.final_logits_bias = param_with_axes(
                "final_logits_bias",
                nn.initializers.zeros,
                (config.decoder_vocab_size or config.vocab_size,),
                jnp.float32,
                axes=("vocab",),
            )
        if config.labels:
            self.dense = layers.pooler(config)
            self.output = layers.label_logits(config)

    def _embedder(self, size: int) -> layers.Embed:
        config = self.config
        return layers.Embed(
            size,
            config.emb_dim,
            dtype=config.dtype,
            id_offset=config.id_offset,
            bos_token_id=config.decoder_start_token_id,
        )

    def encode(
        self,
        encoder_input_tokens: Tokens,
        encoder_segment_ids: Tokens | None = None,
        enable_dropout: bool = True,
        encoder_positions: Tokens | None = None,
    ) -> Activations:
        """Returns encoded inputs. Id 0 is padding; segments do not see each other.

        Raises:
            UserError: the sequences are longer than the model has positions.
        """
        tokens, segments = encoder_input_tokens, encoder_segment_ids
        mask = t5_layers.make_padding_mask(tokens, tokens, segments, segments)
        return self.encoder(
            encoder_input_tokens, encoder_positions, mask, not enable_dropout
        )

    def decode(
        self,
        encoded: Encoded,
        encoder_input_tokens: Inputs,
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        encoder_segment_ids: Inputs | None = None,
        decoder_segment_ids: Tokens | None = None,
        decoder_positions: Tokens | None = None,
        enable_dropout: bool = True,
        decode: bool = False,
        max_decode_length: int | None = None,
    ) -> Logits:
        """Returns float32 logits of the target tokens given the encoded inputs.

        Args:
            encoder_input_tokens: show which positions of `encoded` are padding (0).
            decoder_input_tokens: the targets shifted right. The first id is 0, which
                stands for `decoder_start_token_id`. A decoding step takes one column.
            decode: whether to take one step with the collection `cache`, or to create
                that collection if it is missing (see `layers.Attention`).

        Raises:
            UserError: segment ids are combined with `decode` or given for one side
                only, or the sequences are longer than the model has positions.
        """
        del max_decode_length
        if (encoder_segment_ids is None) != (decoder_segment_ids is None):
            raise UserError(
                "segment ids of one side only: inputs and targets are packed together, "
                "so give both or neither"
            )
        if decode and encoder_segment_ids is not None:
            raise UserError(
                "decode=True works on one example a row: leave out the segment ids and "
                "decode from data that is not packed"
            )
        # The step below advances the column, so it is read first.
        column = self._column() if decode else None
        hidden = self._decode(
            encoded,
            encoder_input_tokens,
            decoder_input_tokens,
            decoder_target_tokens,
            (encoder_segment_ids, decoder_segment_ids, decoder_positions),
            enable_dropout,
            decode,
        )
        config = self.config
        logits = self.target_embedder.attend(hidden)
        if config.logits_bias:
            # The bias is a constant of the published model, and its trainers keep it
            # fixed too.
            logits = logits + lax.stop_gradient(self.final_logits_bias)
        if decode and config.never_pad:
            logits = logits.at[..., config.pad_token_id].set(layers.MASKED)
        if column is not None:
            logits = self._force(logits, *column)
        return layers.shift_logits(logits, config.id_offset)

    def _column(self) -> tuple[Int[Array, "*rows"], int] | None:
        """Returns the column that a step writes and the last one, or None."""
        stack = self.variables.get("cache", {}).get("decoder")
        if not stack:
            return None
        length = layers.cache_length(stack["layers_0"]["self_attention"])
        return stack["positions"]["cache_index"], length - 1

    def _force(self, logits: Logits, column: Int[Array, "*rows"], last: int) -> Logits:
        """Masks all but the forced tokens in the first and in the last column."""
        config = self.config
        rows = jnp.arange(logits.shape[-1])
        for token, forced in (
            (config.forced_bos_token_id, column == 0),
            (config.forced_eos_token_id, column == last),
        ):
            if token is not None:
                hidden = forced.reshape(-1, 1, 1) & (rows != token)
                logits = jnp.where(hidden, layers.MASKED, logits)
        return logits

    def _decode(
        self,
        encoded: Encoded,
        sources: Inputs,
        inputs: Tokens,
        targets: Tokens,
        packing: tuple[Inputs | None, Tokens | None, Tokens | None],
        enable_dropout: bool,
        decode: bool = False,
    ) -> Activations:
        source_segments, segments, positions = packing
        queries, mask = targets, None
        if decode:
            queries = jnp.ones_like(queries)
        else:
            mask = t5_layers.make_decoder_mask(
                targets, jnp.float32, decoder_segment_ids=segments
            )
        cross_mask = t5_layers.make_padding_mask(
            queries, sources, segments, source_segments
        )
        return self.decoder(
            *(encoded, inputs, positions, mask, cross_mask),
            deterministic=not enable_dropout,
            decode=decode,
        )

    def __call__(
        self,
        encoder_input_tokens: Inputs,
        decoder_input_tokens: Tokens,
        decoder_target_tokens: Tokens,
        encoder_segment_ids: Inputs | None = None,
        decoder_segment_ids: Tokens | None = None,
        encoder_positions: Inputs | None = None,
        decoder_positions: Tokens | None = None,
        *,
        enable_dropout: bool = True,
        decode: bool = False,
    ) -> Logits:
        """Encodes and decodes; see `encode` and `decode` for the arguments."""
        encoded = self.encode(
            encoder_input_tokens, encoder_segment_ids, enable_dropout, encoder_positions
        )
        if self.is_initializing() and self.config.labels:
            # Parameters are created on first use.
            self.output(self.dense(encoded[:, 0]))
        return self.decode(
            *(encoded, encoder_input_tokens, decoder_input_tokens),
            *(decoder_target_tokens, encoder_segment_ids, decoder_segment_ids),
            *(decoder_positions, enable_dropout, decode),
        )

    def classify(
        self, tokens: Tokens, *, enable_dropout: bool = False
    ) -> Float[Array, "batch labels"]:
        """Returns float32 logits of `config.labels`.

        The decoder reads the inputs too, shifted right. Its state at the last token of
        a row passes through two dense layers. That token must be the end of sequence.

        Raises:
            UserError: the configuration names no labels.
        """
        if not self.config.labels:
            raise UserError(
                "this model has no classifier: take weights whose config.json names an "
                "architecture ...ForSequenceClassification"
            )
        encoded = self.encode(tokens, enable_dropout=enable_dropout)
        shifted = jnp.pad(tokens, ((0, 0), (1, 0)))[:, :-1]
        hidden = self._decode(
            encoded, tokens, shifted, tokens, (None, None, None), enable_dropout
        )
        last = jnp.maximum(jnp.sum(tokens > 0, axis=1) - 1, 0)
        x = jnp.take_along_axis(hidden, last[:, None, None], axis=1)[:, 0]
        return self.output(jnp.tanh(self.dense(x)).astype(jnp.float32))


NETWORK = Bart
