"""Tiny decoders of each family, as pairs of torch and ours."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers

from jaxaug.models import gpt2, llama
from jaxaug.models.weights.keymap import params_from

LLAMA: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40,
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 7, "eos_token_id": 1, "initializer_range": 0.3,
}  # fmt: skip


GROUPED = {**LLAMA, "num_key_value_heads": 2}
WINDOW = {**GROUPED, "sliding_window": 4}
GEMMA = {
    **WINDOW,
    "head_dim": 8,
    "query_pre_attn_scalar": 5,
    "hidden_activation": "gelu_pytorch_tanh",
}


# Each flag is used in at least one of them.
GPT2: dict[str, Any] = {
    "vocab_size": 61, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 64,
    "pad_token_id": 0, "bos_token_id": 7, "eos_token_id": 1, "initializer_range": 0.3,
}  # fmt: skip
VARIANTS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "llama": (llama, LLAMA, {}),
    "llama-grouped": (llama, LLAMA, {"num_key_value_heads": 2, "head_dim": 10}),
    "llama-tied": (
        llama,
        LLAMA,
        {
            "num_key_value_heads": 1,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
        },
    ),
    "llama-biases": (
        llama,
        LLAMA,
        {
            "attention_bias": True,
            "mlp_bias": True,
            "hidden_act": "gelu",
            "rms_norm_eps": 0.1,
        },
    ),
    "llama-linear": (
        llama,
        LLAMA,
        {"rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 50.0}},
    ),
    # Frequencies that stay, frequencies that are scaled, and one in between.
    "llama-llama3": (
        llama,
        LLAMA,
        {
            "head_dim": 12,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 50.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 3.0,
                "original_max_position_embeddings": 20,
            },
        },
    ),
    "mistral": (llama, WINDOW, {}),
    "mistral-full": (llama, WINDOW, {"sliding_window": None, "head_dim": 10}),
    "qwen2": (llama, GROUPED, {"tie_word_embeddings": True, "max_window_layers": 2}),
    "qwen2-window": (
        llama,
        WINDOW,
        {"use_sliding_window": True, "max_window_layers": 1},
    ),
    "qwen3": (llama, GROUPED, {"head_dim": 10, "max_window_layers": 2}),
    "gemma2": (
        llama,
        GEMMA,
        {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    ),
    "gemma3": (
        llama,
        GEMMA,
        {
            "num_hidden_layers": 4,
            "sliding_window_pattern": 3,
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "linear",
                    "factor": 2.0,
                    "rope_theta": 1000.0,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
            },
        },
    ),
    "gpt2": (gpt2, GPT2, {}),
    "gpt2-untied": (
        gpt2,
        GPT2,
        {
            "tie_word_embeddings": False,
            "n_inner": 37,
            "activation_function": "relu",
            "layer_norm_epsilon": 0.1,
        },
    ),
    "gpt2-unscaled": (gpt2, GPT2, {"scale_attn_weights": False}),
    "gpt2-layer-scale": (
        gpt2,
        GPT2,
        {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
    ),
}


# By the start of the name of a variant.
CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "gemma2": (transformers.Gemma2Config, transformers.Gemma2ForCausalLM),
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
    "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
}


def classes(variant: str) -> tuple[Any, Any]:
    return CLASSES[variant.partition("-")[0]]


class Words:
    """The part of a vocabulary that `DecoderOnlyModel` uses."""

    eos_id = 1
    vocab_size = 61


class Endless(Words):
    """A vocabulary whose EOS no model draws."""

    eos_id = 99


@functools.cache
def pair(variant: str) -> tuple[Any, Any, Any]:
    """Returns a torch model, our module, and its parameters, with the same weights."""
    family, base, flags = VARIANTS[variant]
    config_class, model_class = classes(variant)
    torch.manual_seed(0)
    # Eager attention, because the other implementations ignore some flags.
    theirs = model_class(config_class(**base | flags, attn_implementation="eager"))
    theirs.eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.3)
            elif "norm" in name or ".ln_" in name:
                parameter.normal_(1.0, 0.3)
    config = family.Config.from_hf(theirs.config.to_dict())
    module = family.DecoderWrapper(config)
    tensors = {name: value.numpy() for name, value in theirs.state_dict().items()}
    return theirs, module, parameters(family, module, tensors)


def parameters(family: Any, module: Any, tensors: dict[str, np.ndarray]) -> Any:
    shapes = jax.eval_shape(
        lambda: module.init(
            jax.random.PRNGKey(0),
            jnp.ones((1, 4)),
            jnp.ones((1, 4)),
            enable_dropout=False,
        )
    )["params"]
    return params_from(
        tensors,
        family.key_map(module.config),
        family.IGNORED,
        shapes=shapes,
        source="test",
    )


def forward(
    module: Any,
    params: Any,
    tokens: np.ndarray,
    targets: np.ndarray | None = None,
    enable_dropout: bool = False,
    **call: Any,
) -> jax.Array:
    apply = functools.partial(module.apply, enable_dropout=enable_dropout)
    targets = tokens if targets is None else targets
    return jax.jit(apply)({"params": params}, tokens, targets, **call)


def stepper(module: Any, params: Any) -> Any:
    """Returns a function (variables, token [rows, 1]) -> logits, new variables."""
    return jax.jit(
        lambda variables, token: module.apply(
            {"params": params, **variables}, token, token, enable_dropout=False,
            decode=True, mutable=["cache"],
        )
    )  # fmt: skip


def filled(
    module: Any, variables: Any, tokens: np.ndarray, lengths: Any = None, **call: bool
) -> Any:
    """Returns variables with the cache after a call with all tokens."""
    apply = functools.partial(
        module.apply, enable_dropout=False, mutable=["cache"], **call
    )
    return jax.jit(lambda v: apply(v, tokens, tokens, prefill_lengths=lengths)[1])(
        variables
    )


def draw(rows: int, length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(2, 61, (rows, length)).astype(np.int32)
