"""Plots a schedule as level against step, in text and as PNG."""

from collections.abc import Sequence

import numpy as np

from jaxaug.core.figures import new_figure, write_figure
from jaxaug.core.files import PathLike
from jaxaug.curriculum.schedule import Schedule

WIDTH = 60
_SHADES = " .-+#"


def text(schedule: Schedule, width: int = WIDTH, notes: Sequence[str] = ()) -> str:
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
