"""The plan of docs/launch.md: 1,024 chips, T5 1.1 XL, 100 times SGD.

    python benchmarks/scale.py [--write]
    python benchmarks/scale.py --devices 64 --model 8 --rows 1 --remat full

The first command prints the tables, or writes them between the markers of the page.
They follow from `VALUES` and from `scale_xl.jsonl`. Change a value to plan for another
machine.

The second command prints a line of `scale_xl.jsonl`: the memory per device of a
training step (forward, backward, Adafactor) of T5 1.1 XL, or another size. It simulates
the devices on a CPU and compiles the step for abstract shapes. The arguments (weights
and optimizer state) are exact. The temporary part is an upper bound, because a CPU
computes bfloat16 in float32.
"""

import argparse
import dataclasses
import json
import math
import os
import re
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs/launch.md"
RECORD = Path(__file__).with_name("scale_xl.jsonl")
SIZES = ("small", "base", "large", "xl")
GIN = Path(__file__).parents[1] / "runtime/t5x/examples/t5/t5_1_1"
VALUES = {
    # The plan: TPU v5e in slices of 256, the largest ones, and a batch of 1,024 rows
    # of 1,024 + 256 tokens, 5 passes over 100 times the training set of SGD.
    "chips": 1024,
    "slices": 4,
    "times": 100,
    "passes": 5,
    "rows": 1024,
    "examples": 118_167,  # Training examples of SGD (frames of users), counted.
    # Google's page of the v5e.
    "chips_per_host": 4,
    "peak": 197e12,  # bfloat16 operations a second of a chip.
    "memory": 16e9,  # Bytes of a chip.
    "link": 100e9,  # Bytes a second of a chip in its slice, each way.
    "network": 12.5e9,  # Bytes a second of a host (of 64) between slices.
    # Assumed.
    "price": 1.20,  # Dollars for an hour of a chip, on demand.
    "spot": 0.60,  # The same, spot.
    "utilisation": 0.4,  # Share of the peak that training reaches.
    "host_failure": 2000,  # Hours between failures of a host.
    "spot_loss": 12,  # Hours between losses of a spot slice.
    "stall": 2,  # Seconds for which a save holds training up.
    "start": 600,  # Seconds from a loss to the next step.
}
# T5 1.1 XL, from runtime/t5x/examples/t5/t5_1_1/xl.gin; tokens from configs/runs.
EMB, ATTENTION, MLP, LAYERS, VOCABULARY = 2048, 32 * 64, 5120, 24, 32128
SOURCE_TOKENS, TARGET_TOKENS = 1024, 256
MODEL = 8
GB, HOUR = 1e9, 3600.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """A training step on a mesh.

    Attributes:
        dims: sizes of the network, arguments of `T5Config`.
        data, model: size of the axes of the mesh.
        rows: rows of the batch on each index of the data axis.
        lengths: lengths of inputs and targets in tokens.
        remat: rematerialization in the backward pass: none, minimal, or full.
        spread: whether weights are also sharded over the data axis, like their
            optimizer state.
    """

    dims: dict[str, Any]
    data: int
    model: int
    rows: int = 1
    lengths: tuple[int, int] = (1024, 256)
    remat: str = "none"
    spread: bool = False


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes on each device, and the time of the compilation.

    Attributes:
        parameters: total number of parameters of the network.
        state: bytes of weights and optimizer state, in float32.
        batch: bytes of the batch.
        temporary: upper bound on the bytes of gradients and activations.
        seconds: seconds of tracing and compilation on this machine.
    """

    parameters: int
    state: int
    batch: int
    temporary: int
    seconds: float


def dims_of(size: str) -> dict[str, Any]:
    """Returns the sizes in the gin files of T5 1.1; other sizes override base."""
    dims: dict[str, Any] = {}
    for name in ("base", size):
        text = (GIN / f"{name}.gin").read_text(encoding="utf-8")
        block = text.partition("network.T5Config:\n")[2]
        for key, value in re.findall(r"^    (\w+) = (\d+)$", block, re.MULTILINE):
            dims[key] = int(value)
    return dims


def memory(plan: Plan, devices: Sequence[Any] | None = None) -> Memory:
    """Returns the memory of the compiled training step of a plan.

    Args:
        plan: plan, which needs `data` x `model` devices.
        devices: devices to use; all by default.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np
    from t5x import adafactor, models, partitioning, trainer
    from t5x.checkpoint.state_init import TrainStateInitializer
    from t5x.examples.scalable_t5 import network

    class Partitioner(partitioning.PjitPartitioner):
        """A partitioner on the devices of the plan."""

        mesh = jax.sharding.Mesh(
            np.array(devices or jax.devices()).reshape(plan.data, plan.model),
            ("data", "model"),
        )

    partitioner = Partitioner(
        num_partitions=plan.model,
        logical_axis_rules=[
            *partitioning.standard_logical_axis_rules(
                parameter_partitioning_dims=2 if plan.spread else 1
            )
        ],
    )
    config = network.T5Config(
        **plan.dims,
        mlp_activations=("gelu", "linear"),
        logits_via_embedding=False,
        dropout_rate=0.1,
        dtype="bfloat16",
        remat_policy=plan.remat,
    )
    vocabulary = types.SimpleNamespace(eos_id=1, vocab_size=config.vocab_size)
    model = models.EncoderDecoderModel(
        network.Transformer(config),
        vocabulary,
        vocabulary,
        adafactor.Adafactor(
            0.001, logical_factor_rules=adafactor.standard_logical_factor_rules()
        ),
    )
    inputs, targets = ((plan.rows * plan.data, length) for length in plan.lengths)
    shapes = {
        "encoder_input_tokens": inputs,
        "decoder_input_tokens": targets,
        "decoder_target_tokens": targets,
        "decoder_loss_weights": targets,
    }
    start = time.perf_counter()
    init_fn: Any = model.get_initial_variables
    initializer = TrainStateInitializer(
        optimizer_def=model.optimizer_def,
        init_fn=init_fn,
        input_shapes=shapes,
        input_types=dict.fromkeys(shapes, np.int32),
        partitioner=partitioner,
    )
    state = initializer.global_train_state_shape
    runner = trainer.Trainer(
        model=model,
        train_state=state,
        partitioner=partitioner,
        eval_names=[],
        summary_dir=None,
        train_state_axes=initializer.train_state_axes,
        rng=jax.random.PRNGKey(0),
        learning_rate_fn=lambda step: jnp.float32(1e-4),
        num_microbatches=None,
    )
    batch = {k: jax.ShapeDtypeStruct(shape, np.int32) for k, shape in shapes.items()}
    step: Any = runner._partitioned_train_step
    compiled: Any = partitioner.compile(step, state, batch)
    seconds = time.perf_counter() - start
    found = compiled.memory_analysis()
    of_batch = sum(4 * plan.rows * shape[1] for shape in shapes.values())
    return Memory(
        parameters=sum(x.size for x in jax.tree.leaves(state.params)),
        state=found.argument_size_in_bytes - of_batch,
        batch=of_batch,
        temporary=found.temp_size_in_bytes
        + found.output_size_in_bytes
        - found.alias_size_in_bytes,
        seconds=seconds,
    )


def records() -> list[dict[str, Any]]:
    """Returns the stored outputs of `--devices`."""
    return [json.loads(line) for line in RECORD.read_text().splitlines()]


def parameters() -> int:
    """Returns the number of parameters of XL in the compiled program."""
    return records()[0]["parameters"]


def operations_of_row() -> float:
    """Returns the operations of a training step on one row.

    A weight needs 2 operations forward and 4 backward for each token of its side. Keys
    and values of cross-attention process the tokens of the source. Attention adds two
    products of length x length x width per layer.
    """
    side = 3 * EMB * MLP
    source = LAYERS * (4 * EMB * ATTENTION + side) + LAYERS * 2 * EMB * ATTENTION
    target = LAYERS * (6 * EMB * ATTENTION + side) + EMB * VOCABULARY
    pairs = SOURCE_TOKENS**2 + TARGET_TOKENS**2 + SOURCE_TOKENS * TARGET_TOKENS
    products = LAYERS * 2 * pairs * ATTENTION
    return 6 * (source * SOURCE_TOKENS + target * TARGET_TOKENS + products)


def hosts() -> int:
    return round(VALUES["chips"] / VALUES["chips_per_host"])


def step_seconds(rows: float) -> float:
    """Returns the seconds of arithmetic of a step at the assumed utilization."""
    return (
        rows
        * operations_of_row()
        / (VALUES["chips"] * VALUES["peak"] * VALUES["utilisation"])
    )


def gradient_seconds(model: int) -> tuple[float, float]:
    """Returns (inside a slice, between slices): seconds of ring all-reduces."""
    data = VALUES["chips"] / VALUES["slices"] / model
    inside = 2 * (data - 1) / data * 4 * parameters() / model / VALUES["link"]
    share = 2 * (VALUES["slices"] - 1) / VALUES["slices"] * 4 * parameters()
    between = share / (hosts() / VALUES["slices"]) / VALUES["network"]
    return inside, between


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Returns a table in Markdown."""
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def short(value: float) -> str:
    """Returns a number with three significant digits, and a unit prefix from k on."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scale = 1e3 if prefix == "k" else size
            return f"{value / scale:.3g} {prefix}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def measured() -> str:
    """Returns the table of memory per device in the compiled programs."""
    return table(
        ("mesh", "rows", "remat", "weights over data", "state GB", "temporary GB"),
        (
            (
                found["mesh"],
                found["rows"],
                found["remat"],
                "yes" if found["spread"] else "no",
                f"{found['state'] / GB:.2f}",
                f"{found['temporary'] / GB:.2f}",
            )
            for found in records()
        ),
    )


def sharding() -> str:
    """Returns the table of requirements for each size of the model axis."""

    def line(model: int) -> tuple[Any, ...]:
        data = round(VALUES["chips"] / model)
        inside, between = gradient_seconds(model)
        return (
            f"{data} x {model}",
            f"{4 * parameters() / model / GB:.2f}",
            f"{8 * parameters() / model / VALUES['memory']:.0%}",
            data,
            f"{step_seconds(data):.3f}",
            f"{step_seconds(VALUES['rows']):.3f}",
            f"{inside:.3f}",
            f"{between:.3f}",
        )

    return table(
        (
            "data x model",
            "weights GB a chip",
            "weights and gradients of memory",
            "least rows",
            "s a step at least rows",
            f"s a step at {VALUES['rows']:,.0f} rows",
            "s of gradients in a slice",
            "s between slices",
        ),
        map(line, (1, 2, 4, 8, 16)),
    )


def lost_share(hours: float) -> tuple[float, float]:
    """Returns (s between saves by Young's rule, lost share of time) for a loss rate."""
    between = hours * HOUR
    period = math.sqrt(2 * VALUES["stall"] * between)
    return period, VALUES["stall"] / period + (period / 2 + VALUES["start"]) / between


def costing() -> str:
    steps = VALUES["examples"] * VALUES["times"] * VALUES["passes"] / VALUES["rows"]

    def line(name: str, price: float, hours_between: float) -> tuple[str, ...]:
        period, lost = lost_share(hours_between)
        hours = steps * step_seconds(VALUES["rows"]) / HOUR / (1 - lost)
        dollars = f"{hours * VALUES['chips'] * price:,.0f}"
        return (name, f"{hours:.2f}", dollars, f"{period:.0f}")

    return table(
        ("contract", "hours", "dollars", "s between saves"),
        (
            line("on demand", VALUES["price"], VALUES["host_failure"] / hosts()),
            line("spot", VALUES["spot"], VALUES["spot_loss"] / VALUES["slices"]),
        ),
    )


TABLES: dict[str, Callable[[], str]] = {
    "measured": measured,
    "sharding": sharding,
    "costing": costing,
}
ON_PAGE = ("costing",)


def with_tables(text: str, tables: Mapping[str, str]) -> str:
    """Returns the page with new tables between its markers."""
    for name, content in tables.items():
        begin, end = f"<!-- {name}: scale.py -->\n", "<!-- end -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        if not re.search(pattern, text, re.DOTALL):
            raise SystemExit(f"{PAGE} has no place for the table {name!r}: {begin}")
        made = begin + content + "\n" + end
        text = re.sub(pattern, made.replace("\\", r"\\"), text, flags=re.DOTALL)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into docs/launch.md")
    parser.add_argument("--devices", type=int, help="measure the memory on so many")
    parser.add_argument("--size", choices=SIZES, default="xl")
    parser.add_argument("--model", type=int, default=8, help="size of the model axis")
    parser.add_argument("--rows", type=int, default=1, help="per data index")
    parser.add_argument("--remat", choices=("none", "minimal", "full"), default="none")
    parser.add_argument("--spread", action="store_true", help="weights over data too")
    arguments = parser.parse_args()
    if arguments.devices:
        if arguments.devices % arguments.model:
            parser.error(
                f"--model {arguments.model} does not divide {arguments.devices} devices"
            )
        measure(arguments)
        return
    tables = {name: make() for name, make in TABLES.items()}
    if arguments.write:
        shown = {name: tables[name] for name in ON_PAGE}
        PAGE.write_text(with_tables(PAGE.read_text(), shown))
        return
    for name, content in tables.items():
        print(f"{name}\n\n{content}\n")


def measure(arguments: argparse.Namespace) -> None:
    """Prints the memory per device of a training step as a line of JSON."""
    flag = f"--xla_force_host_platform_device_count={arguments.devices}"
    # JAX reads the flags at the first access to a device, not on import. The program
    # never runs, so the lowest optimization level of machine code suffices.
    os.environ["XLA_FLAGS"] = f"{flag} --xla_backend_optimization_level=0"
    os.environ["JAX_PLATFORMS"] = "cpu"
    plan = Plan(
        dims=dims_of(arguments.size),
        data=arguments.devices // arguments.model,
        model=arguments.model,
        rows=arguments.rows,
        remat=arguments.remat,
        spread=arguments.spread,
    )
    found = dataclasses.asdict(memory(plan))
    about = {"size": arguments.size, "mesh": f"{plan.data} x {plan.model}"}
    about |= {"rows": plan.rows, "remat": plan.remat, "spread": plan.spread}
    print(json.dumps(about | found | {"seconds": round(found["seconds"], 1)}))


if __name__ == "__main__":
    main()
