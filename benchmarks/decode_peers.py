"""The decoders of other libraries for benchmarks/decode.py, with our weights.

A side is left out, with its reason, if its library or device is missing.
"""

import functools
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import torch
import transformers

from jaxaug.core.errors import UserError
from jaxaug.models.engine import runner
from jaxaug.models.text import in_engine

Program = Callable[[], np.ndarray]


class LeftOut(Exception):
    """A side cannot run here; the message is the reason."""


class Torch:
    """`generate` of HF torch."""

    options: Mapping[str, dict[str, Any]] = {
        "greedy": {"do_sample": False},
        "top_k_top_p": {"do_sample": True, "top_k": 120, "top_p": 0.95},
        "beam": {"do_sample": False, "num_beams": 4},
    }

    def __init__(self, ours: Any, **generate: Any):
        """
        Args:
            ours: the side `decode.Ours`.
            **generate: further arguments of `generate`.
        """
        size = ours.size
        self._on_cpu = jax.default_backend() == "cpu"
        fields: Any = {"tie_word_embeddings": True, "decoder_start_token_id": 0}
        config = transformers.T5Config(
            **fields,
            vocab_size=size.vocab,
            d_model=size.emb,
            d_kv=size.head_dim,
            d_ff=size.mlp,
            num_layers=size.layers,
            num_heads=size.heads,
            dropout_rate=0.0,
            feed_forward_proj="relu",
            eos_token_id=None,
        )
        device = "cpu" if self._on_cpu else "cuda"
        self.model = transformers.T5ForConditionalGeneration(config).eval()
        self.model.load_state_dict(torch_state(ours.params, size.layers))
        self.model.to(device, getattr(torch, size.dtype))
        self.inputs = torch.tensor(ours.inputs, device=device).long()
        self._length, self._generate = size.length, generate

    def program(self, name: str) -> Program:
        """Returns a call with tokens [batch, length] as its result."""

        def generate() -> np.ndarray:
            with torch.inference_mode():
                tokens = self.model.generate(
                    self.inputs,
                    attention_mask=torch.ones_like(self.inputs),
                    min_new_tokens=self._length,
                    max_new_tokens=self._length,
                    **self.options[name],
                    **self._generate,
                )
            return tokens[:, 1:].cpu().numpy()

        return generate


class CompiledTorch(Torch):
    """HF torch with a cache of fixed shape, whose step it compiles."""

    def __init__(self, ours: Any):
        if jax.default_backend() == "cpu":
            raise LeftOut("it compiles steps on accelerators only")
        super().__init__(ours, cache_implementation="static")


class CTranslate2:
    """CTranslate2 on the CPU; EOS has probability 0 until the last token."""

    options: Mapping[str, dict[str, Any]] = {
        "greedy": {},
        "top_k_top_p": {"num": 1, "top_k": 120, "top_p": 0.95},
        "beam": {"num": 4, "beam": True},
    }

    def __init__(self, ours: Any, precision: str):
        if jax.default_backend() != "cpu":
            raise LeftOut("it runs on the CPU here")
        size = ours.size
        with tempfile.TemporaryDirectory() as folder:
            try:
                in_engine.write_folder(
                    folder,
                    ours.module.config,
                    ours.params,
                    end=1,
                    precision=precision,
                )
            except UserError as error:
                raise LeftOut(str(error)) from None
            rules = runner.Rules(ends=(1,), size=size.vocab)
            self._engine = runner.Engine(folder, rules, batch_size=size.batch)
        self._inputs, self._length = ours.inputs.tolist(), size.length

    def program(self, name: str) -> Program:
        """Returns a call with tokens [batch, length] as its result."""
        lengths = {"max_length": self._length, "min_length": self._length}
        search = runner.Search(**lengths, **self.options[name])

        def generate() -> np.ndarray:
            return np.array([one[0].ids for one in self._engine(self._inputs, search)])

        return generate


SIDES: Mapping[str, Callable[[Any], Any]] = {
    "HF torch": Torch,
    "HF torch compiled": CompiledTorch,
    "CTranslate2 float32": functools.partial(CTranslate2, precision="float32"),
    "CTranslate2 int8": functools.partial(CTranslate2, precision="int8"),
}


def torch_state(params: Mapping[str, Any], layers: int) -> dict[str, torch.Tensor]:
    """Returns the parameters of our T5 with HF's names."""
    shared = params["token_embedder"]["embedding"]
    names = ("shared", "encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
    state = {f"{name}.weight": shared for name in names}
    parts = {
        "encoder": (("attention", "SelfAttention"), ("mlp", "DenseReluDense")),
        "decoder": (
            ("self_attention", "SelfAttention"),
            ("encoder_decoder_attention", "EncDecAttention"),
            ("mlp", "DenseReluDense"),
        ),
    }
    kernels = {"query": "q", "key": "k", "value": "v", "out": "o"}
    for stack, sublayers in parts.items():
        ours = params[stack]
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        state[bias] = ours["relpos_bias"]["rel_embedding"].T
        state[f"{stack}.final_layer_norm.weight"] = ours[f"{stack}_norm"]["scale"]
        for block in range(layers):
            layer = ours[f"layers_{block}"]
            for place, (name, theirs) in enumerate(sublayers):
                prefix = f"{stack}.block.{block}.layer.{place}"
                norm = name.replace("encoder_decoder", "cross")
                state[f"{prefix}.layer_norm.weight"] = layer[f"pre_{norm}_layer_norm"][
                    "scale"
                ]
                for kernel, value in layer[name].items():
                    weight = f"{prefix}.{theirs}.{kernels.get(kernel, kernel)}.weight"
                    state[weight] = value["kernel"].T
    return {name: torch.tensor(np.array(value)) for name, value in state.items()}
