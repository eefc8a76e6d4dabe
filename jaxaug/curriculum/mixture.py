"""Mixtures whose rates follow a schedule, for gin files."""

from collections.abc import Sequence

from jaxaug.core.errors import UserError
from jaxaug.curriculum import schedule as schedules
from jaxaug.feed import sets
from jaxaug.feed.order import Stage

# Name of a task or mixture, or several names.
Names = str | Sequence[str]


def level_mixture(
    levels: Sequence[Names], schedule: schedules.Schedule, name: str = "curriculum"
) -> sets.Mixture:
    """Returns a mixture that follows the level weights of a schedule.

    Args:
        levels: tasks or mixtures of each level from 0 on, such as `["d3st_sgd",
            "d3st_aug_v1", ...]`.
        schedule: schedule in training steps.
        name: name of the mixture, for messages.

    Returns:
        The mixture, for `DatasetConfig.mixture_or_task_name`.

    Raises:
        UserError: a name is unknown, a task is in two levels, or numbers of levels
            disagree.
    """
    if len(levels) != schedule.levels + 1:
        raise UserError(
            f"curriculum: {len(levels)} levels of tasks, the schedule weighs "
            f"{schedule.levels + 1} ({', '.join(schedule.names)}); give as many"
        )
    return _mixture(name, [_rates_of(names) for names in levels], schedule)


def prompt_curriculum(
    mixture: str,
    total_steps: int,
    stage_ends: Sequence[float] = schedules.PROMPT_STAGE_ENDS,
    stage_weights: Sequence[Sequence[float]] = schedules.PROMPT_STAGE_WEIGHTS,
    beside: Names = (),
) -> sets.Mixture:
    """Returns a mixture that shows short prompts first, for untrained models.

    Every task NAME of `mixture` needs companion tasks NAME_short2 and NAME_short5, with
    1-2 and 1-5 slots in prompt and target.

    Args:
        mixture: name of a task or mixture, e.g. `d3st_aug_6x`.
        total_steps: length of the training run.
        stage_ends: shares of the training steps at which each stage but the last ends.
        stage_weights: shares of the levels (short2, short5, whole schema) among the
            examples of each stage.
        beside: registered tasks of another kind, which form a fourth level. Then
            `stage_weights` have four numbers each.

    Returns:
        The mixture; see `level_mixture`.

    Raises:
        UserError: no task or mixture has that name, or one has no short companions.
    """
    source = _rates_of(mixture)
    levels = [
        {sets.named(task + suffix).name: rate for task, rate in source.items()}
        for suffix in ("_short2", "_short5", "")
    ]
    if beside:
        levels.append(_rates_of(beside))
    ends = [*(round(end * total_steps) for end in stage_ends), total_steps]
    schedule = schedules.staged(ends, stage_weights)
    return _mixture(f"{mixture}_prompt_curriculum", levels, schedule)


def _mixture(
    name: str, levels: Sequence[dict[str, float]], schedule: schedules.Schedule
) -> sets.Mixture:
    """Returns the mixture of levels, each with the rates of its tasks."""
    rates = {task: rate for level in levels for task, rate in level.items()}
    level_of: dict[str, int] = {}
    for number, level in enumerate(levels):
        for task in level:
            if task in level_of:
                raise UserError(
                    f"curriculum: task {task!r} is in levels {level_of[task]} and "
                    f"{number}; a mixture holds a task once"
                )
            level_of[task] = number
    found = sets.mixture(name, rates)
    shares = [
        (
            level_of[task.name],
            rates[task.name] / sum(levels[level_of[task.name]].values()),
        )
        for task in found.tasks
    ]
    stages = [
        Stage(end, tuple(weights[level] * share for level, share in shares))
        for end, weights in zip(schedule.ends, schedule.weights, strict=True)
    ]
    return sets.Mixture(name, found.tasks, rates, stages)


def _rates_of(names: Names) -> dict[str, float]:
    """Returns the tasks of the named tasks and mixtures, with their rates."""
    rates: dict[str, float] = {}
    for name in [names] if isinstance(names, str) else names:
        found = sets.named(name)
        rates |= found.rates if isinstance(found, sets.Mixture) else {name: 1.0}
    return rates
