"""Configuration and key map of BART, Pegasus, and Marian (network: `bart`)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from jaxaug.models.weights import hf_config, hf_generation, hf_table
from jaxaug.models.weights.keymap import (
    Weight,
    attention,
    dense,
    identity,
    layer_norm,
)

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
_FIELD = hf_table.Field
_TABLE = (
    _FIELD("model_type", "family"),
    _FIELD("vocab_size", "vocab_size"),
    _FIELD("d_model", "emb_dim"),
    _FIELD("encoder_layers", "num_encoder_layers"),
    _FIELD("decoder_layers", "num_decoder_layers"),
    _FIELD("encoder_attention_heads", "num_encoder_heads"),
    _FIELD("decoder_attention_heads", "num_decoder_heads"),
    _FIELD("encoder_ffn_dim", "encoder_mlp_dim"),
    _FIELD("decoder_ffn_dim", "decoder_mlp_dim"),
    _FIELD("max_position_embeddings", "num_positions"),
    _FIELD("scale_embedding", "scale_embedding", False),
    _FIELD("activation_function", "activation", "gelu", hf_table.activation),
    _FIELD("dropout", "dropout_rate", 0.1, float),
    _FIELD("attention_dropout", "attention_dropout_rate", 0.0, float),
    _FIELD("activation_dropout", "activation_dropout_rate", 0.0, float),
    _FIELD("decoder_start_token_id", "decoder_start_token_id"),
    _FIELD("pad_token_id", "pad_token_id", 0, hf_table.or_zero),
)
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
        vocab_size: rows of the embedding.
        emb_dim: width of the model.
        num_encoder_layers: blocks of the encoder.
        num_decoder_layers: blocks of the decoder.
        num_encoder_heads: heads of the encoder, each emb_dim / num_encoder_heads wide.
        num_decoder_heads: heads of the decoder.
        encoder_mlp_dim: width of the hidden layers of the encoder's MLPs.
        decoder_mlp_dim: width of the hidden layers of the decoder's MLPs.
        num_positions: longest sequence in tokens.
        learned_positions: whether positions have a table; otherwise they are
            sinusoidal.
        pre_norm: whether norms precede attention and MLP, with one more at the end of
            each side; otherwise they follow the residual.
        embedding_norm: whether the embedded tokens are normalized.
        scale_embedding: whether the embedded tokens are multiplied by sqrt(emb_dim).
        logits_bias: whether the logits have a bias.
        decoder_vocab_size: rows of a separate decoder embedding; None if both sides
            share one.
        labels: names of the classifier's outputs; empty without a classifier.
        activation: Hugging Face name of the activation (`layers.ACTIVATIONS`).
        dropout_rate: rate after the embedding and after each part of a block.
        attention_dropout_rate: rate on the attention weights.
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

    family: str
    vocab_size: int
    emb_dim: int
    num_encoder_layers: int
    num_decoder_layers: int
    num_encoder_heads: int
    num_decoder_heads: int
    encoder_mlp_dim: int
    decoder_mlp_dim: int
    num_positions: int = 1024
    learned_positions: bool = True
    pre_norm: bool = False
    embedding_norm: bool = True
    scale_embedding: bool = False
    logits_bias: bool = True
    decoder_vocab_size: int | None = None
    labels: tuple[str, ...] = ()
    activation: str = "gelu"
    dropout_rate: float = 0.1
    attention_dropout_rate: float = 0.0
    activation_dropout_rate: float = 0.0
    dtype: Any = jnp.float32
    id_offset: int = 0
    decoder_start_token_id: int = 0
    pad_token_id: int = 0
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
        fields = hf_table.read(_TABLE, config)
        pad, start = fields["pad_token_id"], fields["decoder_start_token_id"]
        shared = config.get("share_encoder_decoder_embeddings", True)
        forced = {"forced_eos_token_id": _FORCED_EOS[family], **config}
        options: dict[str, Any] = {
            key: hf_generation.token(forced, key) for key in hf_generation.FORCED
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
        **hf_table.written(_TABLE, vars(config)),
        **{key: getattr(config, key) for key in hf_generation.FORCED},
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
