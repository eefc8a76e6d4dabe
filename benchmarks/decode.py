"""Compares decoders with `generate` of HF torch: tokens/s, memory, and cost growth.

    python benchmarks/decode.py [--tiny] [--batch 32] [--repeats 3] \\
        [--decoders beam ...]

Both sides have the same weights in one process, on the same CPU or GPU. The model is a
T5-small with random weights (emb 512, 8 heads x 64, mlp 2048 with relu, 6 + 6 layers,
vocabulary 32,128, tied embedding, float32). A batch of 32 inputs of 64 tokens yields 64
tokens each. EOS is disabled, so that both sides do the same work. tokens/s count one
output per input.

The first call of each side compiles and is not counted. The other calls alternate, and
the fastest one counts. `CPU` is the ratio of CPU seconds, which other work on the
machine disturbs less. The share of equal greedy tokens verifies the weights; nearly
tied choices may differ, and so may the tokens after them.

`memory` is XLA's planned memory of the program without the weights. `--growth` decoders
are timed again for other widths k and lengths.
"""

import argparse
import dataclasses
import functools
import resource
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

from jaxaug.models.t5 import SourceEncoderDecoderModel
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
TORCH: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "top_k_top_p": {"do_sample": True, "top_k": 120, "top_p": 0.95},
    "beam": {"do_sample": False, "num_beams": 4},
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

    def network(self) -> network.Transformer:
        return network.Transformer(
            network.T5Config(
                vocab_size=self.vocab,
                dtype=jnp.float32,
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


TINY = Size(4, 8, 8, (2, 3), (4, 8), 256, 32, 2, 16, 64, 2)


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
        run: Any = functools.partial(_fetched, compiled, self.params, self.inputs)
        run.memory = (plan.temp_size_in_bytes + plan.output_size_in_bytes) / 2**20
        return run


def _fetched(program: Callable[..., jax.Array], *arguments: Any) -> np.ndarray:
    return np.asarray(program(*arguments))


class Theirs:
    """The HF torch side, with the same weights."""

    def __init__(self, ours: Ours):
        size = self.size = ours.size
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
        self.device = "cpu" if jax.default_backend() == "cpu" else "cuda"
        self.model = transformers.T5ForConditionalGeneration(config).eval()
        self.model.load_state_dict(torch_state(ours.params, size.layers))
        self.model.to(self.device)
        self.inputs = torch.tensor(ours.inputs, device=self.device).long()

    def program(self, name: str) -> Callable[[], np.ndarray]:
        """Returns a call of `generate`; its result is [batch, 1 + length]."""

        def generate() -> np.ndarray:
            with torch.inference_mode():
                tokens = self.model.generate(
                    self.inputs,
                    attention_mask=torch.ones_like(self.inputs),
                    min_new_tokens=self.size.length,
                    max_new_tokens=self.size.length,
                    **TORCH[name],
                )
            return tokens.cpu().numpy()

        return generate


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


def compare(ours: Ours, names: list[str], repeats: int) -> None:
    """Prints a line for each decoder."""
    size = ours.size
    theirs = Theirs(ours)
    tokens = size.batch * size.length
    beam_seconds, against = None, ""
    for name in names:
        num = DECODERS[name]
        program = ours.program(name, num, size.length)
        sides = [program]
        if name in TORCH:
            sides.append(theirs.program(name))
        (seconds, cpu), *other = best_times(sides, repeats)
        line = (
            f"{name:13} k={num:<2} {tokens / seconds:9.1f} tokens/s   "
            f"memory {program.memory:8.1f} MiB"
        )
        for torch_seconds, torch_cpu in other:
            line += (
                f"   HF torch {tokens / torch_seconds:9.1f} tokens/s   "
                f"{torch_seconds / seconds:5.2f}x   CPU {torch_cpu / cpu:5.2f}x"
            )
        if name == "greedy":
            same = program()[:, 0] == sides[1]()[:, 1:]
            line += f"   equal tokens {same.mean():.3f}"
        if beam_seconds:
            line += f"   {seconds / beam_seconds:5.2f} times as long as {against}"
        if name in ("beam", "beam_wide"):
            beam_seconds, against = seconds, name
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
    parser.add_argument("--batch", type=int, default=Size.batch, help="inputs")
    parser.add_argument("--tiny", action="store_true", help="a size for trying it out")
    parser.add_argument("--decoders", nargs="*", choices=DECODERS, default=[*DECODERS])
    parser.add_argument("--growth", nargs="*", choices=DECODERS, default=list(GROWTH))
    arguments = parser.parse_args()
    print(machine.set_up())
    device = jax.devices()[0]
    print(
        f"{device.platform} {device.device_kind}, torch {torch.get_num_threads()} "
        "threads"
    )
    ours = Ours(TINY if arguments.tiny else Size(batch=arguments.batch))
    compare(ours, arguments.decoders, arguments.repeats)
    growth(ours, arguments.growth, arguments.repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak resident memory of the process, torch included: {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
