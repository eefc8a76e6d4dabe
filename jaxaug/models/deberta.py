"""DeBERTa v2 and v3: an encoder with disentangled attention, and a classifier.

Source: He et al. 2021, "DeBERTa: Decoding-enhanced BERT with disentangled attention"
and "DeBERTaV3". The blocks are post-norm. Attention logits add two terms to the product
of query and key contents: content to position (c2p) and position to content (p2c).
Distances share logarithmic buckets. Models from v2-xlarge up have a convolution next to
the first block.

Token ids equal the published ones: nothing here decodes.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.linen.partitioning import param_with_axes, with_sharding_constraint
from jax import lax
from jaxtyping import Array, Float, Int

from jaxaug.core.errors import UserError
from jaxaug.models import bert, layers
from jaxaug.models.bert import Hidden, Seen, Tokens
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

TYPE = "deberta-v2"
"""The `model_type` of both versions."""

CLASSIFIER, _BARE = "DebertaV2ForSequenceClassification", "DebertaV2Model"
_PREFIX = "deberta."
_KINDS = ("c2p", "p2c")

# Bare checkpoints contain the heads of pre-training and unused tables.
IGNORED = (
    r"(.*\.)?embeddings\.position_ids",
    r"(.*\.)?embeddings\.position_embeddings\.weight",
    r"(.*\.)?encoder\.LayerNorm\.(weight|bias)",
    r"(cls|lm_predictions|mask_predictions)\..*",
)


def _terms(value: Any) -> tuple[str, ...]:
    """Reads `pos_att_type`, a list or a text with bars as separators."""
    named = value or []
    if isinstance(named, str):
        named = [name.strip() for name in named.lower().split("|")]
    for name in named:
        if name not in _KINDS:
            raise UserError(
                f"config.json: pos_att_type names {name!r}, but only "
                f"{' and '.join(_KINDS)} are supported. Take weights that were trained "
                "with these."
            )
    return tuple(kind for kind in _KINDS if kind in named)


def _norm_distances(value: str | None) -> bool:
    """Reads `norm_rel_ebd`; returns whether the table of distances is normalized."""
    kinds = {name.strip() for name in (value or "none").lower().split("|")} - {"none"}
    if kinds - {"layer_norm"}:
        raise UserError(
            f"config.json: norm_rel_ebd is {value!r}, but only 'none' and 'layer_norm' "
            "are supported. Take weights that were trained with these."
        )
    return bool(kinds)


def _conv_width(value: int | None) -> int:
    """Reads `conv_kernel_size`; an even width would shorten the sequence."""
    width = max(value or 0, 0)
    if width and width % 2 == 0:
        raise UserError(
            f"config.json: conv_kernel_size is {width}, but must be 0 or odd. Use the "
            "config.json that was published with the weights."
        )
    return width


@dataclasses.dataclass(frozen=True)
class Config(bert.EncoderConfig):
    """Options of `bert.EncoderConfig`, and the following.

    Attributes:
        terms: attention terms in addition to content to content: "c2p", "p2c".
        shared_keys: whether the terms use the projections of the content.
        buckets: buckets of distances in each direction; 0 gives every distance its own.
        max_distance: distance from which all distances share a bucket.
        conv_width: kernel width, in tokens, of the convolution next to the first block;
            0 for none.
    """

    num_segments: int = key("type_vocab_size", 0, read=hf_config.or_zero)
    norm_epsilon: float = key("layer_norm_eps", 1e-7)
    learned_positions: bool = key("position_biased_input", False, absent=True)
    relative: bool = key("relative_attention", True, absent=False, read=bool)
    terms: tuple[str, ...] = key("pos_att_type", (), read=_terms, written=list)
    shared_keys: bool = key("share_att_key", False)
    buckets: int = key(
        "position_buckets", 0, read=lambda n: max(n, 0), written=lambda n: n or -1
    )
    max_distance: int = 512
    norm_distances: bool = key(
        *("norm_rel_ebd", False),
        absent=None,
        read=_norm_distances,
        written=lambda on: "layer_norm" if on else "none",
    )
    conv_width: int = key("conv_kernel_size", 0, read=_conv_width)
    conv_groups: int = key("conv_groups", 1)
    conv_activation: str = key("conv_act", "tanh")
    pooler_activation: str = key("pooler_hidden_act", "gelu")
    pooler_dropout_rate: float = key("pooler_dropout", 0.0, read=float)
    head_dropout_rate: float = 0.1

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.emb_dim // self.num_heads

    @property
    def span(self) -> int:
        """Half of the rows of the table of distances."""
        return self.buckets or self.max_distance

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> "Config":
        """Returns the configuration of a published model from its config.json.

        Raises:
            UserError: another architecture, missing sizes, or an unsupported option.
        """
        hf_config.checked_type(config, [TYPE])
        known = {_BARE: "none", CLASSIFIER: "classifier"}
        head = hf_config.head(config, known, _BARE)
        fields = hf_config.read_fields(hf_config.table_of(cls), config)
        size, heads = fields["emb_dim"], fields["num_heads"]
        _check_heads(size, heads)
        fixed = {"pooler_hidden_size": size, "attention_head_size": size // heads}
        hf_config.refuse(config, fixed)
        narrow = config.get("embedding_size") or size
        fields["norm_distances"] &= fields["relative"]
        head_dropout = config.get("cls_dropout")
        if head_dropout is None:
            head_dropout = fields["dropout_rate"]
        return cls(
            **fields,
            embedding_dim=None if narrow == size else narrow,
            max_distance=_furthest(config, fields),
            head=head,
            labels=hf_config.labels(config, 2) if head == "classifier" else (),
            head_dropout_rate=float(head_dropout),
        )


def _furthest(config: Mapping[str, Any], fields: Mapping[str, Any]) -> int:
    """Returns the greatest distance; checks the number of buckets."""
    furthest = config.get("max_relative_positions", -1)
    if furthest < 1:
        furthest = fields["num_positions"]
    buckets = fields["buckets"]
    # Half of the buckets hold one distance each; the others reach up to the greatest
    # distance.
    if buckets and not 1 <= buckets // 2 < furthest - 1:
        raise UserError(
            f"config.json: position_buckets is {buckets}, but must be from 2 to less "
            f"than twice the greatest distance ({furthest}) minus 2, or -1 for none. "
            "Use the config.json that was published with the weights."
        )
    return furthest


def _check_heads(size: int, heads: int) -> None:
    if size % heads:
        raise UserError(
            f"config.json: hidden_size is {size} and num_attention_heads {heads}, but "
            "the heads must divide it. Use the config.json that was published with the "
            "weights."
        )


def to_hf(config: Config) -> dict[str, Any]:
    """Returns the config.json of a model; inverts `Config.from_hf`."""
    result: dict[str, Any] = {
        "architectures": [CLASSIFIER if config.head == "classifier" else _BARE],
        "model_type": TYPE,
        **hf_config.written_fields(hf_config.table_of(Config), vars(config)),
        "pooler_hidden_size": config.emb_dim,
        "attention_head_size": config.head_dim,
        "max_relative_positions": config.max_distance,
        "cls_dropout": config.head_dropout_rate,
    }
    if config.embedding_dim is not None:
        result["embedding_size"] = config.embedding_dim
    return result | hf_config.with_labels(config.labels)


def key_map(config: Config) -> dict[str, Weight]:
    """Returns the Hugging Face name of each parameter path of `Deberta`."""
    body = _embeddings_map(config)
    if config.relative:
        table = "encoder/distances/embedding"
        body[table] = identity("encoder.rel_embeddings.weight")
    if config.norm_distances:
        body |= layer_norm("encoder/distances/norm", "encoder.LayerNorm")
    if config.conv_width:
        body |= dense("encoder/convolution", "encoder.conv.conv")
        body |= layer_norm("encoder/convolution/norm", "encoder.conv.LayerNorm")
    for index in range(config.num_layers):
        body |= _layer_map(config, f"encoder/layers_{index}", f"encoder.layer.{index}")
    bare = config.head == "none"
    weights = {path: placed(w, _PREFIX, bare) for path, w in body.items()}
    if not bare:
        weights |= dense("dense", "pooler.dense") | dense("output", "classifier")
    return weights


def _embeddings_map(config: Config) -> dict[str, Weight]:
    tables = {"token_embedder": "word_embeddings"}
    if config.learned_positions:
        tables["position_embedder"] = "position_embeddings"
    if config.num_segments:
        tables["segment_embedder"] = "token_type_embeddings"
    weights = {
        f"embeddings/{ours}/embedding": identity(f"embeddings.{theirs}.weight")
        for ours, theirs in tables.items()
    }
    if config.embedding_dim is not None:
        name = "embeddings.embed_proj.weight"
        weights["embeddings/projection/kernel"] = transposed(name)
    return weights | layer_norm("embeddings/norm", "embeddings.LayerNorm")


def _layer_map(config: Config, path: str, name: str) -> dict[str, Weight]:
    heads, dim = config.num_heads, config.head_dim
    parts = {"query": "query_proj", "key": "key_proj", "value": "value_proj"}
    if config.relative and not config.shared_keys:
        own = {"c2p": ("position_key", "pos_key_proj")}
        own["p2c"] = ("position_query", "pos_query_proj")
        parts |= dict(own[term] for term in config.terms)
    return bert_layer(path, name, parts, heads, dim)


# Embedded distances: consecutive rows of the table, starting at the most negative one.
Table = Float[Array, "rows emb"]

# The logical axis of a kernel's width; no rule shards it.
_WHOLE = "kv"


def distances(length: int, config: Config) -> Int[np.ndarray, "length length"]:
    """Returns the row of the table of distances for each query and key.

    The distance query - key has its own row up to half of the buckets. From there to
    `max_distance` the rows grow with its logarithm. All larger distances share the last
    row.
    """
    places = np.arange(length)
    distance = places[:, None] - places[None, :]
    if config.buckets:
        distance = _bucket(distance, config.buckets, config.max_distance)
    return np.clip(distance + config.span, 0, 2 * config.span - 1)


def _bucket(
    distance: Int[np.ndarray, "..."], buckets: int, furthest: int
) -> Int[np.ndarray, "..."]:
    middle = buckets // 2
    size = np.abs(distance)
    # PyTorch computes in float32, which decides the bucket of values on a border.
    logarithm = np.log(np.maximum(size, middle).astype(np.float32) / np.float32(middle))
    step = logarithm / np.log(np.float32((furthest - 1) / middle))
    far = np.ceil(step * np.float32(middle - 1)) + middle
    return np.where(size <= middle, distance, far * np.sign(distance)).astype(np.int64)


class Attention(nn.Module):
    """Disentangled attention (section 3.1, equation 4 of the first paper)."""

    config: Config

    @nn.compact
    def __call__(
        self,
        x: Hidden,
        mask: layers.Mask,
        table: Table | None,
        rows: Int[np.ndarray, "length length"],
        deterministic: bool,
    ) -> Hidden:
        """Attends from every token to all tokens that the mask shows.

        Args:
            table: embedded distances; None means attention to content alone.
            rows: rows of `table` for each query and key.
        """
        config = self.config
        names = ["query", "key", "value"]
        if table is not None and not config.shared_keys:
            own = {"c2p": "position_key", "p2c": "position_query"}
            names += [own[term] for term in config.terms]
        project = {
            name: layers.linear(
                (config.num_heads, config.head_dim),
                ("embed", "heads", "kv"),
                use_bias=True,
                dtype=config.dtype,
                name=name,
            )
            for name in names
        }
        axes = ("batch", "length", "heads", "kv")
        query, key, value = (
            with_sharding_constraint(project[name](x), axes)
            for name in ("query", "key", "value")
        )
        scale = 1.0 / math.sqrt(config.head_dim * (1 + len(config.terms)))
        bias: Array | None = None
        if table is not None and config.terms:
            table = nn.Dropout(config.dropout_rate)(table, deterministic=deterministic)
            bias = jnp.zeros((), jnp.float32)
            if "c2p" in config.terms:
                position = project["key" if config.shared_keys else "position_key"]
                bias += _to_position(query, position(table), rows)
            if "p2c" in config.terms:
                position = project["query" if config.shared_keys else "position_query"]
                bias += _from_position(key, position(table), rows)
            bias *= scale
        dropped = config.attention_dropout_rate > 0 and not deterministic
        attended = layers.dot_product_attention(
            query,
            key,
            value,
            mask,
            scale=scale,
            bias=bias,
            dropout_rng=self.make_rng("dropout") if dropped else None,
            dropout_rate=config.attention_dropout_rate,
        )
        return layers.linear(
            config.emb_dim,
            ("heads", "kv", "embed"),
            axis=(-2, -1),
            use_bias=True,
            dtype=config.dtype,
            name="out",
        )(attended)


def _to_position(
    query: Float[Array, "batch length heads dim"],
    position: Float[Array, "rows heads dim"],
    rows: Int[np.ndarray, "length length"],
) -> Float[Array, "batch heads length length"]:
    """Returns the c2p logits, float32: each query times its distance to each key."""
    matches = jnp.einsum(
        "bqhd,rhd->bhqr", query, position, preferred_element_type=jnp.float32
    )
    return jnp.take_along_axis(matches, rows[None, None], axis=3)


def _from_position(
    key: Float[Array, "batch length heads dim"],
    position: Float[Array, "rows heads dim"],
    rows: Int[np.ndarray, "length length"],
) -> Float[Array, "batch heads length length"]:
    """Returns the p2c logits, float32: each key times its distance to each query."""
    matches = jnp.einsum(
        "bkhd,rhd->bhrk", key, position, preferred_element_type=jnp.float32
    )
    return jnp.take_along_axis(matches, rows[None, None], axis=2)


class Layer(bert.Layer):
    """Block with disentangled attention."""

    def attend(
        self, x: Hidden, mask: layers.Mask, deterministic: bool, *more: Any
    ) -> Hidden:
        table, rows = more
        attention = Attention(self.config, name="attention")
        return attention(x, mask, table, rows, deterministic)


class Convolution(nn.Module):
    """Convolution over the embedded tokens, added to the first block's outputs."""

    config: Config

    @nn.compact
    def __call__(
        self, embedded: Hidden, x: Hidden, mask: Seen, deterministic: bool
    ) -> Hidden:
        config = self.config
        width, groups, size = config.conv_width, config.conv_groups, config.emb_dim
        kernel = param_with_axes(
            "kernel",
            layers.kernel_init,
            (width, size // groups, size),
            jnp.float32,
            axes=(_WHOLE, "embed", "mlp"),
        )
        bias = param_with_axes(
            "bias", nn.initializers.zeros, (size,), jnp.float32, axes=("mlp",)
        )
        y = lax.conv_general_dilated(
            embedded,
            jnp.asarray(kernel, config.dtype),
            window_strides=(1,),
            padding=[((width - 1) // 2,) * 2],
            dimension_numbers=("NWC", "WIO", "NWC"),
            feature_group_count=groups,
        )
        y = jnp.where(mask[..., None], y + jnp.asarray(bias, config.dtype), 0)
        y = nn.Dropout(config.dropout_rate)(y, deterministic=deterministic)
        x = x + layers.activation(config.conv_activation)(y)
        return jnp.where(mask[..., None], bert.norm(config, "norm")(x), 0)


class Distances(nn.Module):
    """The table of distances, normalized if the configuration says so."""

    config: Config

    @nn.compact
    def __call__(self) -> Table:
        config = self.config
        table = param_with_axes(
            "embedding",
            layers.kernel_init,
            (2 * config.span, config.emb_dim),
            jnp.float32,
            axes=("relpos_buckets", "embed"),
        )
        if config.norm_distances:
            table = bert.norm(config, "norm")(table)
        return jnp.asarray(table, config.dtype)


class Encoder(nn.Module):
    """The layers on top of embedded tokens."""

    config: Config

    @nn.compact
    def __call__(self, embedded: Hidden, mask: Seen, deterministic: bool) -> Hidden:
        config = self.config
        rows = distances(embedded.shape[1], config)
        table = None
        if config.relative:
            # Short texts need few rows of the table, and only these are projected.
            first = int(rows.min(initial=config.span))
            last = int(rows.max(initial=config.span))
            table = Distances(config, name="distances")()[first : last + 1]
            rows = rows - first
        x, keys = embedded, mask[:, None, None]
        for index in range(config.num_layers):
            layer = Layer(config, name=f"layers_{index}")
            x = layer(x, keys, deterministic, table, rows)
            if index == 0 and config.conv_width:
                convolution = Convolution(config, name="convolution")
                x = convolution(embedded, x, mask, deterministic)
        return x


class Embeddings(nn.Module):
    """Token embeddings plus optional position and segment embeddings, normalized."""

    config: Config

    @nn.compact
    def __call__(
        self, tokens: Tokens, segments: Tokens, mask: Seen, deterministic: bool
    ) -> Hidden:
        config = self.config
        size = config.embedding_dim or config.emb_dim
        embed: Any = layers.Embed
        words = embed(config.vocab_size, size, config.dtype, name="token_embedder")
        x = words(tokens)
        if config.learned_positions:
            x += layers.LearnedPositions(
                config.num_positions, size, 0, config.dtype, name="position_embedder"
            )(jnp.arange(tokens.shape[1])[None])
        if config.num_segments:
            x += embed(
                config.num_segments, size, config.dtype, name="segment_embedder"
            )(segments)
        if config.embedding_dim is not None:
            x = layers.linear(
                config.emb_dim, ("mlp", "embed"), dtype=config.dtype, name="projection"
            )(x)
        x = jnp.where(mask[..., None], bert.norm(config, "norm")(x), 0)
        return nn.Dropout(config.dropout_rate)(x, deterministic=deterministic)


class Deberta(bert.Bert):
    """The encoder, with a classifier if the configuration names one."""

    embeddings_cls: ClassVar[type[nn.Module]] = Embeddings
    encoder_cls: ClassVar[type[nn.Module]] = Encoder

    def setup(self) -> None:
        super().setup()
        self.before = nn.Dropout(self.config.pooler_dropout_rate)
        self.after = nn.Dropout(self.config.head_dropout_rate)

    def hidden(self, x: Float[Array, "batch emb"], fixed: bool) -> Array:
        """See `bert.Bert`."""
        x = self.dense(self.before(x, deterministic=fixed))
        x = layers.activation(self.config.pooler_activation)(x)
        return self.after(x, deterministic=fixed)


NETWORK = Deberta
