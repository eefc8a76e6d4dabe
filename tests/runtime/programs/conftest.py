"""Runs of the programs on the toy model and data of toy_run.py."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import pytest
from t5x import partitioning, train, trainer, utils

HERE = Path(__file__).parent
# Makes the modules of this folder importable, as in programs that tests start.
sys.path.insert(0, str(HERE))

from toy_run import Numbers, train_settings
from trainer_kit import TINY, make_initializer, make_state


@pytest.fixture
def run_train() -> Callable[..., Any]:
    """Returns a call of `train` on `Numbers`: 8 steps, a checkpoint every 4."""

    def run(
        model_dir: Path, *, steps: int = 8, period: int = 4, **overrides: Any
    ) -> Any:
        on_batch = overrides.pop("on_batch", lambda number: None)
        settings = {
            "total_steps": steps,
            "checkpoint_cfg": utils.CheckpointConfig(
                save=utils.SaveCheckpointConfig(period=period)
            ),
            "get_dataset_fn": lambda cfg, shard_id, num_shards, converter: Numbers(
                on_batch=on_batch
            ),
        }
        return train.train(**train_settings(model_dir, **{**settings, **overrides}))

    return run


def program_env(cwd: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment of a program that finds modules in its own folder."""
    env = dict(env or {})
    first = [env.pop("PYTHONPATH")] if "PYTHONPATH" in env else []
    path = os.pathsep.join([*first, str(cwd), str(HERE)])
    return {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", **env}


@pytest.fixture(scope="session")
def here() -> Path:
    """Returns the folder of the toy modules and gin files."""
    return HERE


@pytest.fixture(scope="session")
def start_program(python: str) -> Callable[..., subprocess.Popen]:
    """Starts `python -m t5x.<name> <flags>` in a folder.

    `fresh` starts a new interpreter without preloaded modules.
    """

    def start(
        name: str,
        *flags: str,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable if fresh else python, "-m", f"t5x.{name}", *flags],
            cwd=cwd,
            env=program_env(cwd, env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def run_program(start_program: Callable[..., subprocess.Popen]) -> Callable[..., Any]:
    """Runs a program to its end; returns (exit status, stdout, stderr)."""

    def run(name: str, *flags: str, cwd: Path, **kwargs: Any) -> tuple[int, str, str]:
        with start_program(name, *flags, cwd=cwd, **kwargs) as process:
            out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    return run


@pytest.fixture
def state() -> Any:
    """Returns the train state of a model that compiles quickly."""
    return make_state(TINY, Numbers())


@pytest.fixture
def make_trainer(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes trainers of that model, and closes them after the test."""
    made = []

    def make(
        num_microbatches=None,
        model=TINY,
        cls=trainer.Trainer,
        mutables=None,
        **settings,
    ):
        initializer = make_initializer(TINY, Numbers())
        state = initializer.from_scratch(jax.random.PRNGKey(0))
        made.append(
            cls(
                model=model,
                train_state=state.replace(flax_mutables=mutables)
                if mutables
                else state,
                partitioner=partitioning.PjitPartitioner(num_partitions=1),
                eval_names=["a" * 120, "b"],
                summary_dir=str(tmp_path),
                train_state_axes=initializer.train_state_axes,
                rng=jax.random.PRNGKey(3),
                learning_rate_fn=lambda step: 0.5 * (step + 1.0),
                num_microbatches=num_microbatches,
                **settings,
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()
