"""The seam between a schedule and training: a SeqIO mixture whose rates move.

One of the two modules of jaxaug that may import SeqIO and TensorFlow.
"""

import difflib
from collections.abc import Sequence

import numpy as np
import seqio
import tensorflow as tf

from jaxaug.curriculum import schedule as schedules
from jaxaug.errors import UserError

# Stages change at multiples of 1/_RESOLUTION of the training run.
_RESOLUTION = 1000


def scheduled_sample_fn(
    schedule: schedules.Schedule, levels: Sequence[int], total_examples: int
) -> seqio.dataset_providers.SampleFn:
    """A `sample_fn` for `seqio.Mixture` that draws levels by a schedule.

    Example i of the mixture belongs to progress i / total_examples. Its level is
    drawn from the schedule with a stateless generator keyed by (seed, i), so the
    order is a function of the seed alone, and a restored iterator, which carries i,
    continues at the right stage and the right example.

    Args:
      schedule: progress -> weights of the levels.
      levels: the level of each task of the mixture, in the order of `Mixture.tasks`
        (sorted by name).
      total_examples: examples that this host draws in the whole run. SeqIO mixes
        before it packs, so count unpacked examples.
    """
    if total_examples < 1:
        raise UserError(
            f"curriculum: total_examples is {total_examples}; it must be the number "
            "of examples drawn in the whole run (steps x batch size / hosts)"
        )
    logits = schedules.table(schedule, _RESOLUTION)["logits"]
    names = sorted(set(levels))
    if names != list(range(logits.shape[1])):
        raise UserError(
            f"curriculum: the tasks have levels {names}, the schedule weighs levels "
            f"{list(range(logits.shape[1]))}; give every level at least one task"
        )

    def sample(
        datasets: Sequence[tf.data.Dataset], rates: Sequence[float], seed: int | None
    ) -> tf.data.Dataset:
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
        table = tf.constant(np.maximum(logits, -1e9))

        def choose(index: tf.Tensor) -> tf.Tensor:
            row = tf.minimum(index * _RESOLUTION // total_examples, _RESOLUTION - 1)
            key = tf.stack([tf.cast(seed, tf.int64), index])
            return tf.random.stateless_categorical(
                table[row][tf.newaxis], 1, seed=key, dtype=tf.int64
            )[0, 0]

        choices = tf.data.Dataset.counter().map(choose)
        return tf.data.Dataset.choose_from_datasets(
            by_level, choices, stop_on_empty_dataset=True
        )

    return sample


def prompt_curriculum(
    mixture: str,
    total_steps: int,
    batch_size: int,
    examples_per_row: Sequence[float] = (1.0, 1.0, 1.0),
    num_hosts: int = 1,
    stage_ends: Sequence[float] = schedules.PROMPT_STAGE_ENDS,
    stage_weights: Sequence[Sequence[float]] = schedules.PROMPT_STAGE_WEIGHTS,
) -> seqio.Mixture:
    """A mixture that shows short prompts first, for models without pretraining.

    Every task NAME of `mixture` must have companions NAME_short2 and NAME_short5,
    with one or two, and one to five, slots in prompt and target.

    Args:
      mixture: name of a registered task or mixture, e.g. `d3st_aug_6x`.
      total_steps: length of the training run.
      batch_size: rows of the global batch.
      examples_per_row: how many examples of each level (short2, short5, whole
        schema) packing puts into a row: 1 without packing. SeqIO mixes before it
        packs, so the stages are kept by counting examples.
      num_hosts: hosts that read shards of the data.
      stage_ends: shares of the training steps, see `schedule.staged`.
      stage_weights: shares of the levels among the examples of each stage.

    Raises:
      UserError: no task or mixture has that name, or one has no short companions.
    """
    source = _registered(mixture)
    tasks = source.tasks if isinstance(source, seqio.Mixture) else [source]
    rates: dict[str, float] = {}
    level_of: dict[str, int] = {}
    for level, suffix in enumerate(("_short2", "_short5", "")):
        for task in tasks:
            rate = source.get_rate(task) if isinstance(source, seqio.Mixture) else 1.0
            rates[_registered(task.name + suffix).name] = rate
            level_of[task.name + suffix] = level
    # SeqIO hands the datasets to sample_fn sorted by the names of their tasks.
    levels = [level_of[name] for name in sorted(level_of)]
    ends, mean = schedules.in_examples(stage_ends, stage_weights, examples_per_row)
    total = round(total_steps * batch_size * mean / num_hosts)
    return seqio.Mixture(
        f"{mixture}_prompt_curriculum",
        list(rates.items()),
        sample_fn=scheduled_sample_fn(
            schedules.staged(ends, stage_weights), levels, max(total, 1)
        ),
    )


def _registered(name: str) -> seqio.Task | seqio.Mixture:
    known = sorted({*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()})
    if name in known:
        return seqio.get_mixture_or_task(name)
    near = difflib.get_close_matches(name, known, n=3)
    listed = ", ".join(near or known[:8]) or "none"
    raise UserError(
        f"curriculum: no task or mixture is named {name!r}; the nearest of {len(known)}: "
        f"{listed}. d3st_aug_* needs variants of the training schema: put them under "
        "variants/aug of the data folder, or name that folder in $JAXAUG_VARIANTS_DIR."
    )
