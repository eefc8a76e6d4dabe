"""Compares training steps with HF torch: speed, utilization, memory, and start-up.

    python benchmarks/train.py --shape small --batch 4 --lengths 512 128

All sides train the same shape on the same random batch without padding (forward,
backward, Adafactor with factored moments; no dropout). "HF torch tuned" has PyTorch's
attention and fused AdamW, "HF torch compiled" also `torch.compile`; a side without a
first step after 5 minutes is left out.

Each side is a separate process on the same device. Rounds of steps alternate, and the
ratio is the median over the rounds, so that other work on the machine affects all
sides. The steps of a round run without waits, as in a real run. Our side is the step of
`t5x.trainer.Trainer` with its metrics.

Utilization is the rate of the step's matrix products, divided by the rate of a large
matrix product in the same run (of the faster library). Start-up lasts from the start of
the process to the end of the first step, including compilation.
"""

import argparse
import functools
import itertools
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LONGEST = 300  # Seconds until the first step; torch.compile may take longer.
LEARNING_RATE = 1e-3


class Shape(NamedTuple):
    """Sizes of a network.

    Attributes:
        family: "t5" (encoder-decoder, T5 v1.1) or "llama" (decoder-only).
        vocab: size of the vocabulary.
        emb: width of the embedding.
        heads: number of query heads.
        head_dim: size of a head.
        mlp: width of the gated MLP.
        layers: number of layers of each stack.
        kv_heads: number of key and value heads.
        tied: whether the output layer shares the embedding.
    """

    family: str
    vocab: int
    emb: int
    heads: int
    head_dim: int
    mlp: int
    layers: int
    kv_heads: int
    tied: bool = False


SHAPES = {
    "tiny": Shape("t5", 8192, 256, 4, 64, 512, 4, 4),
    "small": Shape("t5", 32128, 512, 6, 64, 1024, 8, 6),
    "base": Shape("t5", 32128, 768, 12, 64, 2048, 12, 12),
    "smollm2": Shape("llama", 49152, 576, 9, 64, 1536, 30, 3, tied=True),
}


def step_flops(shape: Shape, rows: int, inputs: int, targets: int) -> float:
    """Returns the FLOPs of a training step: three times a forward pass.

    Matrix products only, a multiply-add counts as two. Padding counts, and so do the
    masked halves of causal attention and the logits of positions without a weight,
    which HF torch computes; ours leaves them out on a CPU.

    Args:
        shape: shape of the network.
        rows: batch size.
        inputs: length of the inputs.
        targets: length of the targets; decoder-only networks read both in one row.
    """
    wide = shape.heads * shape.head_dim
    narrow = shape.kv_heads * shape.head_dim
    mlp = 3 * shape.emb * shape.mlp
    projections = 2 * shape.emb * (wide + narrow)

    def stack(length: int, extra: int = 0) -> int:
        return length * (projections + mlp + extra + 2 * length * wide)

    if shape.family == "llama":
        length = inputs + targets
        layer, positions = stack(length), length
    else:
        # Cross-attention: queries and outputs for targets, keys and values for inputs.
        cross = 2 * shape.emb * wide + 2 * inputs * wide
        layer = stack(inputs) + stack(targets, cross) + inputs * 2 * shape.emb * wide
        positions = targets
    logits = positions * shape.emb * shape.vocab
    return 3.0 * 2.0 * rows * (shape.layers * layer + logits)


def random_batch(
    shape: Shape, rows: int, inputs: int, targets: int
) -> dict[str, np.ndarray]:
    """Returns a batch of T5X features with uniform random tokens, without padding."""
    rng = np.random.default_rng(0)
    if shape.family == "llama":
        tokens = rng.integers(2, shape.vocab, (rows, inputs + targets), dtype=np.int32)
        weights = np.zeros(tokens.shape, np.int32)
        weights[:, inputs:] = 1
        shifted = np.pad(tokens[:, :-1], ((0, 0), (1, 0)))
        return {
            "decoder_input_tokens": shifted,
            "decoder_target_tokens": tokens,
            "decoder_loss_weights": weights,
        }
    source = rng.integers(2, shape.vocab, (rows, inputs), dtype=np.int32)
    target = rng.integers(2, shape.vocab, (rows, targets), dtype=np.int32)
    return {
        "encoder_input_tokens": source,
        "decoder_input_tokens": np.pad(target[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": target,
        "decoder_loss_weights": np.ones_like(target),
    }


class Setting(NamedTuple):
    """The training task of both sides.

    Attributes:
        shape: key of `SHAPES`.
        rows: batch size.
        lengths: lengths of inputs and targets.
        dtype: type of matrix products, "float32" or "bfloat16"; parameters are float32.
    """

    shape: str
    rows: int
    lengths: tuple[int, int]
    dtype: str


def runtime_model(setting: Setting) -> Any:
    """Returns the T5X model of a setting."""
    from t5x import adafactor, models
    from t5x.examples.t5 import network

    class Words:
        eos_id, vocab_size = 1, SHAPES[setting.shape].vocab

    shape = SHAPES[setting.shape]
    optimizer = adafactor.Adafactor(
        LEARNING_RATE,
        logical_factor_rules=adafactor.standard_logical_factor_rules(),
    )
    sizes: dict[str, Any] = {
        "vocab_size": shape.vocab,
        "emb_dim": shape.emb,
        "num_heads": shape.heads,
        "head_dim": shape.head_dim,
        "mlp_dim": shape.mlp,
        "dtype": setting.dtype,
        "dropout_rate": 0.0,
    }
    if shape.family == "llama":
        from jaxaug.models import llama

        config = llama.Config(
            **sizes,
            num_layers=shape.layers,
            num_kv_heads=shape.kv_heads,
            tie_embeddings=shape.tied,
        )
        return models.DecoderOnlyModel(llama.DecoderWrapper(config), Words(), optimizer)
    t5_config = network.T5Config(
        **sizes,
        num_encoder_layers=shape.layers,
        num_decoder_layers=shape.layers,
        mlp_activations=("gelu", "linear"),
        logits_via_embedding=shape.tied,
    )
    return models.EncoderDecoderModel(
        network.Transformer(t5_config), Words(), Words(), optimizer
    )


class Work(NamedTuple):
    """The functions of a side.

    Attributes:
        steps: starts a number of steps; on a GPU it returns before they end.
        finish: waits for the steps.
        peak: measures the operations per second of a large matrix product.
        facts: measurements of the start.
    """

    steps: Callable[[int], Any]
    finish: Callable[[], Any]
    peak: Callable[[], float]
    facts: dict[str, Any]


def runtime_side(setting: Setting) -> Work:
    """Returns the side with `t5x.trainer.Trainer`."""
    import jax
    import jax.numpy as jnp
    from t5x import partitioning, trainer, utils
    from t5x.start import machine

    # As the programs do; compiled programs are not kept, as compiling is measured.
    machine.set_up(compilation_cache="none")
    shape = SHAPES[setting.shape]
    batch: Any = random_batch(shape, setting.rows, *setting.lengths)
    model = runtime_model(setting)
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    initializer = utils.TrainStateInitializer(
        optimizer_def=model.optimizer_def,
        init_fn=model.get_initial_variables,
        input_shapes={name: array.shape for name, array in batch.items()},
        partitioner=partitioner,
    )
    rng = jax.random.PRNGKey(0)
    work = trainer.Trainer(
        model=model,
        train_state=initializer.from_scratch(rng),
        partitioner=partitioner,
        eval_names=[],
        summary_dir=None,
        train_state_axes=initializer.train_state_axes,
        rng=rng,
        learning_rate_fn=lambda step: jnp.float32(LEARNING_RATE),
        num_microbatches=None,
    )
    batch = {name: jnp.asarray(array) for name, array in batch.items()}
    start = time.perf_counter()
    work.compile_train(batch)
    compile_seconds = time.perf_counter() - start

    def steps(number: int) -> Any:
        # One call, as in a run: each call asks for the number of the last step.
        return work.train(itertools.repeat(batch), number)

    def finish() -> Any:
        return jax.block_until_ready(work.train_state)

    size = 2048 if jax.default_backend() == "cpu" else 8192
    square = jax.random.normal(rng, (size, size), setting.dtype)
    product = jax.jit(lambda x: x @ x)

    def peak() -> float:
        start = time.perf_counter()
        jax.block_until_ready(product(square))
        return 2.0 * size**3 / (time.perf_counter() - start)

    facts = {"compile": compile_seconds, "device": str(jax.devices()[0])}
    return Work(steps, finish, peak, facts)


def torch_side(
    setting: Setting, is_tuned: bool = False, is_compiled: bool = False
) -> Work:
    """Returns the side with Hugging Face's model of the same shape.

    Args:
        setting: the training task.
        is_tuned: whether to use PyTorch's attention (sdpa) and fused AdamW instead of
            the model's default attention and Adafactor.
        is_compiled: whether `torch.compile` compiles the model.
    """
    import torch

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = _torch_model(setting).to(device)
    arrays = random_batch(SHAPES[setting.shape], setting.rows, *setting.lengths)
    tokens = {k: torch.from_numpy(v).long().to(device) for k, v in arrays.items()}
    labels = tokens["decoder_target_tokens"]
    if "encoder_input_tokens" in tokens:
        features = {"input_ids": tokens["encoder_input_tokens"], "labels": labels}
    else:
        counted = torch.where(tokens["decoder_loss_weights"] > 0, labels, -100)
        features = {"input_ids": labels, "labels": counted}
    optimizer = _torch_optimizer(model, is_tuned)
    if is_tuned:
        model.set_attn_implementation("sdpa")
    if is_compiled:
        model = torch.compile(model)

    def finish() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def steps(number: int) -> Any:
        for _ in range(number):
            optimizer.zero_grad()
            with torch.autocast(
                device, torch.bfloat16, enabled=setting.dtype == "bfloat16"
            ):
                loss = model(**features).loss
            loss.backward()
            optimizer.step()

    size = 2048 if device == "cpu" else 8192
    # Random numbers, because products of ones run faster than products of data.
    square = torch.randn((size, size), dtype=getattr(torch, setting.dtype)).to(device)

    def peak() -> float:
        start = time.perf_counter()
        square @ square
        finish()
        return 2.0 * size**3 / (time.perf_counter() - start)

    return Work(steps, finish, peak, {"device": device})


def _torch_optimizer(model: Any, is_tuned: bool) -> Any:
    import torch
    import transformers

    if is_tuned:
        return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    return transformers.Adafactor(
        model.parameters(), lr=LEARNING_RATE, relative_step=False, scale_parameter=True
    )


def _torch_model(setting: Setting) -> Any:
    import transformers

    shape = SHAPES[setting.shape]
    if shape.family == "llama":
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=shape.vocab,
                hidden_size=shape.emb,
                intermediate_size=shape.mlp,
                num_hidden_layers=shape.layers,
                num_attention_heads=shape.heads,
                num_key_value_heads=shape.kv_heads,
                head_dim=shape.head_dim,
                tie_word_embeddings=shape.tied,
                use_cache=False,
            )
        )
    fields: Any = {"tie_word_embeddings": shape.tied, "decoder_start_token_id": 0}
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=shape.vocab,
            d_model=shape.emb,
            d_kv=shape.head_dim,
            d_ff=shape.mlp,
            num_layers=shape.layers,
            num_heads=shape.heads,
            dropout_rate=0.0,
            feed_forward_proj="gated-gelu",
            use_cache=False,
            **fields,
        )
    )


SIDES: dict[str, Callable[[Setting], Work]] = {
    "runtime": runtime_side,
    "HF torch": torch_side,
    "HF torch tuned": functools.partial(torch_side, is_tuned=True),
    "HF torch compiled": functools.partial(torch_side, is_tuned=True, is_compiled=True),
}


def serve(name: str, setting: Setting, pipe: Connection) -> None:
    """Builds a side and answers until the word "end".

    The requests are:

    - ("step", n): returns the wall time and the CPU time of a step in seconds.
    - "peak": returns the operations per second of a large matrix product.
    - "memory": returns the peak memory in bytes.
    """
    steps, finish, peak, facts = SIDES[name](setting)
    start = time.perf_counter()
    steps(1)
    finish()
    facts["first_step"] = time.perf_counter() - start
    pipe.send(facts)
    while (word := pipe.recv()) != "end":
        if word == "memory":
            pipe.send(peak_memory(facts["device"]))
        elif word == "peak":
            pipe.send(max(peak() for _ in range(5)))
        else:
            start, before = time.perf_counter(), time.process_time()
            steps(word[1])
            finish()
            spent = time.perf_counter() - start, time.process_time() - before
            pipe.send(tuple(seconds / word[1] for seconds in spent))


def peak_memory(device: str) -> int:
    """Returns the peak bytes of the device, or on CPU of this process."""
    if "cuda" not in device.lower():
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    import jax

    return jax.devices()[0].memory_stats()["peak_bytes_in_use"]


class Side:
    """A training process and its measurements."""

    def __init__(self, name: str, setting: Setting):
        spawn = multiprocessing.get_context("spawn")
        self._pipe, pipe = spawn.Pipe()
        start = time.perf_counter()
        self._process = spawn.Process(
            target=serve, args=(name, setting, pipe), daemon=True
        )
        self._process.start()
        # Else a process that fails would be waited for.
        pipe.close()
        if not self._pipe.poll(LONGEST):
            self._process.terminate()
            raise TimeoutError(f"{name}: no step in {LONGEST} s; left out")
        self.facts = self._pipe.recv()
        self.start_up = time.perf_counter() - start
        self.seconds: list[float] = []
        self.of_cores: list[float] = []

    def ask(self, word: Any) -> Any:
        self._pipe.send(word)
        return self._pipe.recv()

    def run(self, steps: int) -> None:
        seconds, of_cores = self.ask(("step", steps))
        self.seconds.append(seconds)
        self.of_cores.append(of_cores)

    def end(self) -> None:
        self._pipe.send("end")
        self._process.join()


def report(sides: dict[str, Side], setting: Setting) -> None:
    """Prints a line for each side, and the ratios."""
    shape = SHAPES[setting.shape]
    flops = step_flops(shape, setting.rows, *setting.lengths)
    tokens = setting.rows * sum(setting.lengths)
    peak = max(side.ask("peak") for side in sides.values())
    print(
        f"{setting.shape}, {setting.rows} rows of {setting.lengths}, {setting.dtype}, "
        f"{flops / 1e9:.0f} GFLOP a step, {peak / 1e9:.0f} GFLOP/s of a matrix product"
    )
    for name, side in sides.items():
        seconds = statistics.median(side.seconds)
        # Of torch what its first step takes longer, which may be nothing.
        more = max(0.0, side.facts["first_step"] - seconds)
        compiling = side.facts.get("compile", more)
        print(
            f"{name:17} {1 / seconds:7.3f} steps/s {tokens / seconds:8.0f} tokens/s  "
            f"utilisation {100 * flops / seconds / peak:5.1f}%  "
            f"CPU {statistics.median(side.of_cores):6.2f} s a step  "
            f"memory {side.ask('memory') / 2**30:5.2f} GiB  "
            f"compile {compiling:5.1f} s  start-up {side.start_up:5.1f} s"
        )
    (base, ours), *others = sides.items()
    for name, theirs in others:
        names = ("seconds", "of_cores")
        pairs = [(getattr(theirs, name), getattr(ours, name)) for name in names]
        ratios, of_cores = (
            sorted(a / b for a, b in zip(*pair, strict=True)) for pair in pairs
        )
        memory = theirs.ask("memory") / ours.ask("memory")
        print(
            f"{base} against {name}: {statistics.median(ratios):.2f}x steps/s (rounds "
            f"{ratios[0]:.2f} to {ratios[-1]:.2f}), "
            f"{statistics.median(of_cores):.2f}x less CPU (rounds "
            f"{of_cores[0]:.2f} to {of_cores[-1]:.2f}), {memory:.2f}x less memory",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=["small"])
    parser.add_argument("--batch", type=int, default=4, help="rows")
    parser.add_argument(
        "--lengths", type=int, nargs=2, default=(512, 128), help="inputs, targets"
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--steps", type=int, default=2, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--side",
        choices=SIDES,
        nargs="+",
        default=["runtime", "HF torch"],
        help="the first one is the base of the ratios",
    )
    arguments = parser.parse_args()
    # JAX would take most of a GPU's memory, and both sides are there at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for shape in arguments.shape:
        lengths = tuple(arguments.lengths)
        setting = Setting(shape, arguments.batch, lengths, arguments.dtype)
        sides = {}
        for name in arguments.side:
            try:
                sides[name] = Side(name, setting)
            except TimeoutError as error:
                print(error, flush=True)
                continue
            print(f"{name}: first step after {sides[name].start_up:.1f} s", flush=True)
        if not sides:
            continue
        for _ in range(arguments.rounds):
            for side in sides.values():
                side.run(arguments.steps)
        report(sides, setting)
        for side in sides.values():
            side.end()


if __name__ == "__main__":
    main()
