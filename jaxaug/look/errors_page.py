"""`jaxaug errors`, and its page: all tables, sortable by click, and examples."""

import html
from collections import Counter
from collections.abc import Iterator, Sequence

from jaxaug.core import page
from jaxaug.core.columns import percent
from jaxaug.core.files import PathLike, check_writable, write_text
from jaxaug.core.text import printable
from jaxaug.look import errors_text, evaluations, failures
from jaxaug.look.arguments import Errors
from jaxaug.look.evaluations import Evaluation
from jaxaug.look.results import DEFINITIONS, KINDS, Example, Failures, SlotId, by_count

_STYLE = """
.turn { margin: 0.2em 1em }
.last { font-weight: bold }
.kind { color: #a00 }
"""


def write(path: PathLike, evaluation: Evaluation, failures: Failures) -> None:
    """Writes the page of an evaluation and its `failures.count`."""
    name = f"Errors of {printable(evaluation.run.name)}"
    heading, rows = errors_text.wording_rows(failures)
    parts = [
        *page.paragraphs([errors_text.title(evaluation, failures)]),
        *page.table(heading, rows, sort=True),
        "<h2>Slots</h2>",
        *_slots(failures),
        "<h2>Slots under each description</h2>",
        *_sensitivity(failures),
        "<h2>Values of another slot</h2>",
        *_counted(
            ["the value of", "was given to"], by_count(failures.owners), failures
        ),
    ]
    if failures.has_intents:
        heads = ["service", "expected intent", "predicted intent"]
        parts += [
            "<h2>Active intents</h2>",
            *_counted(heads, by_count(failures.intents), failures),
            "<h2>Requested slots</h2>",
            *_counted(["slot", "how"], by_count(failures.requested), failures),
        ]
    parts += [
        "<h2>Definitions</h2>",
        *page.items(f"{word}: {meaning}" for word, meaning in DEFINITIONS.items()),
        "<h2>Examples</h2>",
        *_examples(failures),
    ]
    write_text(path, page.whole(name, parts, _STYLE, sort=True))


def _slots(failures: Failures) -> list[str]:
    """Returns the table of failing slots, with the failures under each wording."""
    names = list(failures.wordings)
    heads = [
        "slot",
        *errors_text.SLOT_COLUMNS,
        "cost",
        *(f"{n}: failed" for n in names),
    ]
    rows = []
    for slot in failures.costliest():
        cells = errors_text.slot_row(failures, slot)
        link = f'<a href="#{_anchor(slot)}">{html.escape(cells[0])}</a>'
        numbers = [*cells[2:], f"{failures.total(slot).cost:.2f}"]
        numbers += [str(failures.slots[slot][n].failed) for n in names]
        rows.append([page.Html(link), cells[1], *numbers])
    right = [place > 1 for place in range(len(heads))]
    return page.table(heads, rows, right, sort=True)


def _sensitivity(failures: Failures) -> list[str]:
    """Returns the table of slots with their accuracy under each wording."""
    names = list(failures.wordings)
    first = failures.most_sensitive()
    rest = sorted(failures.slots.keys() - {*first})
    rows = []
    for slot in [*first, *rest]:
        if not failures.total(slot).frames:
            continue
        row: list[str] = [str(slot), percent(failures.spread(slot))]
        for name in names:
            counts = failures.slots[slot].get(name)
            if counts is None:
                row.append("")
                continue
            note = f"{failures.descriptions[slot][name]} (of {counts.frames})"
            row.append(page.noted(percent(counts.accuracy), note))
        rows.append(row)
    return page.table(["slot", "spread", *names], rows, sort=True)


def _counted(
    names: Sequence[str], rows: Sequence[tuple[tuple, Counter[str]]], failures: Failures
) -> list[str]:
    """Returns a table of counters with a column for each wording."""
    if not rows:
        return ["<p>None.</p>"]
    wordings = list(failures.wordings)
    heads = [*names, "times", *wordings]
    cells = [
        [*map(str, key), str(counts.total()), *(str(counts[n]) for n in wordings)]
        for key, counts in rows
    ]
    right = [place >= len(names) for place in range(len(heads))]
    return page.table(heads, cells, right, sort=True)


def _examples(failures: Failures) -> Iterator[str]:
    for slot in failures.costliest():
        yield f'<h3 id="{_anchor(slot)}">{html.escape(str(slot))}</h3>'
        for kind in KINDS:
            found = failures.examples.get((slot, kind), ())
            total = failures.total(slot).of_kind(kind)
            if found:
                yield f"<p>{kind}: {len(found)} of {total}</p>"
            for example in found:
                yield from _example(example)


def _example(example: Example) -> list[str]:
    expected, predicted = errors_text.expected(example), errors_text.predicted(example)
    line = f"{example.wording}: expected {expected}, predicted {predicted}"
    place = f"dialogue {example.dialogue_id}, turn {example.turn}"
    lines = [f"<p>{html.escape(f'{place}. {example.name}: {example.description}')}</p>"]
    if example.before:
        lines.append(f'<p class="turn">{example.before} earlier turns</p>')
    for number, (speaker, utterance) in enumerate(example.turns, 1):
        kind = "turn last" if number == len(example.turns) else "turn"
        lines.append(f'<p class="{kind}">{html.escape(f"{speaker}: {utterance}")}</p>')
    summary = f'<span class="kind">{example.kind}</span> {html.escape(line)}'
    return page.details(page.Html(summary), lines)


def _anchor(slot: SlotId) -> str:
    return html.escape(f"slot-{slot}")


def run(arguments: Errors) -> int:
    """Runs the verb; see `jaxaug errors --help`."""
    if arguments.html:
        check_writable(arguments.html, "--html")
    evaluation = evaluations.find(
        arguments.run, arguments.task, arguments.data_dir, arguments.split
    )
    found = failures.count(evaluation, arguments.exact, arguments.limit)
    print(errors_text.text(evaluation, found, arguments.limit))
    if arguments.html:
        write(arguments.html, evaluation, found)
        print(f"\nwritten: {arguments.html}")
    return 0
