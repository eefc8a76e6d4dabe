"""Trains the toy model on numbered examples in files, as one process of several.

    python hosts_program.py RANK COUNT PORT FOLDER JOBS

JOBS is JSON, a list of consecutive runs: `name` of the run (its folder is
`FOLDER/<name>`), `steps`, `model` (size of the mesh's model axis), `shards`
(`data_shards` or null), `evaluate` (at the end). `FOLDER/<name>.<steps>.<rank>.json`
gets the record of this process.
"""

import functools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import toy_run
from t5x import partitioning, train, trainer, utils
from t5x.feed import iterators
from t5x.feed.shards import local_rows
from t5x.inference import runner
from t5x.training import learning_rate

FILES, PER_FILE, ROWS, LENGTH, EVALUATED = 8, 5, 8, 6, 10


def example(number: int) -> dict[str, np.ndarray]:
    """Returns an example that holds its number and predicts other numbers."""
    inputs = np.full(LENGTH, number, np.int32)
    targets = (number * np.arange(1, LENGTH + 1) % (FILES * PER_FILE)).astype(np.int32)
    return {
        "encoder_input_tokens": inputs,
        "decoder_input_tokens": np.pad(targets, (1, 0))[:-1],
        "decoder_target_tokens": targets,
        "decoder_loss_weights": np.ones(LENGTH, np.int32),
    }


def order(shard: int, shards: int, epoch: int) -> list[int]:
    """Returns the example numbers of a shard: its files, shuffled in each epoch."""
    numbers = [
        file * PER_FILE + line + 1
        for file in range(shard, FILES, shards)
        for line in range(PER_FILE)
    ]
    return list(np.random.default_rng((shard, epoch)).permutation(numbers))


class Files:
    """Batches of one shard of the files, endless and resumable."""

    def __init__(self, folder: Path, shard: int, shards: int, read: set):
        self._folder, self._shard, self._shards = folder, shard, shards
        self._read = read  # (shard, position) of each row
        self._position = 0

    @property
    def element_spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        shape = (ROWS // self._shards, LENGTH)
        return {name: jax.ShapeDtypeStruct(shape, np.int32) for name in example(1)}

    def _row(self) -> dict[str, np.ndarray]:
        epoch, offset = divmod(self._position, FILES // self._shards * PER_FILE)
        number = int(order(self._shard, self._shards, epoch)[offset])
        file, line = divmod(number - 1, PER_FILE)
        text = (self._folder / f"{file}.txt").read_text().splitlines()[line]
        self._read.add((self._shard, self._position))
        self._position += 1
        return example(int(text))

    def __next__(self) -> dict[str, np.ndarray]:
        rows = [self._row() for _ in range(ROWS // self._shards)]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def save(self, path: Any) -> None:
        Path(f"{os.fspath(path)}.json").write_text(json.dumps(self._position))

    def restore(self, path: Any) -> None:
        self._position = json.loads(Path(f"{os.fspath(path)}.json").read_text())


class Model(toy_run.TinyModel):
    module = toy_run.TinyNetwork(vocab_size=FILES * PER_FILE + 8)

    @property
    def FEATURE_CONVERTER_CLS(self) -> Any:
        return sys.modules["seqio"].EncDecFeatureConverter


class Recording(trainer.Trainer):
    """Records the rows of each step's batch that this process feeds."""

    def __init__(self, *args: Any, rows: list, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._rows = rows

    def train(self, batch_iter: Any, num_steps: int, start_step: int = 0) -> Any:
        return super().train(
            self._noted(batch_iter, start_step), num_steps, start_step=start_step
        )

    def _noted(self, batches: Iterator, start: int) -> Iterator:
        for step, batch in enumerate(batches, start):
            local = local_rows(batch["encoder_input_tokens"])
            self._rows.append((step, local[:, 0].tolist()))
            yield batch


def exact(targets: list, predictions: list) -> dict[str, float]:
    hits = [np.mean(np.equal(t, p)) for t, p in zip(targets, predictions, strict=True)]
    return {"exact": float(np.mean(hits))}


def likelihood(targets: list, scores: list) -> dict[str, float]:
    return {"likelihood": float(np.mean(scores)), "examples": float(len(targets))}


def evaluator(**settings: Any) -> Any:
    """Returns SeqIO's evaluator, which writes the metrics to a file."""
    import seqio

    return seqio.Evaluator(**settings, logger_cls=[seqio.JSONLogger])


def register() -> None:
    """Registers a task of a few examples, for evaluation by decoding and scoring."""
    import seqio
    import tensorflow as tf

    feature = seqio.Feature(
        seqio.PassThroughVocabulary(FILES * PER_FILE + 8), add_eos=False
    )
    rows = [example(number) for number in range(1, EVALUATED + 1)]
    columns = {
        "inputs": np.stack([row["encoder_input_tokens"] for row in rows]),
        "targets": np.stack([row["decoder_target_tokens"] for row in rows]),
    }
    seqio.TaskRegistry.add(
        "numbered",
        seqio.FunctionDataSource(
            lambda split, shuffle_files, seed=None: tf.data.Dataset.from_tensor_slices(
                columns
            ),
            ["validation"],
            num_input_examples={"validation": EVALUATED},
        ),
        output_features={"inputs": feature, "targets": feature},
        metric_fns=[exact, likelihood],
    )


def run(
    folder: Path, name: str, steps: int, model: int, shards: int | None, evaluate: bool
) -> None:
    """Runs from the newest checkpoint to a step; records the batches."""
    read: set = set()
    rows: list = []
    evaluated: list[int] = []
    partitioner = partitioning.PjitPartitioner(model_parallel_submesh=(model, 1, 1, 1))

    def shard_batch(batch: Any, partitioner: Any) -> Any:
        evaluated.extend(int(index) for index in batch[""] if index >= 0)
        return iterators.shard_batch(batch, partitioner)

    runner.shard_batch = shard_batch
    lengths = {"inputs": LENGTH, "targets": LENGTH}
    examples = utils.DatasetConfig("numbered", lengths, "validation", ROWS, False, 0)
    train.train(
        **toy_run.train_settings(
            folder / name,
            model=Model(),
            partitioner=partitioner,
            train_dataset_cfg=utils.DatasetConfig(
                "files", lengths, "train", ROWS, True, 0
            ),
            train_eval_dataset_cfg=examples if evaluate else None,
            train_eval_get_dataset_fn=toy_run.get_eval_datasets,
            inference_evaluator_cls=evaluator,
            infer_eval_dataset_cfg=examples if evaluate else None,
            checkpoint_cfg=utils.CheckpointConfig(
                save=utils.SaveCheckpointConfig(period=2)
            ),
            trainer_cls=functools.partial(
                Recording,
                rows=rows,
                num_microbatches=None,
                learning_rate_fn=learning_rate.create_learning_rate_scheduler(
                    factors="constant", base_learning_rate=0.01
                ),
            ),
            total_steps=steps,
            eval_steps=2,
            eval_period=steps,
            stats_period=1,
            get_dataset_fn=lambda cfg, shard, count, converter: Files(
                folder / "files", shard, count, read
            ),
            verify_matching_vocabs_fn=None,
            data_shards=shards,
        )
    )
    rank = jax.process_index()
    (folder / f"{name}.{steps}.{rank}.json").write_text(
        json.dumps(
            {
                "part": partitioner.data_shard_id,
                "rows": rows,
                "read": sorted(read),
                "evaluated": evaluated,
            }
        )
    )


def main() -> None:
    rank, count = int(sys.argv[1]), int(sys.argv[2])
    folder, jobs = Path(sys.argv[4]), json.loads(sys.argv[5])
    if count > 1:
        jax.distributed.initialize(f"127.0.0.1:{sys.argv[3]}", count, rank)
    register()
    for job in jobs:
        run(folder, **job)


if __name__ == "__main__":
    main()
