"""Writes the results of `jaxaug sensitivity` as text, JSON, and an HTML page."""

import html
import math
from collections.abc import Iterator
from typing import Any

from jaxaug.calls.better import Better
from jaxaug.calls.measure import KINDS, Described, Figure, Measured
from jaxaug.calls.models import PROSE, TEXT, TOOL_CALLS
from jaxaug.calls.wordings import Wordings
from jaxaug.core import columns, page

_TITLES = {
    "original": "original wording",
    "reworded": "mean of the rewordings",
    "ss": "schema sensitivity (SS)",
    "ss_all": "SS, always wrong as 0",
}
_HEADS = (
    "description of",
    "cases",
    "given",
    "worst",
    "best",
    "worst text",
    "best text",
)
_RIGHT = (False, True, True, True, True, False, False)
_LEGEND = (
    "exact: all calls have the right tool and accepted values, as BFCL matches them",
    "fuzzy: the same, but free texts score as in joint goal accuracy of SGD",
    (
        "SS: standard deviation (ddof 1) over the rewordings of the score of a case, "
        "divided by its mean, averaged over the cases with a score above 0 under any "
        "rewording"
    ),
    "interval: 95%, by a bootstrap over cases, or over dialogues for states",
    (
        "given, worst, best: per cent of the cases in which the argument had a right "
        "value, or the tool was called when it should be, under a text"
    ),
)


def text(found: Measured, better: Better | None, title: str, limit: int) -> str:
    """Returns the printed report.

    Args:
        found: the results.
        better: better descriptions; None if they were not requested.
        title: first line of the report.
        limit: maximum number of descriptions.
    """
    shown = found.descriptions[:limit]
    parts = [
        title,
        columns.aligned([*_wordings(found)], (False, True, True)),
        _forms(found),
    ]
    if shown:
        head = (
            f"{len(shown)} of {len(found.descriptions)} descriptions, costliest first"
        )
        rows = [_HEADS, *map(_row, shown)]
        parts.append(f"{head}\n\n{columns.aligned(rows, _RIGHT)}")
    return "\n\n".join([*parts, *([] if better is None else [_better(better)])])


def _wordings(found: Measured) -> Iterator[tuple[str, ...]]:
    yield ("wording", *_kinds(found))
    for number, name in enumerate(found.wordings):
        yield (name, *(_percent(found.scores[k][number].mean()) for k in KINDS))
    for name, title in _TITLES.items():
        yield (title, *(_interval(found.figures[kind][name]) for kind in KINDS))


def _kinds(found: Measured) -> tuple[str, ...]:
    return ("exact", "fuzzy (JGA)" if found.is_state else "fuzzy")


def _forms(found: Measured) -> str:
    listed = ", ".join(f"{number:,} {form}" for form, number in found.forms.items())
    line = f"replies: {listed}"
    if found.forms.get(PROSE, 0) > found.forms.get(TOOL_CALLS, 0) + found.forms.get(
        TEXT, 0
    ):
        line += (
            ". Most call no tool, and count as such (a chat template without tools "
            "needs --tools_in_prompt)"
        )
    return line


def _row(one: Described) -> tuple[str, ...]:
    worst, best = one.worst, one.best
    numbers = (str(one.cases), *map(_percent, (one.given, worst[1], best[1])))
    texts = [pair[0] if pair[1] != one.given else "" for pair in (worst, best)]
    return (".".join(filter(None, (one.tool, one.argument))), *numbers, *texts)


def _better(better: Better) -> str:
    if not better.texts:
        return (
            "no rewording was better than the given text on the first half of the cases"
        )
    return (
        f"{len(better.texts)} better texts, chosen on half of the cases; on the other "
        f"{better.cases}: {_percent(better.given)} as given, "
        f"{_percent(better.advised)} advised, difference {_interval(better.difference)}"
    )


def _percent(value: float | None) -> str:
    return "NA" if value is None or math.isnan(value) else f"{100 * value:.1f}"


def _interval(figure: Figure) -> str:
    ends = (
        ""
        if figure.low is None
        else f" [{_percent(figure.low)}, {_percent(figure.high)}]"
    )
    return _percent(figure.value) + ends


def as_json(
    found: Measured, better: Better | None, wordings: Wordings, about: dict[str, Any]
) -> dict[str, Any]:
    """Returns the report as JSON; accuracies are fractions.

    Args:
        found: the results.
        better: better descriptions; None if they were not requested.
        wordings: the cases under each wording.
        about: settings of the run, which are copied into the report.
    """
    cases = wordings[found.wordings[0]]
    told: dict[str, Any] = {"about": about, "wordings": list(found.wordings)}
    for kind in KINDS:
        table = found.scores[kind]
        told[kind] = {
            name: {"value": one.value, "interval": [one.low, one.high]}
            for name, one in found.figures[kind].items()
        }
        means = zip(found.wordings, table.mean(axis=1).tolist(), strict=True)
        told[kind]["accuracy"] = dict(means)
        told[kind]["cases"] = {
            case.id: row for case, row in zip(cases, table.T.tolist(), strict=True)
        }
    told["replies"] = dict(found.forms)
    told["descriptions"] = [
        {
            "tool": one.tool,
            "argument": one.argument,
            "cases": one.cases,
            "texts": [{"text": text, "right": share} for text, share in one.options],
        }
        for one in found.descriptions
    ]
    if better is not None:
        told["better"] = {
            "texts": [
                {"tool": tool, "argument": argument, "text": text}
                for (tool, argument), text in better.texts.items()
            ],
            "cases": better.cases,
            "given": better.given,
            "advised": better.advised,
            "interval": [better.difference.low, better.difference.high],
        }
    return told


def html_page(found: Measured, better: Better | None, title: str) -> str:
    """Returns a self-contained HTML page: wordings, descriptions, and their texts."""
    head, *rows = _wordings(found)
    name = "Sensitivity of tool calls"
    cells = [
        [page.number(cell) if right else page.cell(cell) for cell, right in zipped]
        for zipped in (
            zip(_row(one), _RIGHT, strict=True) for one in found.descriptions
        )
    ]
    lines = [title, _forms(found)]
    parts = [
        page.head(name, page.SORTABLE),
        f"<h1>{name}</h1>",
        *page.paragraphs([*lines, *([] if better is None else [_better(better)])]),
        *page.table(head, [page.row("", row[0], row[1:]) for row in rows]),
        "<h2>Descriptions</h2>",
        *page.sortable(_HEADS, cells),
        "<h2>Definitions</h2>",
        *page.items(_LEGEND),
        "<h2>Texts of each description</h2>",
        *(line for one in found.descriptions for line in _texts(one)),
        page.SORT,
        page.END,
    ]
    return "\n".join(parts) + "\n"


def _texts(one: Described) -> Iterator[str]:
    yield f"<details><summary>{html.escape(_row(one)[0])}</summary>"
    rows = [
        [page.cell(text), page.number(_percent(share))] for text, share in one.options
    ]
    yield from page.sortable(("text", "right"), rows)
    yield "</details>"
