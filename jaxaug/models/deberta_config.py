"""Configuration and key map of DeBERTa v2 and v3; see `deberta` for the network."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from jaxaug.core.errors import UserError
from jaxaug.models.weights import hf_config, hf_table
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


_FIELD = hf_table.Field
_TABLE = (
    _FIELD("vocab_size", "vocab_size"),
    _FIELD("hidden_size", "emb_dim"),
    _FIELD("num_hidden_layers", "num_layers"),
    _FIELD("num_attention_heads", "num_heads"),
    _FIELD("intermediate_size", "mlp_dim"),
    _FIELD("max_position_embeddings", "num_positions", 512),
    _FIELD("type_vocab_size", "num_segments", 0, hf_table.or_zero),
    _FIELD("position_biased_input", "learned_positions", True),
    _FIELD("relative_attention", "relative", False, bool),
    _FIELD("share_att_key", "shared_keys", False),
    _FIELD("pos_att_type", "terms", None, _terms, list),
    _FIELD("position_buckets", "buckets", -1, lambda n: max(n, 0), lambda n: n or -1),
    _FIELD(
        "norm_rel_ebd", "norm_distances", None, _norm_distances,
        lambda on: "layer_norm" if on else "none",
    ),
    _FIELD("conv_kernel_size", "conv_width", None, _conv_width),
    _FIELD("conv_groups", "conv_groups", 1),
    _FIELD("conv_act", "conv_activation", "tanh"),
    _FIELD("pooler_hidden_act", "pooler_activation", "gelu"),
    _FIELD("pooler_dropout", "pooler_dropout_rate", 0.0, float),
    _FIELD("pad_token_id", "pad_token_id", 0, hf_table.or_zero),
    _FIELD("hidden_act", "activation", "gelu"),
    _FIELD("layer_norm_eps", "norm_epsilon", 1e-7),
    _FIELD("hidden_dropout_prob", "dropout_rate", 0.1, float),
    _FIELD("attention_probs_dropout_prob", "attention_dropout_rate", 0.1, float),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and options.

    Attributes:
        vocab_size: rows of the embedding.
        emb_dim: width of the blocks.
        num_layers: number of blocks.
        num_heads: attention heads, each emb_dim / num_heads wide.
        mlp_dim: width of the hidden layer of an MLP block.
        num_positions: longest sequence in pre-training, in tokens.
        num_segments: rows of the table of segments; 0 for none.
        embedding_dim: width of the embeddings; None if it is emb_dim.
        learned_positions: whether a table of positions is added to the embeddings.
        relative: whether attention uses the distance of tokens.
        terms: attention terms in addition to content to content: "c2p", "p2c".
        shared_keys: whether the terms use the projections of the content.
        buckets: buckets of distances in each direction; 0 gives every distance its own.
        max_distance: distance from which all distances share a bucket.
        norm_distances: whether the table of distances is normalized.
        conv_width: kernel width, in tokens, of the convolution next to the first block;
            0 for none.
        conv_groups: channel groups of the convolution.
        conv_activation: Hugging Face name of its activation (`layers.ACTIVATIONS`).
        head: "none" or "classifier".
        labels: names of the classifier's outputs.
        pooler_activation: activation of the dense layer before the classifier.
        pad_token_id: id of the padding.
        activation: activation of the MLP blocks.
        norm_epsilon: epsilon of all norms.
        dropout_rate: rate after embeddings, distances, and each half of a block.
        attention_dropout_rate: rate on the attention weights.
        pooler_dropout_rate: rate before the dense layer of the head.
        head_dropout_rate: rate after the dense layer of the head.
        dtype: dtype of activations; parameters, statistics, and logits are float32.
    """

    vocab_size: int
    emb_dim: int
    num_layers: int
    num_heads: int
    mlp_dim: int
    num_positions: int = 512
    num_segments: int = 0
    embedding_dim: int | None = None
    learned_positions: bool = False
    relative: bool = True
    terms: tuple[str, ...] = ()
    shared_keys: bool = False
    buckets: int = 0
    max_distance: int = 512
    norm_distances: bool = False
    conv_width: int = 0
    conv_groups: int = 1
    conv_activation: str = "tanh"
    head: str = "none"
    labels: tuple[str, ...] = ()
    pooler_activation: str = "gelu"
    pad_token_id: int = 0
    activation: str = "gelu"
    norm_epsilon: float = 1e-7
    dropout_rate: float = 0.1
    attention_dropout_rate: float = 0.1
    pooler_dropout_rate: float = 0.0
    head_dropout_rate: float = 0.1
    dtype: Any = jnp.float32

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
        fields = hf_table.read(_TABLE, config)
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
        **hf_table.written(_TABLE, vars(config)),
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
