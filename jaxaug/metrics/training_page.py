"""The training section of the page of `jaxaug report --html`."""

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxaug_base.event_files import Curve

from jaxaug.core import page
from jaxaug.core.figures import label, new_figure
from jaxaug.core.files import PathLike
from jaxaug.metrics.training import Sample, Training, last

STYLE = """
details td { max-width: 40em; overflow-wrap: anywhere }
tr.other td:last-child { color: #a00 }
summary { cursor: pointer }
pre { background: #f6f6f6; padding: 0.5em; overflow-x: auto }
"""

# Maps the title of a plot to tags, of which the first existing one is drawn.
_PLOTS = {
    "loss a token": ("loss_per_nonpadding_target_token", "loss"),
    "accuracy of tokens": ("accuracy",),
    "learning rate": ("learning_rate/current", "learning_rate"),
    "examples a second": ("timing/seqs_per_second",),
}
_TRAINING = "training"
_COLUMNS = 3


def section(path: PathLike, training: Training) -> list[str]:
    """Returns curves, scores, outputs with targets, and configuration as HTML."""
    parts = [f"<h2>Training of {html.escape(training.name)}</h2>"]
    plots = dict(_plots(training))
    # A single point is a value.
    curves = {
        t: own for t, own in plots.items() if any(len(c) > 1 for c in own.values())
    }
    if curves:
        parts.append(_curves(path, curves))
    elif not plots:
        parts += page.paragraphs(["It has no event files, so there are no curves"])
    # Scores of a single evaluation stand in the table of scores.
    parts += _values({t: plots[t] for t in _PLOTS if t in plots and t not in curves})
    parts += _scores(training.scores)
    for task, samples in training.samples.items():
        parts += _outputs(task, samples)
    parts += _details("Choices of the environment", _lines(training.choices))
    parts += _details("Configuration (config.gin)", training.config)
    return parts


def _plots(training: Training) -> Iterator[tuple[str, Mapping[str, Curve]]]:
    """Yields (title, line name -> curve) for the plots that have a curve."""
    for title, tags in _PLOTS.items():
        lines = {_TRAINING: _first(training.steps, tags)}
        for task, curves in training.held_out.items():
            lines[task] = _first(curves, tags)
        if found := {name: curve for name, curve in lines.items() if curve}:
            yield title, found
    # For each task, only the score that it names first is drawn.
    metrics: dict[str, dict[str, Curve]] = {}
    for task, curves in training.scores.items():
        for metric, curve in list(curves.items())[:1]:
            metrics.setdefault(metric, {})[task] = curve
    yield from metrics.items()


def _first(curves: Mapping[str, Curve], tags: Sequence[str]) -> Curve:
    return next((curves[tag] for tag in tags if tag in curves), {})


def _values(plots: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    """Returns a table of plots whose lines have one point each."""
    rows = [
        [f"{title}, {name}", str(step), f"{value:.4g}"]
        for title, lines in plots.items()
        for name, curve in lines.items()
        for step, value in curve.items()
    ]
    return page.table(["recorded once", "step", "value"], rows) if rows else []


def _curves(path: PathLike, plots: Mapping[str, Mapping[str, Curve]]) -> str:
    rows = -(-len(plots) // _COLUMNS)
    figure = new_figure(path, 12, 3.2 * rows)
    grid = [*figure.subplots(rows, _COLUMNS, squeeze=False).flat]
    for axes, (title, lines) in zip(grid, plots.items(), strict=False):
        _draw(axes, title, lines)
    for axes in grid[len(plots) :]:
        axes.set_visible(False)
    return page.image(figure, f"Curves over the steps: {', '.join(plots)}")


def _draw(axes: Any, title: str, lines: Mapping[str, Curve]) -> None:
    for name, curve in lines.items():
        marker = "o" if len(curve) < 20 else None
        # A single evaluation next to a curve is a point with its value.
        text = name if len(curve) > 1 else f"{name}: {last(curve):.4g}"
        axes.plot(
            [*curve], [*curve.values()], marker=marker, markersize=3, label=label(text)
        )
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("step", fontsize=8)
    axes.grid(alpha=0.3)
    if [*lines] != [_TRAINING]:
        axes.legend(fontsize=7)


def _scores(scores: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    metrics = list(dict.fromkeys(m for curves in scores.values() for m in curves))
    if not metrics:
        return []
    steps = {
        task: max((max(curve) for curve in curves.values()), default=0)
        for task, curves in scores.items()
    }
    rows = [
        [metric, *(_score(scores[task].get(metric)) for task in scores)]
        for metric in metrics
    ]
    headings = (f"{task}, step {step}" for task, step in steps.items())
    return ["<h3>Scores</h3>", *page.table(["", *headings], rows)]


def _score(curve: Curve | None) -> str:
    return f"{last(curve):.4g}" if curve else ""


def _outputs(task: str, samples: Sequence[Sample]) -> list[str]:
    rows = [[one.source, one.target, one.output] for one in samples]
    kinds = ["same" if one.output == one.target else "other" for one in samples]
    heads = ["input", "target", "output"]
    table = page.table(heads, rows, [False] * 3, kinds=kinds)
    return page.details(f"Outputs of {task}", table)


def _lines(choices: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in choices.items())


def _details(title: str, text: str) -> list[str]:
    return page.details(title, [f"<pre>{html.escape(text)}</pre>"]) if text else []
