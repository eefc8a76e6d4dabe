"""Curriculum schedules as pure functions of the step.

Level 0 is the original data; levels 1..C are paraphrases of increasing difficulty (Lu
and Lam 2023, Algorithm 1). A stage lasts `steps_per_level` steps and shows one level,
of which a share of `original_fraction` is replaced by originals. If stages differ in
length, `steps_per_level` has a number for each level, as in Wei et al. (2021).
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from jaxaug.core import typed
from jaxaug.core.errors import UserError
from jaxaug.core.figures import new_figure, write_figure
from jaxaug.core.files import PathLike
from jaxaug.core.ranges import Range
from jaxaug.curriculum.difficulty import LEVELS

ORIGINAL_FRACTION = 0.2
CYCLES = 2

Fraction = Annotated[float, Range(0, 1)]
Length = Annotated[int, Range(1)]
Steps = Length | Sequence[Length]
"""Steps per stage: one number for every level, or one for each of the levels 0..C."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Stages of constant level weights; `schedule(step)` returns the weights of a step.

    Attributes:
        ends: step at which each stage ends, increasing; the last one is the length of
            the schedule. Later steps stay in the last stage, so a prolonged run
            continues as it ended.
        weights: for each stage one weight per level, summing to 1.
        names: display names of the levels; by default their numbers.
    """

    ends: tuple[int, ...]
    weights: tuple[tuple[float, ...], ...]
    names: tuple[str, ...]

    def __call__(self, step: int) -> tuple[float, ...]:
        """Returns the weights of levels 0..C at a step, counted from 0."""
        return self.weights[self.stage(step)]

    def stage(self, step: int) -> int:
        """Returns the number of the stage that contains a step, from 0."""
        stage = int(np.searchsorted(self.ends, step, side="right"))
        return min(stage, len(self.ends) - 1)

    @property
    def steps(self) -> int:
        """The length of the schedule."""
        return self.ends[-1]

    @property
    def levels(self) -> int:
        """The number C of levels in addition to the originals."""
        return len(self.weights[0]) - 1


@typed.checked
def staged(
    ends: Sequence[int],
    weights: Sequence[Sequence[Annotated[float, Range(0)]]],
    names: Sequence[str] = (),
) -> Schedule:
    """Returns a schedule with user-defined stages.

    Args:
        ends: step at which each stage ends, increasing from above 0.
        weights: for each stage, one non-negative weight per level; normalized here.
        names: names of the levels.

    Raises:
        UserError: the numbers of stages or levels disagree, the ends do not increase,
            or a stage has no positive weight.
    """
    if not ends or len(weights) != len(ends):
        raise UserError(
            f"curriculum: {len(ends)} stage ends and {len(weights)} rows of weights; "
            "give one end and one row for each stage"
        )
    if list(ends) != sorted(set(ends)) or ends[0] < 1:
        raise UserError(
            f"curriculum: stage ends {list(ends)} must rise strictly from above 0; "
            "write them in steps"
        )
    names = tuple(names) or tuple(str(level) for level in range(len(weights[0])))
    if {len(row) for row in weights} != {len(names)}:
        raise UserError(
            f"curriculum: every stage needs one weight for each of the {len(names)} "
            f"levels, got rows of {[len(row) for row in weights]}"
        )
    for index, row in enumerate(weights):
        if not 0 < sum(row) < math.inf:
            raise UserError(
                f"curriculum: stage {index} has weights {list(row)}; give a finite sum "
                "above 0"
            )
    shares = (tuple(float(w) / sum(row) for w in row) for row in weights)
    return Schedule(tuple(map(int, ends)), tuple(shares), names)


@typed.checked
def gradual(
    steps_per_level: Steps,
    levels: typed.Count = LEVELS,
    original_fraction: Fraction = ORIGINAL_FRACTION,
) -> Schedule:
    """Returns a schedule of the originals, then level 1, 2, ... C, once."""
    return _visits(range(levels + 1), steps_per_level, levels, original_fraction)


@typed.checked
def cyclic(
    steps_per_level: Steps,
    levels: typed.Count = LEVELS,
    original_fraction: Fraction = ORIGINAL_FRACTION,
    cycles: typed.Count = CYCLES,
) -> Schedule:
    """Returns `gradual` several times: the originals follow the hardest level."""
    order = [*range(levels + 1)] * cycles
    return _visits(order, steps_per_level, levels, original_fraction)


@typed.checked
def inverse(
    steps_per_level: Steps,
    levels: typed.Count = LEVELS,
    original_fraction: Fraction = ORIGINAL_FRACTION,
) -> Schedule:
    """Returns `gradual` backwards: level C, ..., 2, 1, then the originals."""
    order = range(levels, -1, -1)
    return _visits(order, steps_per_level, levels, original_fraction)


@typed.checked
def inverse_cyclic(
    steps_per_level: Steps,
    levels: typed.Count = LEVELS,
    original_fraction: Fraction = ORIGINAL_FRACTION,
    cycles: typed.Count = CYCLES,
) -> Schedule:
    """Returns a schedule of `cycles` cycles that alternate `gradual` and `inverse`.

    This is the inverse cyclic curriculum of Lu and Lam (2023), who train "the second
    cycle in an inversed order of decreasing difficulties". It ends on the originals,
    while the second cycle of their code ends on level 1.
    """
    up = [*range(levels + 1)]
    order = (up + up[::-1]) * cycles
    order = order[: cycles * (levels + 1)]
    return _visits(order, steps_per_level, levels, original_fraction)


@typed.checked
def two_stage(
    steps_per_level: Steps,
    levels: typed.Count = LEVELS,
    original_fraction: Fraction = ORIGINAL_FRACTION,
) -> Schedule:
    """Returns the originals, then all levels at once; each stage is half of `gradual`.

    Wei et al. (2021) also augment in one go once the originals are learned. If the
    stages differ in length, `steps_per_level` has the lengths of the two stages.
    """
    # There are two stages for any number of levels.
    whole = isinstance(steps_per_level, int)
    each = lengths(steps_per_level, levels if whole else 1)
    ends = (max(sum(each) // 2, 1) if whole else each[0], sum(each))
    share = (1 - original_fraction) / levels
    return staged(ends, ([1, *[0] * levels], [original_fraction, *[share] * levels]))


@typed.checked
def random(
    steps_per_level: Steps,
    levels: typed.Count = LEVELS,
    original_fraction: Fraction = ORIGINAL_FRACTION,
    cycles: typed.Count = 1,
) -> Schedule:
    """Returns no curriculum: the data of `cycles` times `gradual` in random order.

    At every step the weights are the mean of the weights of `gradual`, so the two
    differ only in order. This is the baseline for the effect of the order.
    """
    each = lengths(steps_per_level, levels)
    steps = cycles * sum(each)
    rows = np.asarray(gradual(steps_per_level, levels, original_fraction).weights)
    return staged((steps,), (tuple(np.average(rows, axis=0, weights=each)),))


def _visits(
    order: Sequence[int], steps_per_level: Steps, levels: int, original_fraction: float
) -> Schedule:
    """Returns a stage of `steps_per_level` steps for each level in turn."""
    each = lengths(steps_per_level, levels)
    rest = 1 - original_fraction
    rows = [
        [
            original_fraction * (index == 0) + rest * (index == level)
            for index in range(levels + 1)
        ]
        for level in order
    ]
    ends = list(itertools.accumulate(each[level] for level in order))
    return staged(ends, rows)


@typed.checked
def lengths(steps_per_level: Steps, levels: typed.Count) -> list[int]:
    """Returns the steps of a stage for each of the levels 0..C.

    Args:
        steps_per_level: one number, or one per level.
        levels: C.

    Raises:
        UserError: a number is below 1, or there is not one per level.
    """
    if isinstance(steps_per_level, int):
        return [steps_per_level] * (levels + 1)
    if len(steps_per_level) != levels + 1:
        raise UserError(
            f"curriculum: steps_per_level is {tuple(steps_per_level)}; give one "
            f"number, or {levels + 1}: of each level from the originals on (two "
            "stages: of both)"
        )
    return list(steps_per_level)


# Shares of the training steps at which the prompts grow, and the shares of (1-2 slots,
# 1-5 slots, the whole schema) in each stage. Without short prompts, a T5 trained from
# scratch does not learn to bind an index to its description.
PROMPT_STAGE_ENDS = (0.2, 0.4)
PROMPT_STAGE_WEIGHTS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.05, 0.05, 0.9))


@typed.checked
def after_short_prompts(
    curriculum: Schedule,
    short_steps: Sequence[Length],
    short_fraction: Fraction = 0.1,
) -> Schedule:
    """Returns a curriculum that starts with short prompts, for untrained models.

    Args:
        curriculum: schedule of whole prompts; its steps follow the short ones.
        short_steps: number of steps with prompts of 1-2 slots, and of 1-5 slots.
        short_fraction: share of short prompts in the stages of the curriculum, half of
            either kind.

    Returns:
        A schedule with two more levels, which come first: `short2`, `short5`.
    """
    if len(short_steps) != 2:
        raise UserError(f"short_steps is {short_steps}: give two numbers of steps.")
    first, second = short_steps
    nothing = [0.0] * len(curriculum.names)
    rows: list[Sequence[float]] = [(1.0, 0.0, *nothing), (0.0, 1.0, *nothing)]
    half = short_fraction / 2
    for row in curriculum.weights:
        rows.append((half, half, *((1 - short_fraction) * weight for weight in row)))
    start = first + second
    ends = [first, start, *(start + end for end in curriculum.ends)]
    return staged(ends, rows, ("short2", "short5", *curriculum.names))


@typed.checked
def stretched(schedule: Schedule, steps: Length) -> Schedule:
    """Returns the same stages in another number of steps, in the same proportions.

    Raises:
        UserError: a stage would have no step.
    """
    ends = [round(end * steps / schedule.steps) for end in schedule.ends]
    if min(np.diff([0, *ends])) < 1:
        raise UserError(
            f"curriculum: {len(ends)} stages do not fit into the {steps:,} steps of "
            "the run. Every stage needs at least one step. Train for more steps, or "
            "use a schedule with fewer stages."
        )
    return dataclasses.replace(schedule, ends=tuple(ends))


WIDTH = 60
_SHADES = " .-+#"


def plot_text(schedule: Schedule, width: int = WIDTH, notes: Sequence[str] = ()) -> str:
    """Returns a text plot with a row per level, hardest on top, and steps as columns.

    A column shows the shares at the middle of its steps. There are more than `width`
    columns if there are more stages. The notes are appended as lines.
    """
    width = max(width, len(schedule.ends))
    middles = (np.arange(width) + 0.5) * schedule.steps / width
    shares = np.asarray([schedule(int(step)) for step in middles])
    label = max(len(name) for name in schedule.names)
    rows = [
        f"level {schedule.names[level]:>{label}} |{_bar(shares[:, level])}|"
        for level in reversed(range(len(schedule.names)))
    ]
    last = f"{schedule.steps:,}"
    indent = " " * (len("level ") + label + 2)
    return "\n".join(
        [
            f"curriculum: {len(schedule.ends)} stages, {last} steps",
            *rows,
            f"{indent}0{last:>{width - 1}}  steps",
            f"{indent}share of a level: . below 25%, - below 50%, + below 75%, # above",
            *(f"{indent}{note}" for note in notes),
        ]
    )


def _bar(shares: np.ndarray) -> str:
    # A share of zero is blank.
    return "".join(_SHADES[min(int(4 * s) + 1, 4) if s > 0 else 0] for s in shares)


def write_png(path: PathLike, schedule: Schedule) -> None:
    """Writes the plot as a picture; darker fields are larger shares.

    Raises:
        UserError: matplotlib is not installed.
    """
    figure = new_figure(path, 8, 3)
    axes = figure.subplots()
    shares = np.asarray(schedule.weights).T
    rows = np.arange(len(schedule.names) + 1) - 0.5
    mesh = axes.pcolormesh(
        [0, *schedule.ends], rows, shares, cmap="Blues", vmin=0, vmax=1
    )
    figure.colorbar(mesh, label="share")
    axes.set_yticks(range(len(schedule.names)), schedule.names)
    axes.set_xlabel("step")
    axes.set_ylabel("level")
    write_figure(path, figure)
