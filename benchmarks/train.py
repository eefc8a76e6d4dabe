"""Compares training and greedy decoding with HF torch, and divides up a whole run.

    python benchmarks/train.py --shape small --batch 4 --lengths 512 128
    python benchmarks/train.py --shape mini --batch 8 --lengths 160 32 --examples 64
    python benchmarks/train.py --run 300

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

`--examples` also decodes greedily with the weights of that moment, as evaluations do:
random inputs without padding, all targets at full length.

`--run` trains `configs/d3st_aug.gin` for a number of steps, with its evaluation, and
prints the CPU seconds of each part. Work of other threads counts where it happens.
"""

import argparse
import contextlib
import functools
import importlib
import itertools
import multiprocessing
import os
import runpy
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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
        layers: number of layers of the decoder, and of an encoder.
        kv_heads: number of key and value heads.
        tied: whether the output layer shares the embedding.
        encoder_layers: number of layers of the encoder, if it has another one.
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
    encoder_layers: int = 0


SHAPES = {
    "mini": Shape("t5", 3072, 96, 4, 32, 192, 2, 4, tied=True, encoder_layers=4),
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
        layers, positions = shape.layers * stack(length), length
    else:
        # Cross-attention: queries and outputs for targets, keys and values for inputs.
        cross = 2 * shape.emb * wide + 2 * inputs * wide
        layer = stack(targets, cross) + inputs * 2 * shape.emb * wide
        layers = shape.layers * layer
        layers += (shape.encoder_layers or shape.layers) * stack(inputs)
        positions = targets
    logits = positions * shape.emb * shape.vocab
    return 3.0 * 2.0 * rows * (layers + logits)


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
        examples: batch size of decoding; 0 means that nothing is decoded.
    """

    shape: str
    rows: int
    lengths: tuple[int, int]
    dtype: str
    examples: int = 0


def runtime_model(setting: Setting) -> Any:
    """Returns the T5X model of a setting."""
    from t5x import adafactor, decoding, models
    from t5x.examples.t5 import network

    shape = SHAPES[setting.shape]

    class Words:
        # No model output is EOS: decoding yields all tokens.
        eos_id, vocab_size = shape.vocab, shape.vocab

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
        num_encoder_layers=shape.encoder_layers or shape.layers,
        num_decoder_layers=shape.layers,
        mlp_activations=("gelu", "linear"),
        logits_via_embedding=shape.tied,
    )
    greedy = functools.partial(decoding.temperature_sample, temperature=0.0)
    return models.EncoderDecoderModel(
        network.Transformer(t5_config), Words(), Words(), optimizer, decode_fn=greedy
    )


class Work(NamedTuple):
    """The functions of a side.

    Attributes:
        steps: starts a number of steps; on a GPU it returns before they end.
        finish: waits for the steps.
        peak: measures the operations per second of a large matrix product.
        decode: decodes a batch greedily.
        facts: measurements of the start.
    """

    steps: Callable[[int], Any]
    finish: Callable[[], Any]
    peak: Callable[[], float]
    decode: Callable[[], Any]
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

    asked = random_batch(shape, setting.examples, *setting.lengths)
    predict = jax.jit(model.predict_batch)

    def decode() -> Any:
        return jax.block_until_ready(predict(work.train_state.params, asked))

    size = 2048 if jax.default_backend() == "cpu" else 8192
    square = jax.random.normal(rng, (size, size), setting.dtype)
    product = jax.jit(lambda x: x @ x)

    def peak() -> float:
        start = time.perf_counter()
        jax.block_until_ready(product(square))
        return 2.0 * size**3 / (time.perf_counter() - start)

    facts = {"compile": compile_seconds, "device": str(jax.devices()[0])}
    return Work(steps, finish, peak, decode, facts)


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

    asked = random_batch(SHAPES[setting.shape], setting.examples, *setting.lengths)
    length = setting.lengths[1]

    @torch.inference_mode()
    def decode() -> Any:
        inputs = torch.from_numpy(asked["encoder_input_tokens"]).long().to(device)
        return model.generate(
            inputs,
            attention_mask=torch.ones_like(inputs),
            do_sample=False,
            use_cache=True,
            min_new_tokens=length,
            max_new_tokens=length,
        )

    size = 2048 if device == "cpu" else 8192
    # Random numbers, because products of ones run faster than products of data.
    square = torch.randn((size, size), dtype=getattr(torch, setting.dtype)).to(device)

    def peak() -> float:
        start = time.perf_counter()
        square @ square
        finish()
        return 2.0 * size**3 / (time.perf_counter() - start)

    return Work(steps, finish, peak, decode, {"device": device})


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
            num_layers=shape.encoder_layers or shape.layers,
            num_decoder_layers=shape.layers,
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
    - "decode": returns the same of decoding a batch.
    - "peak": returns the operations per second of a large matrix product.
    - "memory": returns the peak memory in bytes.
    """
    steps, finish, peak, decode, facts = SIDES[name](setting)
    start = time.perf_counter()
    steps(1)
    finish()
    if setting.examples:
        decode()
    facts["first_step"] = time.perf_counter() - start
    pipe.send(facts)
    while (word := pipe.recv()) != "end":
        if word == "memory":
            pipe.send(peak_memory(facts["device"]))
        elif word == "peak":
            pipe.send(max(peak() for _ in range(5)))
        else:
            start, before = time.perf_counter(), time.process_time()
            if word == "decode":
                decode()
            else:
                steps(word[1])
                finish()
            spent = time.perf_counter() - start, time.process_time() - before
            number = 1 if word == "decode" else word[1]
            pipe.send(tuple(seconds / number for seconds in spent))


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
        self.decoding: list[float] = []

    def ask(self, word: Any) -> Any:
        self._pipe.send(word)
        return self._pipe.recv()

    def run(self, steps: int) -> None:
        seconds, of_cores = self.ask(("step", steps))
        self.seconds.append(seconds)
        self.of_cores.append(of_cores)

    def decode(self) -> None:
        self.decoding.append(self.ask("decode")[1])

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
    for name, side in sides.items() if setting.examples else ():
        seconds = statistics.median(side.decoding)
        per_round = (b / a for a, b in zip(ours.decoding, side.decoding, strict=True))
        print(
            f"{name:17} decodes {setting.examples / seconds:7.1f} examples/CPU s, "
            f"{statistics.median(per_round):.2f} times the CPU seconds of {base}"
        )


class Parts:
    """CPU seconds of the parts of a program; a part inside another one is its own."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._part, self._since = "imports", 0.0

    @contextlib.contextmanager
    def inside(self, part: str) -> Iterator[None]:
        """Counts CPU seconds for a part."""
        outer = self._part
        self.go_on(part)
        try:
            yield
        finally:
            self.go_on(outer)

    def go_on(self, part: str) -> None:
        """Ends the current part and begins another one."""
        spent = time.process_time()
        before = self.seconds.get(self._part, 0.0)
        self.seconds[self._part] = before + spent - self._since
        self._part, self._since = part, spent

    def time(self, part: str, module: str, path: str) -> None:
        """Counts the calls of a function for a part."""
        *outer, name = path.split(".")
        owner = functools.reduce(getattr, outer, importlib.import_module(module))
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.inside(part):
                return function(*args, **kwargs)

        setattr(owner, name, timed)


RUN = (
    ("training data", "t5x.training.setup", "open_train_data"),
    ("restoring", "t5x.checkpoint.state_init", "create_checkpoint_manager_and_restore"),
    ("compiling the step", "t5x.training.setup", "compile_train_step"),
    ("steps", "t5x.training.loop", "TrainLoop.run"),
    ("saving", "t5x.training.loop", "TrainLoop._save"),
    ("saving", "t5x.training.loop", "TrainLoop._wait_for_saves"),
    ("evaluation: decoding", "t5x.training.loop", "Evaluation.run"),
    ("evaluation: metrics", "tasks.evaluation", "DialogueEvaluator._metrics"),
    ("evaluation: report", "tasks.report_logger", "RobustnessLogger.__call__"),
)


def whole_run(steps: int) -> None:
    """Trains `configs/d3st_aug.gin`, and prints the CPU seconds of its parts."""
    parts = Parts()
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["t5x.train", "--gin_file=configs/d3st_aug.gin"]
        sys.argv += [f"--gin.MODEL_DIR='{folder}/run'", f"--gin.TRAIN_STEPS={steps}"]
        sys.argv.append(f"--gin.EVAL_PERIOD={steps}")
        for part, module, path in RUN:
            parts.time(part, module, path)
        parts.go_on("gin files and others")
        with contextlib.suppress(SystemExit):
            runpy.run_module("t5x.train", run_name="__main__", alter_sys=True)
    parts.go_on("")
    for part, seconds in parts.seconds.items():
        print(f"{part:22} {seconds:7.2f} CPU s")


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
    parser.add_argument("--examples", type=int, default=0, help="inputs to decode")
    parser.add_argument("--run", type=int, help="steps of a run of d3st_aug.gin")
    parser.add_argument(
        "--side",
        choices=SIDES,
        nargs="+",
        default=["runtime", "HF torch"],
        help="the first one is the base of the ratios",
    )
    arguments = parser.parse_args()
    if arguments.run:
        whole_run(arguments.run)
        return
    # JAX would take most of a GPU's memory, and both sides are there at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for shape in arguments.shape:
        lengths = tuple(arguments.lengths)
        setting = Setting(
            shape, arguments.batch, lengths, arguments.dtype, arguments.examples
        )
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
                if arguments.examples:
                    side.decode()
        report(sides, setting)
        for side in sides.values():
            side.end()


if __name__ == "__main__":
    main()
