"""Steps a second of a small model, by where its batches come from.

    python benchmarks/small_steps.py [--gin_file configs/d3st_aug.gin] [--steps 200]

All ways train the model of the gin file in this process, in turns: with SeqIO's
pipeline (the baseline), from token caches, from token caches with ten steps in a call,
and on one batch that is there already, which shows what no feed can beat. Of the rounds
the fastest counts. CPU time and voluntary context switches are those of all threads.
"""

import argparse
import dataclasses
import itertools
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import gin
import jax
from t5x import utils
from t5x.checkpoint import state_init
from t5x.feed import iterators
from t5x.start import gin_config, machine

ROUNDS = 3
PER_CALL = 10


@dataclasses.dataclass
class Way:
    """A trainer with its batches; `best` are wall, CPU and switches of one step."""

    trainer: Any
    batches: Iterator[Any]
    step: int = 0
    best: tuple[float, ...] = (float("inf"),) * 3

    def run(self, steps: int) -> None:
        """Trains, and keeps the round if it is the fastest."""
        before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        self.trainer.train(self.batches, steps, start_step=self.step).result()
        jax.block_until_ready(self.trainer.train_state)
        wall, after = (
            time.perf_counter() - start,
            resource.getrusage(resource.RUSAGE_SELF),
        )
        self.step += steps
        cpu = sum(
            getattr(after, n) - getattr(before, n) for n in ("ru_utime", "ru_stime")
        )
        switches = after.ru_nvcsw - before.ru_nvcsw
        self.best = min(self.best, (wall / steps, cpu / steps, switches / steps))


def train(
    *,
    model: Any,
    train_dataset_cfg: Any,
    partitioner: Any,
    trainer_cls: Callable[..., Any],
    get_dataset_fn: Callable[..., Any],
    **others: Any,
) -> None:
    """Takes what the gin file gives to `train_script.train`, and measures."""
    del others
    steps = OPTIONS.steps

    def feed(get_dataset: Callable[..., Any]) -> Any:
        made = get_dataset(train_dataset_cfg, 0, 1, model.FEATURE_CONVERTER_CLS)
        return iterators.prepare_train_iter(
            made, checkpoint_cfg=None, partitioner=partitioner, data_layout=None
        )

    tokens = feed(get_dataset_fn)
    initializer = state_init.TrainStateInitializer(
        model.optimizer_def,
        model.get_initial_variables,
        {name: spec.shape for name, spec in tokens.element_spec.items()},
        partitioner,
        {name: spec.dtype for name, spec in tokens.element_spec.items()},
    )

    def way(batches: Iterator[Any], count: int) -> Way:
        trainer = trainer_cls(
            model=model,
            train_state=initializer.from_scratch(jax.random.PRNGKey(0)),
            partitioner=partitioner,
            eval_names=[],
            summary_dir=None,
            train_state_axes=initializer.train_state_axes,
            rng=jax.random.PRNGKey(1),
        )
        trainer.steps_per_call = count
        return Way(trainer, batches)

    same = itertools.repeat(tokens.peek())
    ways = {
        "tf.data": way(feed(utils.get_dataset), 1),
        "token caches": way(tokens, 1),
        f"token caches, {PER_CALL} in a call": way(feed(get_dataset_fn), PER_CALL),
        "one batch": way(same, 1),
        f"one batch, {PER_CALL} in a call": way(same, PER_CALL),
    }
    for each in ways.values():
        each.run(2 * PER_CALL)  # Compiles.
        each.best = Way.best
    for _ in range(ROUNDS):
        for each in ways.values():
            each.run(steps)
    base = ways["tf.data"].best[0]
    print(f"{'':28} {'steps/s':>8} {'ratio':>7} {'CPU ms':>7} {'switches a step':>16}")
    for name, each in ways.items():
        wall, cpu, switches = each.best
        print(
            f"{name:28} {1 / wall:8.1f} {base / wall:6.2f}x {1000 * cpu:7.1f} "
            f"{switches:16.0f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gin_file", default="configs/d3st_aug.gin")
    parser.add_argument("--steps", type=int, default=200)
    OPTIONS = parser.parse_args()
    print(machine.set_up())
    configured = gin.configurable(train)
    gin_config.parse_gin_flags(["."], [OPTIONS.gin_file], [])
    configured()
