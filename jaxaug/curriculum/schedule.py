"""Curriculum schedules as pure functions of the training progress."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jaxaug.errors import UserError

# progress in [0, 1) -> one weight per level, summing to 1
Schedule = Callable[[float], tuple[float, ...]]


def staged(
    ends: Sequence[float], weights: Sequence[Sequence[float]]
) -> Callable[[float], tuple[float, ...]]:
    """A schedule of constant stages.

    Args:
      ends: progress at which each stage but the last ends, rising within (0, 1).
      weights: for each stage, one non-negative weight per level; normalised here.

    Returns:
      `stage(progress)`: the level weights, summing to 1. Progress of 1 or more
      stays in the last stage, so a run that is prolonged goes on as it ended.

    Raises:
      UserError: if the numbers of stages or levels disagree, the ends do not rise
        or a stage has no positive weight.
    """
    if len(weights) != len(ends) + 1:
        raise UserError(
            f"curriculum: {len(ends)} stage ends need {len(ends) + 1} rows of "
            f"weights, got {len(weights)}; add or remove a row"
        )
    if list(ends) != sorted(set(ends)) or any(not 0 < end < 1 for end in ends):
        raise UserError(
            f"curriculum: stage ends {list(ends)} must rise strictly within (0, 1); "
            "write them as fractions of the training steps"
        )
    if len({len(row) for row in weights}) != 1:
        raise UserError(
            f"curriculum: every stage needs one weight per level, got rows of "
            f"{[len(row) for row in weights]}"
        )
    rows = []
    for index, row in enumerate(weights):
        if min(row) < 0 or sum(row) <= 0:
            raise UserError(
                f"curriculum: stage {index} has weights {list(row)}; they must be "
                "non-negative with a positive sum"
            )
        rows.append(tuple(float(weight) / sum(row) for weight in row))

    def stage(progress: float) -> tuple[float, ...]:
        return rows[int(np.searchsorted(ends, progress, side="right"))]

    return stage


# Fractions of the training steps at which the prompts grow, and the share of
# (1-2 slots, 1-5 slots, the whole schema) in each stage. A T5 trained from scratch
# does not learn to bind an index to its description without the short prompts.
PROMPT_STAGE_ENDS = (0.2, 0.4)
PROMPT_STAGE_WEIGHTS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.05, 0.05, 0.9))


def in_examples(
    ends: Sequence[float],
    weights: Sequence[Sequence[float]],
    examples_per_row: Sequence[float],
) -> tuple[tuple[float, ...], float]:
    """Translates stage ends from shares of the steps to shares of the examples.

    Packing puts several examples into a row, more of them the shorter they are, so
    a stage of short examples uses up more of them in the same number of steps.

    Args:
      ends: progress in steps at which each stage but the last ends.
      weights: for each stage, the share of each level among its examples.
      examples_per_row: for each level, how many of its examples fill a row.

    Returns:
      `(ends, mean)`: progress in examples at which the stages end, and the mean
      number of examples in a row over the whole run.

    Raises:
      UserError: if there is not one positive number per level.
    """
    if len(examples_per_row) != len(weights[0]) or min(examples_per_row) <= 0:
        raise UserError(
            f"curriculum: examples_per_row is {tuple(examples_per_row)}; give one "
            f"positive number for each of the {len(weights[0])} levels, 1 unpacked"
        )
    shares = np.asarray(weights, np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    per_row = 1 / (shares / np.asarray(examples_per_row)).sum(axis=1)
    examples = np.diff([0.0, *ends, 1.0]) * per_row
    passed = np.cumsum(examples)
    return tuple(float(end) for end in passed[:-1] / passed[-1]), float(passed[-1])


def table(schedule: Schedule, resolution: int) -> Mapping[str, np.ndarray]:
    """Tabulates a schedule at `resolution` equal steps of progress.

    Returns:
      `weights` float32 [resolution, levels] and its logarithm `logits`, with
      levels of weight zero at -inf (never drawn).
    """
    weights = np.asarray(
        [schedule(index / resolution) for index in range(resolution)], np.float32
    )
    with np.errstate(divide="ignore"):
        return {"weights": weights, "logits": np.log(weights)}
