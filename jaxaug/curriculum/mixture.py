"""SeqIO mixture whose rates follow a schedule.

This is one of the two modules of jaxaug that may import SeqIO and TensorFlow.
"""

import copy
import difflib
import inspect
import itertools
from collections.abc import Sequence

import numpy as np
import seqio
import tensorflow as tf

from jaxaug.core.errors import UserError
from jaxaug.curriculum import schedule as schedules
from jaxaug.feed.order import Stage

# Name of a task or mixture, or several names.
Names = str | Sequence[str]

# Content of each mixture registered here, by name: the rates and levels of its tasks,
# and how its schedule counts the examples of a shard.
_Content = tuple[
    tuple[tuple[str, float, int], ...], schedules.InSteps | schedules.InShares
]
_registered_here: dict[str, _Content] = {}


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


def level_mixture(
    levels: Sequence[Names],
    schedule: schedules.Schedule,
    batch_size: int,
    examples_per_row: Sequence[float] = (),
    num_hosts: int | None = None,
    name: str = "curriculum",
) -> str:
    """Registers a mixture that follows the level weights of a schedule.

    Args:
        levels: registered tasks or mixtures of each level from 0 on, such as
            `["d3st_sgd", "d3st_aug_v1", ...]`.
        schedule: schedule in training steps.
        batch_size: rows of the global batch.
        examples_per_row: for each level, how many examples SeqIO packs into a row.
            Empty if rows are not packed, or if the reader counts. With packed SeqIO
            data, stages change at the step that follows from these numbers. The token
            feed needs no such numbers and changes stages at exact steps.
        num_hosts: number of shards of the data; None uses the number that the reader
            requests.
        name: name of the mixture. If this process has another mixture of that name, it
            becomes `<name>_2` and so on.

    Returns:
        The registered name of the mixture, for `DatasetConfig`.

    Raises:
        UserError: a name is unknown or taken, a task is in two levels, numbers of
            levels disagree, or the batch size is not divisible by the hosts.
    """
    if len(levels) != schedule.levels + 1:
        raise UserError(
            f"curriculum: {len(levels)} levels of tasks, the schedule weighs "
            f"{schedule.levels + 1} ({', '.join(schedule.names)}); give as many"
        )
    counted = schedules.InSteps(
        schedule,
        batch_size,
        tuple(examples_per_row),
        num_hosts,
    )
    counted.in_examples(num_hosts or 1)  # Reports wrong numbers early.
    members = [_tasks_of(names) for names in levels]
    return _mixture(name, members, counted)


def prompt_curriculum(
    mixture: str,
    total_steps: int,
    batch_size: int,
    examples_per_row: Sequence[float] = (),
    num_hosts: int | None = None,
    stage_ends: Sequence[float] = schedules.PROMPT_STAGE_ENDS,
    stage_weights: Sequence[Sequence[float]] = schedules.PROMPT_STAGE_WEIGHTS,
    beside: Names = (),
) -> str:
    """Registers a mixture that shows short prompts first, for untrained models.

    Every task NAME of `mixture` needs companion tasks NAME_short2 and NAME_short5, with
    1-2 and 1-5 slots in prompt and target.

    Args:
        mixture: name of a registered task or mixture, e.g. `d3st_aug_6x`.
        total_steps: length of the training run.
        batch_size: rows of the global batch.
        examples_per_row: how many examples of each level (short2, short5, whole schema)
            SeqIO packs into a row; see `level_mixture`.
        num_hosts: number of shards of the data; None uses the number that the reader
            requests.
        stage_ends: shares of the training steps at which each stage but the last ends.
        stage_weights: shares of the levels among the examples of each stage.
        beside: registered tasks of another kind, which form a fourth level. Then
            `stage_weights` (and `examples_per_row`) have four numbers each.

    Returns:
        The registered name of the mixture; see `level_mixture`.

    Raises:
        UserError: no task or mixture has that name, or one has no short companions.
    """
    source = _tasks_of(mixture)
    levels = [
        {_registered(task + suffix).name: rate for task, rate in source.items()}
        for suffix in ("_short2", "_short5", "")
    ]
    if beside:
        levels.append(_tasks_of(beside))
    counted = schedules.InShares(
        total_steps,
        batch_size,
        tuple(stage_ends),
        tuple(tuple(weights) for weights in stage_weights),
        tuple(examples_per_row),
        num_hosts,
    )
    counted.in_examples(num_hosts or 1)
    return _mixture(f"{mixture}_prompt_curriculum", levels, counted)


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
        counted: schedules.InSteps | schedules.InShares,
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


def _mixture(
    name: str,
    levels: Sequence[dict[str, float]],
    counted: schedules.InSteps | schedules.InShares,
) -> str:
    """Registers the mixture, unless it is already registered, and returns its name.

    Args:
        name: preferred name.
        levels: rates of the tasks of each level.
        counted: the schedule.
    """
    members: dict[str, tuple[float, int]] = {}
    for level, rates in enumerate(levels):
        for task, rate in rates.items():
            if task in members:
                raise UserError(
                    f"curriculum: task {task!r} is in levels {members[task][1]} and "
                    f"{level}; a mixture holds a task once"
                )
            members[task] = rate, level
    content = tuple((task, *member) for task, member in members.items()), counted
    free = _name_for(name, content)
    if free not in _registered_here:
        # SeqIO passes the datasets to sample_fn sorted by task name.
        order = [members[task][1] for task in sorted(members)]
        task_rates = [(task, rate) for task, (rate, _) in members.items()]
        seqio.MixtureRegistry.add_provider(
            free, ScheduledMixture(free, task_rates, counted, order)
        )
        _registered_here[free] = content
    return free


def _name_for(name: str, content: _Content) -> str:
    """Returns the name of an identical registered mixture, or a free name."""
    for number in itertools.count(1):
        candidate = name if number == 1 else f"{name}_{number}"
        if candidate in _registered_here:
            if _registered_here[candidate] == content:
                return candidate
        elif candidate in _known():
            raise UserError(
                f"curriculum: {candidate!r} is the name of another task or mixture; "
                "give level_mixture another `name`"
            )
        else:
            return candidate
    raise AssertionError("names do not run out")


def _known() -> set[str]:
    return {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}


def _tasks_of(names: Names) -> dict[str, float]:
    """Returns the tasks of the named tasks and mixtures, with their rates."""
    rates: dict[str, float] = {}
    for name in [names] if isinstance(names, str) else names:
        found = _registered(name)
        if isinstance(found, seqio.Mixture):
            rates |= {task.name: found.get_rate(task) for task in found.tasks}
        else:
            rates[name] = 1.0
    return rates


def _registered(name: str) -> seqio.Task | seqio.Mixture:
    known = sorted(_known())
    if name in known:
        return seqio.get_mixture_or_task(name)
    near = difflib.get_close_matches(name, known, n=3)
    listed = ", ".join(near or known[:8]) or "none"
    raise UserError(
        f"curriculum: no task or mixture is named {name!r}; the nearest of "
        f"{len(known)}: "
        f"{listed}. d3st_NAME_* needs variants of the training schema in variants/NAME "
        "of the data folder, or in a folder NAME that $JAXAUG_VARIANTS_DIR lists. Make "
        "them with `jaxaug augment --data_dir DIR --out DIR/variants/tree`."
    )
