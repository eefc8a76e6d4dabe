"""BERT and RoBERTa encoders with pooling, classification, and masked-word heads.

The networks have post-norm blocks, learned positions, and segment embeddings (Devlin et
al. 2019, Liu et al. 2019). BLEURT (Sellam et al. 2020) is the same network with one
output. BLEURT-20 has embeddings that are narrower than the blocks, as in RemBERT (Chung
et al. 2021).

Token ids equal the published ones: nothing here decodes.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
from flax import linen as nn
from flax.linen.partitioning import param_with_axes, with_sharding_constraint
from jaxtyping import Array, Bool, Float, Int

from jaxaug.models import layers
from jaxaug.models.weights import hf_config
from jaxaug.models.weights.hf_config import key
from jaxaug.models.weights.keymap import (
    Weight,
    bert_layer,
    dense,
    identity,
    layer_norm,
    placed,
    transposed,
)

IGNORED = (
    r"(.*\.)?embeddings\.(position_ids|token_type_ids)",
    r"(.*\.)?pooler\.dense\.(weight|bias)",
    r"cls\.seq_relationship\.(weight|bias)",
    # The bias of an unused tied head: an untied head has a bias for its matrix.
    r"(cls\.predictions|lm_head)\.bias",
)

_HEADS = {
    "Model": "pooler",
    "ForSequenceClassification": "classifier",
    "ForMaskedLM": "masked_lm",
    "ForPreTraining": "masked_lm",
}


@dataclasses.dataclass(frozen=True)
class _Family:
    """Names and conventions of a family; `masked_lm` is "" without that head."""

    classes: str
    prefix: str
    projection: str = ""
    narrow: str = ""
    padded_positions: bool = False
    dense: str = "pooler.dense"
    output: str = "classifier"
    masked_lm: str = ""
    labels: int = 2  # Default of a classifier's config.json.
    padding: int = 0  # Default of config.json.


_BERT = _Family("Bert", "bert.", masked_lm="cls.predictions.")
_ROBERTA = _Family(
    "Roberta",
    "roberta.",
    padded_positions=True,
    dense="classifier.dense",
    output="classifier.out_proj",
    masked_lm="lm_head.",
    padding=1,
)
FAMILIES: Mapping[str, _Family] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": dataclasses.replace(_ROBERTA, classes="XLMRoberta"),
    "rembert": _Family(
        "RemBert", "rembert.", "embedding_hidden_mapping_in", "input_embedding_size"
    ),
    "bleurt": _Family(
        "Bleurt", "bleurt.", "embedding_projection", "embedding_size", labels=1
    ),
}


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Sizes and options that BERT and DeBERTa share.

    Attributes:
        num_heads: attention heads, each emb_dim / num_heads wide.
        num_positions: rows of the table of positions, or, without one, the longest
            sequence in pre-training.
        num_segments: rows of the table of segments; 0 for none.
        embedding_dim: width of the embeddings; None if it is emb_dim.
        head: "none", "pooler", "classifier", or "masked_lm".
        dropout_rate: rate after the embedding, after each half of a block, and in the
            head.
        dtype: dtype of activations; parameters, statistics, and outputs of heads are
            float32.
    """

    vocab_size: int = key("vocab_size")
    emb_dim: int = key("hidden_size")
    num_layers: int = key("num_hidden_layers")
    num_heads: int = key("num_attention_heads")
    mlp_dim: int = key("intermediate_size")
    num_positions: int = key("max_position_embeddings", 512)
    num_segments: int = key("type_vocab_size", 2)
    embedding_dim: int | None = None
    head: str = "none"
    labels: tuple[str, ...] = ()
    pad_token_id: int = key("pad_token_id", 0, read=hf_config.or_zero)
    activation: str = key("hidden_act", "gelu")
    norm_epsilon: float = key("layer_norm_eps", 1e-12)
    dropout_rate: float = key("hidden_dropout_prob", 0.1, read=float)
    attention_dropout_rate: float = key("attention_probs_dropout_prob", 0.1, read=float)
    dtype: Any = jnp.float32


@dataclasses.dataclass(frozen=True)
class Config(EncoderConfig):
    """Options of `EncoderConfig`, and the following.

    Attributes:
        family: a key of `FAMILIES`: the `model_type` of config.json.
        tie_embeddings: whether the embedding is also the output matrix of "masked_lm".
    """

    num_positions: int = key("max_position_embeddings", 512, absent=hf_config.REQUIRED)
    family: str = key("model_type", "bert")
    tie_embeddings: bool = key("tie_word_embeddings", True, read=bool)

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "Config":
        """Returns the configuration of a published model from its config.json.

        A bare encoder has the head "pooler". For weights without a pooler, set the head
        to "none" with `dataclasses.replace`.

        Raises:
            UserError: another architecture, missing sizes, or an unsupported option.
        """
        family = FAMILIES[hf_config.checked_type(config, FAMILIES)]
        hf_config.refuse(
            config,
            {
                "position_embedding_type": "absolute",
                "is_decoder": False,
                "add_cross_attention": False,
            },
        )
        head = _head(config, family)
        fields = hf_config.read_fields(
            hf_config.table_of(cls), {"pad_token_id": family.padding, **config}
        )
        fields["tie_embeddings"] |= head != "masked_lm"
        return cls(
            **fields,
            embedding_dim=config.get(family.narrow) if family.narrow else None,
            head=head,
            labels=hf_config.labels(config, family.labels)
            if head == "classifier"
            else (),
        )


def _head(config: Mapping[str, Any], family: _Family) -> str:
    known = {
        family.classes + ending: head
        for ending, head in _HEADS.items()
        if head != "masked_lm" or family.masked_lm
    }
    return hf_config.head(config, known, f"{family.classes}Model")


def to_hf(config: Config) -> dict[str, Any]:
    """Returns the config.json of a model; inverts `from_hf`."""
    family = FAMILIES[config.family]
    ending = {"none": "Model"} | {head: end for end, head in reversed(_HEADS.items())}
    result = {
        "architectures": [family.classes + ending[config.head]],
        **hf_config.written_fields(hf_config.table_of(Config), vars(config)),
    }
    if family.narrow and config.embedding_dim is not None:
        result[family.narrow] = config.embedding_dim
    return result | hf_config.with_labels(config.labels)


def key_map(config: Config) -> dict[str, Weight]:
    """Returns the Hugging Face name of each parameter path of `Bert`.

    A bare encoder has names without the prefix of the family; both forms are read. The
    names `gamma` and `beta`, which the first checkpoints gave to norms, are read too.
    """
    family = FAMILIES[config.family]
    body = _embeddings_map() | _layers_map(config)
    if config.embedding_dim is not None:
        body |= dense("encoder/projection", f"encoder.{family.projection}")
    if config.head == "pooler" or (
        config.head == "classifier" and family.dense == "pooler.dense"
    ):
        body |= dense("dense", "pooler.dense")
    bare = config.head in ("none", "pooler")
    weights = {path: placed(w, family.prefix, bare) for path, w in body.items()}
    if config.head == "classifier":
        weights |= dense("output", family.output)
        if family.dense != "pooler.dense":
            weights |= dense("dense", family.dense)
    elif config.head == "masked_lm":
        weights |= _masked_words_map(family)
        output = f"{family.masked_lm}decoder"
        if config.tie_embeddings:
            path = "embeddings/token_embedder/embedding"
            aliases = (*weights[path].aliases, f"{output}.weight")
            weights[path] = weights[path]._replace(aliases=aliases)
        else:
            weights["masked_words/output/kernel"] = transposed(f"{output}.weight")
            bias = weights["masked_words/bias"]
            weights["masked_words/bias"] = bias._replace(
                name=f"{output}.bias", aliases=(), otherwise=bias.name
            )
    return weights


def _embeddings_map() -> dict[str, Weight]:
    tables = {
        "token_embedder": "word_embeddings",
        "position_embedder": "position_embeddings",
        "segment_embedder": "token_type_embeddings",
    }
    return {
        f"embeddings/{ours}/embedding": identity(f"embeddings.{theirs}.weight")
        for ours, theirs in tables.items()
    } | layer_norm("embeddings/norm", "embeddings.LayerNorm")


def _layers_map(config: Config) -> dict[str, Weight]:
    heads, dim = config.num_heads, config.emb_dim // config.num_heads
    parts = {part: part for part in ("query", "key", "value")}
    weights: dict[str, Weight] = {}
    for i in range(config.num_layers):
        path, name = f"encoder/layers_{i}", f"encoder.layer.{i}"
        weights |= bert_layer(path, name, parts, heads, dim)
    return weights


def _masked_words_map(family: _Family) -> dict[str, Weight]:
    head = family.masked_lm
    inner, norm = f"{head}transform.", "LayerNorm"
    if family.prefix == "roberta.":
        inner, norm = head, "layer_norm"
    return {
        **dense("masked_words/dense", f"{inner}dense"),
        **layer_norm("masked_words/norm", f"{inner}{norm}"),
        "masked_words/bias": identity(f"{head}bias", f"{head}decoder.bias"),
    }


Tokens = Int[Array, "batch length"]
Hidden = Float[Array, "batch length emb"]
Seen = Bool[Array, "batch length"]


def mean_pool(hidden: Hidden, mask: Seen) -> Float[Array, "batch emb"]:
    """Returns the float32 mean over the tokens of each row, as in sentence encoders."""
    weights = jnp.asarray(mask, jnp.float32)[..., None]
    total = jnp.sum(hidden.astype(jnp.float32) * weights, axis=1)
    return total / jnp.maximum(jnp.sum(weights, axis=1), 1.0)


def cls_pool(hidden: Hidden) -> Float[Array, "batch emb"]:
    """Returns the first position of each row ([CLS] or <s>) in float32."""
    return hidden[:, 0].astype(jnp.float32)


def norm(config: EncoderConfig, name: str) -> layers.LayerNorm:
    """Returns a norm of the configuration."""
    return layers.LayerNorm(config.norm_epsilon, config.dtype, name=name)


class Layer(nn.Module):
    """Self-attention and MLP, each followed by a residual and a norm."""

    config: Any

    def attend(
        self, x: Hidden, mask: layers.Mask, deterministic: bool, *more: Any
    ) -> Hidden:
        """Returns the output of the attention; families have their own."""
        config = self.config
        return layers.Attention(
            num_heads=config.num_heads,
            head_dim=config.emb_dim // config.num_heads,
            qkv_bias=True,
            out_bias=True,
            dropout_rate=config.attention_dropout_rate,
            dtype=config.dtype,
            name="attention",
        )(x, x, mask, deterministic=deterministic)

    @nn.compact
    def __call__(
        self, x: Hidden, mask: layers.Mask, deterministic: bool, *more: Any
    ) -> Hidden:
        config = self.config
        dropout = nn.Dropout(config.dropout_rate, deterministic=deterministic)
        y = self.attend(x, mask, deterministic, *more)
        x = norm(config, "attention_norm")(x + dropout(y))
        y = layers.mlp(
            config.mlp_dim, activation=config.activation, dtype=config.dtype, name="mlp"
        )(x, deterministic=deterministic)
        x = norm(config, "mlp_norm")(x + dropout(y))
        return with_sharding_constraint(x, ("batch", "length", "embed"))


class Encoder(nn.Module):
    """The layers on top of embedded tokens."""

    config: Config

    @nn.compact
    def __call__(self, x: Hidden, mask: Seen, deterministic: bool) -> Hidden:
        config = self.config
        if config.embedding_dim is not None:
            x = layers.linear(
                config.emb_dim,
                ("mlp", "embed"),
                use_bias=True,
                dtype=config.dtype,
                name="projection",
            )(x)
        keys = jnp.asarray(mask)[:, None, None]
        for index in range(config.num_layers):
            x = Layer(config, name=f"layers_{index}")(x, keys, deterministic)
        return x


class Embeddings(nn.Module):
    """Sum of token, position, and segment embeddings, normalized."""

    config: Config

    def setup(self) -> None:
        config = self.config
        size = config.embedding_dim or config.emb_dim
        self.offset = 0
        if FAMILIES[config.family].padded_positions:
            self.offset = config.pad_token_id + 1
        self.token_embedder = layers.Embed(config.vocab_size, size, config.dtype)
        self.segment_embedder = layers.Embed(config.num_segments, size, config.dtype)
        self.position_embedder = layers.LearnedPositions(
            config.num_positions, size, self.offset, config.dtype
        )
        self.norm = layers.LayerNorm(config.norm_epsilon, config.dtype)
        self.dropout = nn.Dropout(config.dropout_rate)

    def __call__(
        self, tokens: Tokens, segments: Tokens, mask: Seen, deterministic: bool
    ) -> Hidden:
        del mask  # The norm of BERT does not hide padding.
        positions = jnp.arange(tokens.shape[1])[None]
        if self.offset:
            # Positions count tokens; all padding has the position before the first one.
            is_token = jnp.asarray(tokens != self.config.pad_token_id, jnp.int32)
            positions = jnp.cumsum(is_token, axis=1) * is_token - 1
        x = self.token_embedder(tokens) + self.segment_embedder(segments)
        x = self.norm(x + self.position_embedder(positions))
        return self.dropout(x, deterministic=deterministic)


class MaskedWords(nn.Module):
    """Masked-word head: a dense layer, a norm, the output matrix, and its bias."""

    config: Config
    token_embedder: nn.Module

    @nn.compact
    def __call__(self, hidden: Hidden) -> Float[Array, "batch length vocab"]:
        config = self.config
        x = layers.linear(
            config.emb_dim, ("mlp", "embed"), use_bias=True, name="dense"
        )(hidden)
        # Every head has this norm in float32, whatever the dtype of the blocks.
        x = norm(dataclasses.replace(config, dtype=jnp.float32), "norm")(
            layers.activation(config.activation)(x)
        )
        bias = param_with_axes(
            "bias",
            nn.initializers.zeros,
            (config.vocab_size,),
            jnp.float32,
            axes=("vocab",),
        )
        if config.tie_embeddings:
            return self.token_embedder.attend(x) + bias
        output = layers.linear(config.vocab_size, ("embed", "vocab"), name="output")
        return output(x.astype(jnp.float32)) + bias


class Bert(nn.Module):
    """The encoder, and one method for each head that a configuration can name."""

    config: Any

    embeddings_cls: ClassVar[type[nn.Module]] = Embeddings
    encoder_cls: ClassVar[type[nn.Module]] = Encoder

    def setup(self) -> None:
        config = self.config
        self.embeddings = self.embeddings_cls(config)
        self.encoder = self.encoder_cls(config)
        if config.head == "pooler":
            self.dense = layers.pooler(config)
        if config.head == "classifier":
            self.dense = layers.pooler(config)
            self.dropout = nn.Dropout(config.dropout_rate)
            self.output = layers.label_logits(config)
        if config.head == "masked_lm":
            self.masked_words = MaskedWords(config, self.embeddings.token_embedder)

    def __call__(
        self,
        tokens: Tokens,
        segments: Tokens | None = None,
        mask: Seen | None = None,
        *,
        enable_dropout: bool = False,
    ) -> Hidden:
        """Returns hidden states of the last layer.

        Args:
            tokens: ids of the published vocabulary.
            segments: 0 for the first sentence, 1 for the second of a pair; None means
                0.
            mask: False at padding; None masks `pad_token_id`.

        Raises:
            UserError: the sequences are longer than the table of positions.
        """
        fixed = not enable_dropout
        tokens = tokens.astype(jnp.int32)
        if segments is None:
            segments = jnp.zeros_like(tokens)
        if mask is None:
            mask = tokens != self.config.pad_token_id
        mask = jnp.asarray(mask, jnp.bool_)
        x = self.encoder(self.embeddings(tokens, segments, mask, fixed), mask, fixed)
        if self.is_initializing():
            self._use_head(x)
        return x

    def _use_head(self, hidden: Hidden) -> None:
        # Parameters are created on first use.
        if self.config.head == "pooler":
            self.dense(hidden[:, 0])
        elif self.config.head == "classifier":
            self.output(self.dense(hidden[:, 0]))
        elif self.config.head == "masked_lm":
            self.masked_words(hidden)

    def pooled(
        self, tokens: Tokens, segments: Tokens | None = None, mask: Seen | None = None
    ) -> Float[Array, "batch emb"]:
        """Returns BERT's pooled output: dense layer and tanh on the first position.

        Raises:
            UserError: the configuration has neither the head "pooler" nor "classifier".
        """
        hf_config.require_head(self.config.head, "pooler", "classifier")
        return jnp.tanh(self.dense(self(tokens, segments, mask)[:, 0]))

    def classify(
        self,
        tokens: Tokens,
        segments: Tokens | None = None,
        mask: Seen | None = None,
        *,
        enable_dropout: bool = False,
    ) -> Float[Array, "batch labels"]:
        """Returns float32 logits of `config.labels`; BLEURT's score is the only one.

        Raises:
            UserError: the configuration has another head.
        """
        hf_config.require_head(self.config.head, "classifier")
        x = self(tokens, segments, mask, enable_dropout=enable_dropout)[:, 0]
        return self.output(self.hidden(x, not enable_dropout).astype(jnp.float32))

    def hidden(self, x: Float[Array, "batch emb"], fixed: bool) -> Array:
        """Returns the input of the classifier's output layer."""
        # RoBERTa also applies dropout before its dense layer. BERT does not, so neither
        # does this network.
        return self.dropout(jnp.tanh(self.dense(x)), deterministic=fixed)

    def masked_logits(
        self, tokens: Tokens, segments: Tokens | None = None, mask: Seen | None = None
    ) -> Float[Array, "batch length vocab"]:
        """Returns float32 logits of the masked-word head at each position.

        Raises:
            UserError: the configuration has another head.
        """
        hf_config.require_head(self.config.head, "masked_lm")
        return self.masked_words(self(tokens, segments, mask))


NETWORK = Bert
