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
matrix product in the same run (of the faster library). --peak gives the rate of a data
sheet instead, in operations per second. Start-up lasts from the start of the process to
the end of the first step, including compilation.
"""

import argparse
import ast
import multiprocessing
import os
import statistics
import time
from typing import Any

import train_shapes
import train_sides

LONGEST = 300  # Seconds until the first step; torch.compile may take longer.


class Side:
    """A training process and its measurements."""

    def __init__(self, name: str, setting: train_sides.Setting):
        spawn = multiprocessing.get_context("spawn")
        self._pipe, pipe = spawn.Pipe()
        start = time.perf_counter()
        self._process = spawn.Process(
            target=train_sides.serve, args=(name, setting, pipe), daemon=True
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


def report(
    sides: dict[str, Side], setting: train_sides.Setting, peak: float | None
) -> None:
    """Prints a line for each side, and the ratios."""
    shape = train_shapes.SHAPES[setting.shape]
    flops = train_shapes.step_flops(shape, setting.rows, *setting.lengths)
    batch = train_shapes.random_batch(shape, setting.rows, *setting.lengths)
    tokens, positions = train_shapes.real_tokens(batch)
    source = "given"
    if peak is None:
        peak, source = max(s.ask("peak") for s in sides.values()), "of a matrix product"
    print(
        f"{setting.shape}, {setting.rows} rows of {setting.lengths}, {setting.dtype}, "
        f"{flops / 1e9:.0f} GFLOP a step, {peak / 1e9:.0f} GFLOP/s {source}, "
        f"non-padding {tokens / positions:.2f}"
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
        ratios = quotients(theirs.seconds, ours.seconds)
        of_cores = quotients(theirs.of_cores, ours.of_cores)
        memory = theirs.ask("memory") / ours.ask("memory")
        print(
            f"{base} against {name}: {statistics.median(ratios):.2f}x steps/s (rounds "
            f"{ratios[0]:.2f} to {ratios[-1]:.2f}), "
            f"{statistics.median(of_cores):.2f}x less CPU (rounds "
            f"{of_cores[0]:.2f} to {of_cores[-1]:.2f}), {memory:.2f}x less memory",
            flush=True,
        )


def quotients(theirs: list[float], ours: list[float]) -> list[float]:
    """Returns the sorted ratios of all rounds."""
    return sorted(a / b for a, b in zip(theirs, ours, strict=True))


def options(pairs: list[str]) -> dict[str, Any]:
    """Returns fields from `name=value`; values are Python literals or else strings."""
    fields = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            fields[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            fields[name] = value
    return fields


def add_setting(parser: argparse.ArgumentParser) -> None:
    """Adds --shape and the arguments that `setting_of` reads."""
    parser.add_argument(
        "--shape", nargs="+", choices=train_shapes.SHAPES, default=["small"]
    )
    parser.add_argument("--batch", type=int, default=4, help="rows")
    parser.add_argument(
        "--lengths", type=int, nargs=2, default=(512, 128), help="inputs, targets"
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument(
        "--set", nargs="+", default=[], help="name=value fields of our network's config"
    )


def setting_of(arguments: argparse.Namespace, shape: str) -> train_sides.Setting:
    """Returns the setting of the arguments for a shape."""
    return train_sides.Setting(
        shape,
        arguments.batch,
        tuple(arguments.lengths),
        arguments.dtype,
        options(arguments.set),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_setting(parser)
    parser.add_argument("--steps", type=int, default=2, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peak", type=float, help="operations a second of the device")
    parser.add_argument(
        "--side",
        choices=train_sides.SIDES,
        nargs="+",
        default=["runtime", "HF torch"],
        help="the first one is the base of the ratios",
    )
    arguments = parser.parse_args()
    # JAX would take most of a GPU's memory, and both sides are there at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for shape in arguments.shape:
        setting = setting_of(arguments, shape)
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
        report(sides, setting, arguments.peak)
        for side in sides.values():
            side.end()


if __name__ == "__main__":
    main()
