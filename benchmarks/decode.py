"""Compares decoders with other libraries: tokens/s, memory, and cost growth.

    python benchmarks/decode.py [--shape small] [--dtype float32] [--batch 32] \\
        [--repeats 3] [--decoders beam ...] [--sides "CTranslate2 int8" ...]

All sides have the same weights in one process, on the same CPU or GPU. A side is left
out, with its reason, if its library or device is missing. The model is a T5 with random
weights: `small` has emb 512, 8 heads x 64, mlp 2048, and 6 + 6 layers; `base` has 768,
12 x 64, 3072, and 12 + 12. Both have relu, a tied embedding, and 32,128 words. A batch
of 32 inputs of 64 tokens yields 64 tokens each. EOS is disabled, so that all sides do
the same work. tokens/s count one output per input.

The first call of each side compiles and is not counted. The other calls alternate, and
the fastest one counts. A ratio is the time of another side divided by ours, `CPU` the
same for CPU seconds, which other work on the machine disturbs less. The share of equal
greedy tokens verifies the weights; nearly tied choices may differ, and so may the
tokens after them.

`memory` is XLA's planned memory of the program without the weights. `--growth` decoders
are timed again for other widths k and lengths.
"""

import argparse
import dataclasses
import functools
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers
from t5x import models
from t5x.examples.t5 import network
from t5x.start import machine

from jaxaug.core.errors import UserError
from jaxaug.models.engine import runner
from jaxaug.models.t5 import SourceEncoderDecoderModel
from jaxaug.models.text import in_engine
from jaxaug.paraphrase import samplers

# Sampler -> number of outputs per input.
DECODERS = {
    "greedy": 1,
    "sampling": 1,
    "top_k_top_p": 1,
    "bottom_k": 1,
    "beam": 4,
    "diverse_beam": 4,
    "dips": 4,
    "dpp": 4,
    "ssr": 4,
    "beam_wide": 52,
    "dips_final": 4,
}
# Samplers without default options. `dips_final` searches with the 52 beams of
# `beam_wide` and selects four finished hypotheses.
OTHERS = {
    "beam_wide": ("beam", {}),
    "dips": ("dips", {"mode": "step"}),
    "dips_final": ("dips", {"mode": "final"}),
}
GROWTH = ("beam", "dips")


@dataclasses.dataclass(frozen=True)
class Size:
    """Shape of the model and of the work."""

    batch: int = 32
    inputs: int = 64
    length: int = 64
    widths: tuple[int, ...] = (2, 4, 8)
    lengths: tuple[int, ...] = (16, 32, 64)
    vocab: int = 32128
    emb: int = 512
    heads: int = 8
    head_dim: int = 64
    mlp: int = 2048
    layers: int = 6
    dtype: str = "float32"

    def network(self) -> network.Transformer:
        return network.Transformer(
            network.T5Config(
                vocab_size=self.vocab,
                dtype=self.dtype,
                emb_dim=self.emb,
                num_heads=self.heads,
                num_encoder_layers=self.layers,
                num_decoder_layers=self.layers,
                head_dim=self.head_dim,
                mlp_dim=self.mlp,
                mlp_activations=("relu",),
                dropout_rate=0.0,
                logits_via_embedding=True,
            )
        )


SHAPES = {
    "tiny": Size(4, 8, 8, (2, 3), (4, 8), 256, 32, 2, 16, 64, 2),
    "small": Size(),
    "base": Size(emb=768, heads=12, mlp=3072, layers=12),
}


@dataclasses.dataclass(frozen=True)
class EndlessWords:
    """A vocabulary whose EOS id is outside of the model's vocabulary."""

    vocab_size: int

    @property
    def eos_id(self) -> int:
        return self.vocab_size + 1


class Ours:
    """The JAX side."""

    def __init__(self, size: Size):
        self.size = size
        self.module = size.network()
        self.words = EndlessWords(size.vocab)
        names = ("encoder_input_tokens", "decoder_input_tokens")
        shapes = dict.fromkeys((*names, "decoder_target_tokens"), (1, 8))
        plain = models.EncoderDecoderModel(self.module, self.words, self.words, None)
        self.params = plain.get_initial_variables(jax.random.PRNGKey(0), shapes)[
            "params"
        ]
        rng = np.random.default_rng(0)
        self.inputs = rng.integers(2, size.vocab, (size.batch, size.inputs), np.int32)

    def program(self, name: str, num: int, length: int) -> Any:
        """Returns a compiled decoder; a call returns tokens [batch, num, length].

        Its attribute `memory` is the memory of the program without weights, in MiB.
        """
        name, options = OTHERS.get(name, (name, {}))
        sampler = samplers.find(name)
        model = SourceEncoderDecoderModel(
            self.module,
            self.words,
            self.words,
            None,
            decode_fn=sampler.build(num, sampler.complete(options)),
        )

        @jax.jit
        def decode(params: Any, inputs: jax.Array) -> jax.Array:
            width = jnp.zeros((inputs.shape[0], length), jnp.int32)
            batch = {"encoder_input_tokens": inputs, "decoder_input_tokens": width}
            return model.predict_batch_with_aux(
                params,
                batch,
                rng=jax.random.PRNGKey(0),
                num_decodes=num,
                return_all_decodes=True,
            )[0]

        compiled = decode.lower(self.params, self.inputs).compile()
        plan: Any = compiled.memory_analysis()
        run: Any = lambda: np.asarray(compiled(self.params, self.inputs))
        run.memory = (plan.temp_size_in_bytes + plan.output_size_in_bytes) / 2**20
        return run


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

    def program(self, name: str) -> Callable[[], np.ndarray]:
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

    def program(self, name: str) -> Callable[[], np.ndarray]:
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


def best_times(
    functions: Sequence[Callable[[], object]], repeats: int
) -> list[tuple[float, float]]:
    """Returns (seconds, CPU seconds) of the fastest of `repeats` calls of each.

    A first call of each warms up.
    """
    times: list[list[tuple[float, float]]] = [[] for _ in functions]
    for _ in range(repeats + 1):
        for function, found in zip(functions, times, strict=True):
            start, cpu = time.perf_counter(), time.process_time()
            function()
            found.append((time.perf_counter() - start, time.process_time() - cpu))
    best = (zip(*found[1:], strict=True) for found in times)
    return [(min(seconds), min(cpu)) for seconds, cpu in best]


def compare(ours: Ours, names: list[str], sides: list[str], repeats: int) -> None:
    """Prints a line for each decoder, and one below it for each other side."""
    size = ours.size
    others = {}
    for side in sides:
        try:
            others[side] = SIDES[side](ours)
        except LeftOut as reason:
            print(f"left out: {side}: {reason}")
    tokens = size.batch * size.length
    beam_seconds, against = None, ""
    for name in names:
        num = DECODERS[name]
        program = ours.program(name, num, size.length)
        theirs = {
            side: other.program(name)
            for side, other in others.items()
            if name in other.options
        }
        (seconds, cpu), *times = best_times([program, *theirs.values()], repeats)
        line = (
            f"{name:13} k={num:<2} {tokens / seconds:9.1f} tokens/s   "
            f"memory {program.memory:8.1f} MiB"
        )
        if beam_seconds:
            line += f"   {seconds / beam_seconds:5.2f} times as long as {against}"
        if name in ("beam", "beam_wide"):
            beam_seconds, against = seconds, name
        print(line, flush=True)
        for (side, decode), (other, other_cpu) in zip(
            theirs.items(), times, strict=True
        ):
            line = (
                f"  {side:19} {tokens / other:8.1f} tokens/s   "
                f"{other / seconds:5.2f}x   CPU {other_cpu / cpu:5.2f}x"
            )
            if name == "greedy":
                equal = (program()[:, 0] == decode()).mean()
                line += f"   equal tokens {equal:.3f}"
            print(line, flush=True)


def growth(ours: Ours, names: list[str], repeats: int) -> None:
    """Prints seconds of a batch by width and by length."""
    size = ours.size
    work = [("k", k, k, size.length) for k in size.widths]
    work += [("length", n, 4, n) for n in size.lengths]
    for name in names:
        for what, value, num, length in work:
            program = ours.program(name, num, length)
            ((seconds, _),) = best_times([program], repeats)
            print(
                f"{name:13} {what:>6} {value:<3} {seconds:8.3f} s   "
                f"memory {program.memory:8.1f} MiB",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, help="inputs; default: 32, 4 for tiny")
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--decoders", nargs="*", choices=DECODERS, default=[*DECODERS])
    every = list(SIDES)
    parser.add_argument("--sides", nargs="*", choices=every, default=every)
    parser.add_argument("--growth", nargs="*", choices=DECODERS, default=list(GROWTH))
    arguments = parser.parse_args()
    print(machine.set_up())
    device = jax.devices()[0]
    print(
        f"{device.platform} {device.device_kind}, torch {torch.get_num_threads()} "
        "threads"
    )
    size = dataclasses.replace(SHAPES[arguments.shape], dtype=arguments.dtype)
    ours = Ours(dataclasses.replace(size, batch=arguments.batch or size.batch))
    compare(ours, arguments.decoders, arguments.sides, arguments.repeats)
    growth(ours, arguments.growth, arguments.repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak resident memory of the process, torch included: {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
