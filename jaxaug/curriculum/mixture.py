"""Registers SeqIO mixtures whose rates follow a schedule, for gin files.

SeqIO is imported when a mixture is registered.
"""

import difflib
import itertools
from collections.abc import Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.curriculum import schedule as schedules
from jaxaug.curriculum.counted import InShares, InSteps

# Name of a task or mixture, or several names.
Names = str | Sequence[str]

# Content of each mixture registered here, by name: the rates and levels of its tasks,
# and how its schedule counts the examples of a shard.
_Content = tuple[tuple[tuple[str, float, int], ...], InSteps | InShares]
_registered_here: dict[str, _Content] = {}


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
    counted = InSteps(
        in_steps=schedule,
        batch_size=batch_size,
        examples_per_row=tuple(examples_per_row),
        num_hosts=num_hosts,
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
    counted = InShares(
        steps=total_steps,
        batch_size=batch_size,
        stage_ends=tuple(stage_ends),
        stage_weights=tuple(tuple(weights) for weights in stage_weights),
        examples_per_row=tuple(examples_per_row),
        num_hosts=num_hosts,
    )
    counted.in_examples(num_hosts or 1)
    return _mixture(f"{mixture}_prompt_curriculum", levels, counted)


def _mixture(
    name: str,
    levels: Sequence[dict[str, float]],
    counted: InSteps | InShares,
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
        import seqio

        from jaxaug.curriculum.scheduled import ScheduledMixture

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
    import seqio

    return {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}


def _tasks_of(names: Names) -> dict[str, float]:
    """Returns the tasks of the named tasks and mixtures, with their rates."""
    import seqio

    rates: dict[str, float] = {}
    for name in [names] if isinstance(names, str) else names:
        found = _registered(name)
        if isinstance(found, seqio.Mixture):
            rates |= {task.name: found.get_rate(task) for task in found.tasks}
        else:
            rates[name] = 1.0
    return rates


def _registered(name: str) -> Any:
    import seqio

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
