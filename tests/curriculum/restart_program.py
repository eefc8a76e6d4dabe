"""Trains with a cyclic mixture, once with interruptions and once without.

    python restart_program.py RANK COUNT PORT FOLDER PACK SHARDS STOPS

STOPS is JSON, step -> "kill" (an exception; training restarts in the same process) or
"terminate" (SIGTERM; the program ends with status 3 and must be restarted).
`FOLDER/{stopped,straight}.<rank>.jsonl` get a line [step, rows] for each used batch.
Rows hold pairs of level + 1 and the number of the example.
"""

import functools
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import seqio
from t5x import train, trainer, utils
from t5x.feed.shards import local_rows
from t5x.training import learning_rate

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime" / "programs"))

from toy_run import TinyModel, TinyNetwork, train_settings

from jaxaug.curriculum import mixture, schedule
from jaxaug.feed import sets
from jaxaug.feed.tokens import collected
from tasks import token_feed

STAGES = schedule.cyclic(4, levels=2, original_fraction=0.25)
ROWS = 4
EXAMPLES = 30


class Killed(Exception):
    """The exception that interrupts a run at a random point."""


class Model(TinyModel):
    module = TinyNetwork(vocab_size=EXAMPLES + 1)
    FEATURE_CONVERTER_CLS = seqio.EncDecFeatureConverter


class Recording(trainer.Trainer):
    """Records the batch of each step, and interrupts the run at given steps."""

    def __init__(self, *args: Any, notes: Path, stops: dict[int, str], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._notes, self._stops = notes, stops

    def train(self, batch_iter: Any, num_steps: int, start_step: int = 0) -> Any:
        return super().train(
            self._noted(batch_iter, start_step), num_steps, start_step=start_step
        )

    def _noted(self, batches: Iterator, start: int) -> Iterator:
        pause = 0.0
        for step, batch in enumerate(batches, start):
            rows = local_rows(batch["encoder_input_tokens"])
            with self._notes.open("a") as file:
                file.write(json.dumps([step, rows.tolist()]) + "\n")
            stop = self._stops.pop(step, "")
            if stop == "kill":
                raise Killed
            if stop == "terminate":
                pause = 0.5  # The processes need a moment to agree on a step.
                if jax.process_index() == 0:  # Process 0 tells the others.
                    os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(pause)
            yield batch


class Numbers(sets.Task):
    """Example i of a level has the ids [level + 1, i + 1]."""

    def token_cache(self, split: str) -> Any:
        level = int(self.name.removeprefix("level"))
        rows = [([level + 1, i + 1], [level + 1, i + 1]) for i in range(EXAMPLES)]
        return collected(f"{self.name}-{split}", rows, ("inputs", "targets"))

    def fields(self, split: str) -> Any:
        raise NotImplementedError


def register() -> None:
    words = SimpleNamespace(eos_id=1, unk_id=None)
    for level in range(STAGES.levels + 1):
        task = Numbers(f"level{level}", ["train"], words)
        task.output_features = dict.fromkeys(
            ("inputs", "targets"), sets.Feature(words, add_eos=False)
        )
        sets.add(task)


def run(
    folder: Path, pack: bool, shards: int, stops: dict[int, str], period: int
) -> None:
    """Trains to the end; restarts after each kill and saves every `period` steps."""
    length = 6 if pack else 2
    settings = utils.DatasetConfig(
        mixture_or_task_name=mixture.level_mixture(
            [f"level{level}" for level in range(STAGES.levels + 1)],
            STAGES,
        ),
        task_feature_lengths={"inputs": length, "targets": length},
        split="train",
        batch_size=ROWS,
        shuffle=True,
        seed=0,
        pack=pack,
    )
    constructor = functools.partial(
        Recording,
        notes=folder.with_name(f"{folder.name}.{jax.process_index()}.jsonl"),
        stops=stops,
        num_microbatches=None,
        learning_rate_fn=learning_rate.create_learning_rate_scheduler(
            factors="constant", base_learning_rate=0.01
        ),
    )
    while True:
        try:
            train.train(
                **train_settings(
                    folder,
                    model=Model(),
                    train_dataset_cfg=settings,
                    checkpoint_cfg=utils.CheckpointConfig(
                        save=utils.SaveCheckpointConfig(period=period, keep=1)
                    ),
                    trainer_cls=constructor,
                    total_steps=STAGES.steps,
                    eval_steps=0,
                    verify_matching_vocabs_fn=None,
                    get_dataset_fn=functools.partial(
                        token_feed.get_dataset, otherwise=None
                    ),
                    data_shards=shards,
                )
            )
        except Killed:
            continue
        except trainer.PreemptionError:
            sys.exit(3)
        assert not stops, f"not reached: {stops}"
        return


def main() -> None:
    rank, count, port = (int(argument) for argument in sys.argv[1:4])
    folder, pack = Path(sys.argv[4]), sys.argv[5] == "pack"
    shards = int(sys.argv[6])
    stops = {int(step): kind for step, kind in json.loads(sys.argv[7]).items()}
    if count > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", count, rank)
    jax.config.update("jax_compilation_cache_dir", str(folder / "jax_cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    register()
    run(folder / "stopped", pack, shards, stops, period=3)
    run(folder / "straight", pack, shards, {}, period=STAGES.steps)


if __name__ == "__main__":
    main()
