"""Memory per device of T5 training steps on large meshes, from a dry run.

    python benchmarks/scale.py --devices 8 --model 8 --rows 1 --remat full

The program simulates the devices on a CPU. It compiles the training step (forward,
backward, Adafactor) of T5 1.1 XL, or another size, for abstract shapes. It prints the
memory of the compiled program on each device. The arguments (weights and optimizer
state) are exact. The temporary part is an upper bound, because a CPU computes bfloat16
in float32.
"""

import argparse
import dataclasses
import json
import os
import re
import sys
import time
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SIZES = ("small", "base", "large", "xl")
GIN = Path(__file__).parents[1] / "runtime/t5x/examples/t5/t5_1_1"


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="xl")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--model", type=int, default=8, help="size of the model axis")
    parser.add_argument(
        "--rows", type=int, default=1, help="per index of the data axis"
    )
    parser.add_argument("--remat", choices=("none", "minimal", "full"), default="none")
    parser.add_argument("--spread", action="store_true", help="weights over data too")
    arguments = parser.parse_args()
    if arguments.devices % arguments.model:
        parser.error(
            f"--model {arguments.model} does not divide {arguments.devices} devices"
        )
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
    mesh = f"{plan.data} x {plan.model}"
    json.dump(
        {"size": arguments.size, "mesh": mesh, "rows": plan.rows, "remat": plan.remat}
        | {"spread": plan.spread, **found, "seconds": round(found["seconds"], 1)},
        sys.stdout,
    )
    print()


if __name__ == "__main__":
    main()
