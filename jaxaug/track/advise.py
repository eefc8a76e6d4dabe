"""`jaxaug advise`: which descriptions of a schema a tracker misreads, and better ones."""

import argparse
import dataclasses
import html
from collections.abc import Iterator, Sequence
from typing import Any

from jaxaug.augment.output import variants
from jaxaug.core import columns, compiled, page
from jaxaug.core.errors import UserError
from jaxaug.core.files import check_writable, write_text
from jaxaug.core.paths import is_same
from jaxaug.data import folders
from jaxaug.metrics.evaluate import write_json
from jaxaug.track import rewordings, trained, turns
from jaxaug.track import run as predicting
from jaxaug.track.advice import Advice, AdviseOptions, Option, advise, advised
from jaxaug.track.tracker import Tracker

_HEADS = (
    "description of",
    "frames",
    "agreement",
    "gets the value of",
    "given",
    "advised",
)
_RIGHT = (False, True, True, False, False, False)
_LEGEND = (
    "frames: those in which an answer is about the description",
    "consensus: the most frequent answer under the rewordings of the schema",
    "agreement: share of the answers that equal the consensus, per cent",
    "gets the value of: slots whose value was given to this slot, and in how many answers",
    "unknown words: those that the training schemas do not have twice; in brackets",
    "log-likelihood: mean of the consensus under the wordings with the text",
)


def run(arguments: argparse.Namespace) -> int:
    """The verb; see `jaxaug advise --help`.

    Raises:
      UserError: the run, the schema, the dialogues, or an option is missing or wrong.
    """
    options = AdviseOptions(arguments.wordings, arguments.candidates, arguments.seed)
    rewordings.check_least(arguments, limit=1)
    for name in ("json", "html", "out"):
        if path := getattr(arguments, name):
            check_writable(path, f"--{name}")
            if is_same(path, arguments.schema):
                raise UserError(
                    f"--{name} {path}: would replace --schema. Name another."
                )
    compiled.keep_programs()
    tracker = Tracker.load(arguments.run, arguments.schema)
    data_dir = folders.resolve_data_dir(arguments.data_dir)
    known = trained.frequent_words(arguments.run, str(data_dir))
    dialogues = []
    title = "no dialogues (--in), so advice is by familiarity of words alone"
    if arguments.input:
        read = predicting.read_input(arguments.input)
        dialogues = turns.read_dialogues(*read, tracker.schema)
        title = f"{len(dialogues):,} dialogues under {options.wordings} wordings"
    found = advise(tracker, dialogues, known, options, predicting.resumed)
    print(table(found, title, arguments.limit))
    if arguments.json:
        about = dataclasses.asdict(options) | {"dialogues": len(dialogues)}
        write_json(
            arguments.json, {"about": about, "descriptions": list(map(_json, found))}
        )
    if arguments.html:
        write_text(arguments.html, html_page(found, title))
    if arguments.out:
        write_text(arguments.out, variants.to_json(advised(tracker.schema, found)))
    for path in filter(None, (arguments.json, arguments.html, arguments.out)):
        print(f"written: {path}")
    return 0


def _json(one: Advice) -> dict[str, Any]:
    item = {
        name: getattr(one.item, name) for name in ("service", "kind", "name", "text")
    }
    return item | {k: v for k, v in dataclasses.asdict(one).items() if k != "item"}


def table(advice: Sequence[Advice], title: str, limit: int) -> str:
    """Returns the printed table: the least stable descriptions first.

    Args:
      advice: of all descriptions.
      title: first line.
      limit: number of rows.
    """
    shown = _worst(advice)[:limit]
    if len(shown) < len(advice):
        title += f" ({len(shown)} of {len(advice)} descriptions)"
    return f"{title}\n\n{columns.aligned([_HEADS, *map(_row, shown)], _RIGHT)}"


def _worst(advice: Sequence[Advice]) -> list[Advice]:
    """Sorted by agreement, then by the number of unknown words."""

    def key(one: Advice) -> tuple[float, int]:
        return 1.0 if one.agreement is None else one.agreement, -one.given.unknown

    return sorted(advice, key=key)


def _row(one: Advice) -> list[str]:
    item, best = one.item, one.options[0]
    return [
        item.service if item.kind == "service" else f"{item.service}.{item.name}",
        str(one.frames),
        _percent(one.agreement),
        ", ".join(f"{name} {count}" for name, count in one.confused.items()),
        _worded(one.given),
        "" if best == one.given else _worded(best),
    ]


def _percent(value: float | None) -> str:
    return "NA" if value is None else f"{100 * value:.1f}"


def _worded(option: Option) -> str:
    return f"{option.text} [{option.unknown}]" if option.unknown else option.text


def html_page(advice: Sequence[Advice], title: str) -> str:
    """Returns a self-contained page: all descriptions, then the wordings of each."""
    shown = _worst(advice)
    rows = [
        [page.number(cell) if right else page.cell(cell) for cell, right in cells]
        for cells in (zip(_row(one), _RIGHT, strict=True) for one in shown)
    ]
    parts = [
        page.head("Advice", page.SORTABLE),
        "<h1>Advice for the descriptions of a schema</h1>",
        *page.paragraphs([title]),
        *page.sortable(_HEADS, rows),
        "<h2>Definitions</h2>",
        *page.items(_LEGEND),
        "<h2>Wordings of each description, best first</h2>",
        *(line for one in shown for line in _options(one)),
        page.SORT,
        page.END,
    ]
    return "\n".join(parts) + "\n"


def _options(one: Advice) -> Iterator[str]:
    title = f"{_row(one)[0]}: {one.item.text}"
    yield f"<details><summary>{html.escape(title)}</summary>"
    rows = []
    for option in one.options:
        likelihood = "NA" if option.likelihood is None else f"{option.likelihood:.2f}"
        numbers = _percent(option.agreement), str(option.unknown), likelihood
        rows.append([page.cell(option.text), *map(page.number, numbers)])
    heads = ["wording", "agreement", "unknown words", "log-likelihood"]
    yield from page.sortable(heads, rows)
    yield "</details>"
