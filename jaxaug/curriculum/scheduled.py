"""SeqIO mixture whose rates follow a schedule.

This is one of the modules of jaxaug that may import SeqIO and TensorFlow.
"""

import copy
import inspect
from collections.abc import Sequence

import numpy as np
import seqio
import tensorflow as tf

from jaxaug.core.errors import UserError
from jaxaug.curriculum import schedule as schedules
from jaxaug.curriculum.counted import InShares, InSteps
from jaxaug.feed.order import Stage


def scheduled_sample_fn(
    schedule: schedules.Schedule, levels: Sequence[int]
) -> seqio.dataset_providers.SampleFn:
    """Returns a `sample_fn` for `seqio.Mixture` that draws levels by a schedule.

    The level of example i of the mixture is drawn with the weights `schedule(i)` by a
    stateless generator keyed by (seed, i). The order therefore depends on the seed
    only. A restored iterator, which carries i, continues at the right stage and
    example.

    Args:
        schedule: counted in the examples of one shard. SeqIO mixes before it packs, so
            these are unpacked examples (see `schedule.in_examples`).
        levels: level of each task of the mixture, in the order of `Mixture.tasks`
            (sorted by name).

    Raises:
        UserError: the tasks do not have the levels of the schedule; or, when the
            mixture is read, a task lacks the split.
    """
    names = sorted(set(levels))
    if names != list(range(schedule.levels + 1)):
        raise UserError(
            f"curriculum: the tasks have levels {names}, the schedule weighs levels "
            f"{list(range(schedule.levels + 1))}; give every level at least one task"
        )
    with np.errstate(divide="ignore"):  # A level without weight is never drawn.
        logits = np.log(np.asarray(schedule.weights, np.float32))
    logits = np.maximum(logits, np.float32(-1e9))

    def sample(
        datasets: Sequence[tf.data.Dataset], rates: Sequence[float], seed: int | None
    ) -> tf.data.Dataset:
        if len(datasets) != len(levels):
            raise UserError(
                f"curriculum: only {len(datasets)} of the {len(levels)} tasks of the "
                "mixture have the split that is read; every level needs it"
            )
        seed = 0 if seed is None else seed
        by_level = []
        for level in names:
            members = [index for index, of in enumerate(levels) if of == level]
            by_level.append(
                tf.data.Dataset.sample_from_datasets(
                    [datasets[index] for index in members],
                    [rates[index] for index in members],
                    seed=seed,
                    stop_on_empty_dataset=True,
                )
            )
        table = tf.constant(logits)
        starts = tf.constant(schedule.ends[:-1], tf.int64)

        def choose(index: tf.Tensor) -> tf.Tensor:
            stage = tf.reduce_sum(tf.cast(index >= starts, tf.int32))
            key = tf.stack([tf.cast(seed, tf.int64), index])
            return tf.random.stateless_categorical(
                table[stage][tf.newaxis], 1, seed=key, dtype=tf.int64
            )[0, 0]

        choices = tf.data.Dataset.counter().map(choose)
        return tf.data.Dataset.choose_from_datasets(
            by_level, choices, stop_on_empty_dataset=True
        )

    return sample


class ScheduledMixture(seqio.Mixture):
    """A mixture whose rates change with the examples read from a shard.

    A class is necessary because SeqIO does not pass shard information to a `sample_fn`.

    Attributes:
        examples_per_row: for each level, how many of its examples fill a row; empty if
            these numbers were not given.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[tuple[str, float]],
        counted: InSteps | InShares,
        levels: Sequence[int],
    ):
        self._counted, self._levels = counted, levels
        super().__init__(name, members, sample_fn=self._sample_of(1))

    @property
    def examples_per_row(self) -> tuple[float, ...]:
        return self._counted.examples_per_row

    def tasks_of_levels(self) -> list[dict[str, float]]:
        """Returns the tasks of each level, with their rates."""
        found: list[dict[str, float]] = [{} for _ in set(self._levels)]
        for task, level in zip(self.tasks, self._levels, strict=True):
            found[level][task.name] = float(self.get_rate(task))
        return found

    def stages(self) -> list[Stage]:
        """Returns the rates of the tasks by training step, in the order of `tasks`."""
        schedule, levels = self._counted.in_steps, self.tasks_of_levels()
        shares = [
            (level, float(self.get_rate(task)) / sum(levels[level].values()))
            for task, level in zip(self.tasks, self._levels, strict=True)
        ]
        return [
            Stage(end, tuple(weights[level] * share for level, share in shares))
            for end, weights in zip(schedule.ends, schedule.weights, strict=True)
        ]

    def read_by(
        self, shards: int, batch_size: int, examples_per_row: Sequence[float]
    ) -> "ScheduledMixture":
        """Returns the same mixture with stages counted for one reader.

        Args:
            shards: number of shards of the data.
            batch_size: rows of the global batch.
            examples_per_row: for each level, how many of its examples fill a row.
        """
        made = copy.copy(self)
        made._counted = self._counted.read_by(batch_size, tuple(examples_per_row))
        made._sample_fn = made._sample_of(shards)
        return made

    def _sample_of(self, shards: int) -> seqio.dataset_providers.SampleFn:
        shards = self._counted.num_hosts or shards
        return scheduled_sample_fn(self._counted.in_examples(shards), self._levels)

    def get_dataset(self, *args, **kwargs) -> tf.data.Dataset:
        """See `seqio.Mixture.get_dataset`."""
        call = inspect.signature(seqio.Mixture.get_dataset).bind(self, *args, **kwargs)
        info = call.arguments.get("shard_info")
        shard = copy.copy(self)
        shard._sample_fn = self._sample_of(info.num_shards if info else 1)
        return super(ScheduledMixture, shard).get_dataset(*args, **kwargs)
