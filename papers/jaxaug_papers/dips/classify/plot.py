"""The plot of `jaxaug classify`: accuracy against the share of the data."""

from collections.abc import Sequence

import numpy as np

from jaxaug.core.figures import label, new_figure, write_figure
from jaxaug.core.files import PathLike
from jaxaug_papers.dips.classify.tables import Cell, percent


def write(path: PathLike, cells: Sequence[Cell]) -> None:
    """Draws a panel for each classifier and a line for each row.

    Raises:
        UserError: matplotlib is not installed.
    """
    names = list(dict.fromkeys(cell.classifier for cell in cells))
    shares = sorted({cell.share for cell in cells})
    figure = new_figure(path, 1.5 + 4 * len(names), 4)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        own = [cell for cell in cells if cell.classifier == name]
        for place, method in enumerate(dict.fromkeys(cell.method for cell in own)):
            line = sorted((c for c in own if c.method == method), key=lambda c: c.share)
            values = [100 * cell.accuracy for cell in line]
            axes.errorbar(
                [cell.share for cell in line],
                [value.mean() for value in values],
                [np.std(v, ddof=1) if len(v) > 1 else 0 for v in values],
                color=f"C{place}",
                linestyle="-" if place else "--",
                marker="o",
                markersize=3,
                capsize=2,
                label=label(method),
            )
        axes.set_xscale("log")
        axes.set_xticks(shares, [percent(share) for share in shares])
        axes.set_xlabel("share of the training data")
        axes.set_title(name, fontsize=9)
    panels[0].set_ylabel("accuracy (%)")
    panels[-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    write_figure(path, figure)
