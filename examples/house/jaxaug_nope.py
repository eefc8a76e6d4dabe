"""NoPE: a GPT-2 without positions (Kazemnejad et al., 2023)."""

import dataclasses

from jaxaug.models import gpt2
from jaxaug.models.weights import families, hf_config

# Key in config.json, field of Config, default; reader and writer use the same table.
TABLE = (
    hf_config.Field("vocab_size", "vocab_size"),
    hf_config.Field("hidden_size", "emb_dim"),
    hf_config.Field("num_hidden_layers", "num_layers"),
    hf_config.Field("num_attention_heads", "num_heads"),
    hf_config.Field("head_dim", "head_dim"),
    hf_config.Field("intermediate_size", "mlp_dim"),
    hf_config.Field("hidden_act", "activation", "gelu_new", hf_config.activation),
)
IGNORED = gpt2.IGNORED  # Regular expressions of tensors that carry no parameter.


@dataclasses.dataclass(frozen=True)
class Config(gpt2.Config):
    @classmethod
    def from_hf(cls, config):
        hf_config.require(config, "nope", "NopeForCausalLM")
        hf_config.refuse(config, {"tie_word_embeddings": True})
        return cls(**hf_config.read_fields(TABLE, config))


def to_hf(config):
    kind = {"architectures": ["NopeForCausalLM"], "model_type": "nope"}
    return kind | hf_config.written_fields(TABLE, vars(config))


class Stack(gpt2.Stack):
    def embed_positions(self, positions):
        return None


class NETWORK(gpt2.DecoderWrapper):
    config: Config
    stack_cls = Stack


def key_map(config):
    """Returns path of a parameter -> tensor of the published model, with conversion."""
    weights = gpt2.key_map(config)
    return {path: w for path, w in weights.items() if "position" not in path}


FAMILY = families.Family(
    name="nope",
    file=__name__,
    kind="decoder_only",
    types=("nope",),
    adapted=("c_attn",),
    transposed=True,
)
