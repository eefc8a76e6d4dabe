"""Writes small GGUF files of the Llama family."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

HEADS, KV_HEADS = 4, 2
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ t", "h e", "Ġt he", "Ġ 1", "1 2"]


def byte_tokens() -> list[str]:
    """Returns the 256 characters of byte-level BPE for bytes (Radford et al. 2019)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {byte: chr(byte) for byte in plain}
    rest = [byte for byte in range(256) if byte not in names]
    names |= {byte: chr(256 + place) for place, byte in enumerate(rest)}
    return [names[byte] for byte in range(256)]


def all_tokens() -> list[str]:
    """Returns special tokens, bytes, and results of the merges."""
    return TOKENS + byte_tokens() + [merge.replace(" ", "") for merge in MERGES]


def interleaved(rows: np.ndarray, heads: int) -> np.ndarray:
    """Returns rows in GGUF order: first and second half of each head alternate."""
    halves = rows.reshape(heads, 2, -1, rows.shape[-1])
    return np.stack([halves[:, 0], halves[:, 1]], axis=2).reshape(rows.shape)


def write(
    path: Path,
    type_: Type = Type.F32,
    tied: bool = True,
    change: Callable[[gguf.GGUFWriter], None] = lambda writer: None,
    tokenizer: tuple[str, str] = ("gpt2", "smollm"),
    leave_out: str = "",
    add_bos: bool = False,
    width: int = 64,
    layers: int = 2,
) -> dict[str, np.ndarray]:
    """Writes a random model; returns its tensors by GGUF name, not interleaved."""
    tokens = all_tokens()
    head_dim, hidden = width // HEADS, width * 3 // 2
    shapes = {"token_embd.weight": (len(tokens), width), "output_norm.weight": (width,)}
    if not tied:
        shapes["output.weight"] = (len(tokens), width)
    for i in range(layers):
        shapes |= {
            f"blk.{i}.attn_norm.weight": (width,),
            f"blk.{i}.attn_q.weight": (width, width),
            f"blk.{i}.attn_k.weight": (KV_HEADS * head_dim, width),
            f"blk.{i}.attn_v.weight": (KV_HEADS * head_dim, width),
            f"blk.{i}.attn_output.weight": (width, width),
            f"blk.{i}.ffn_norm.weight": (width,),
            f"blk.{i}.ffn_gate.weight": (hidden, width),
            f"blk.{i}.ffn_up.weight": (hidden, width),
            f"blk.{i}.ffn_down.weight": (width, hidden),
        }
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(128)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1000.0)
    writer.add_rope_dimension_count(head_dim)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model(tokenizer[0])
    writer.add_tokenizer_pre(tokenizer[1])
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(TOKENS) + [1] * (len(tokens) - len(TOKENS)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(add_bos)
    writer.add_chat_template("{{ messages }}")
    change(writer)
    rng = np.random.default_rng(0)
    tensors = {}
    for name, shape in shapes.items():
        values = rng.standard_normal(shape, np.float32) * np.float32(0.3)
        if len(shape) == 1:
            values = values + 1
        tensors[name] = values
        part = name.split(".")[-2]
        if part in ("attn_q", "attn_k"):
            values = interleaved(values, HEADS if part == "attn_q" else KV_HEADS)
        used = type_ if len(shape) == 2 else Type.F32
        if name != leave_out:
            data = gguf.quants.quantize(values, used)
            writer.add_tensor(name, data, raw_dtype=used)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def reference(path: Path) -> Any:
    """Returns the model as transformers reads it (from_pretrained needs accelerate)."""
    import transformers
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = transformers.AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    model = transformers.LlamaForCausalLM(config)
    parsed = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)
    result = model.load_state_dict(parsed["tensors"], strict=False)
    assert not result.unexpected_keys
    assert set(result.missing_keys) <= {"lm_head.weight"}
    if result.missing_keys:
        assert model.lm_head.weight is model.model.embed_tokens.weight
    return model.float().eval()
