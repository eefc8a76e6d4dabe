"""The text of `jaxaug errors`: the worst rows of each table."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from jaxaug.core.columns import aligned, percent
from jaxaug.core.text import printable
from jaxaug.look.evaluations import Evaluation
from jaxaug.look.results import KINDS, Example, Failures, SlotId, by_count

SLOT_COLUMNS = ("in train", "filled", *KINDS, "accuracy")


def title(evaluation: Evaluation, failures: Failures) -> str:
    """Returns a line on run, task, step, split, and wordings."""
    sizes = sorted({(w.frames, w.dialogues) for w in failures.wordings.values()})
    shown = " or ".join(f"{f} frames of {d} dialogues" for f, d in sizes)
    return (
        f"{printable(evaluation.run.name)}: {evaluation.family}, step "
        f"{evaluation.step}, split {evaluation.split}: {shown} under "
        f"{', '.join(failures.wordings)}"
    )


def wording_rows(failures: Failures) -> tuple[list[str], list[list[str]]]:
    """Returns the heading and the rows of the table of wordings."""
    heading = ["wording", "JGA", *KINDS]
    if failures.has_intents:
        heading += ["wrong intent", "wrong requested slots"]
    rows = []
    for name, counts in failures.wordings.items():
        slots = counts.slots
        row = [name, percent(counts.jga)]
        row += map(str, (slots.missed, slots.extra, slots.wrong))
        if failures.has_intents:
            row += map(str, (counts.intents, counts.requested))
        rows.append(row)
    return heading, rows


def slot_row(failures: Failures, slot: SlotId) -> list[str]:
    """Returns the name of a slot and the cells of `SLOT_COLUMNS`, over all wordings."""
    total = failures.total(slot)
    counts = total.filled, total.missed, total.extra, total.wrong
    status = "seen" if slot.service in failures.seen else "unseen"
    return [str(slot), status, *map(str, counts), percent(total.accuracy)]


def split_counts(counts: Counter[str], failures: Failures) -> str:
    """Returns a count by wording, such as "v1 3, v4 1"."""
    return ", ".join(f"{n} {counts[n]}" for n in failures.wordings if counts[n])


def predicted(example: Example) -> str:
    """Returns the predicted value, and the slot that it belongs to."""
    if example.predicted is None:
        return "nothing"
    owner = f" (the value of {example.owner})" if example.owner else ""
    return f"{example.predicted!r}{owner}"


def expected(example: Example) -> str:
    """Returns the annotated values, which are alternatives."""
    return " or ".join(map(repr, example.expected)) or "nothing"


def text(evaluation: Evaluation, failures: Failures, limit: int) -> str:
    """Returns all tables, of at most `limit` rows, and examples of a run."""
    heading, rows = wording_rows(failures)
    parts = [[title(evaluation, failures)], [aligned([heading, *rows])]]
    worst = failures.costliest()
    if not worst and not failures.intents and not failures.requested:
        return "\n\n".join([*map("\n".join, parts), "no failure"])
    if worst:
        parts.append([f"slots by cost{_of(worst, limit)}, over all wordings"])
        rows = [slot_row(failures, slot) for slot in worst[:limit]]
        parts[-1].append(aligned([["", *SLOT_COLUMNS], *rows]))
    names, what = (
        ["the value of", "was given to"],
        "values of another slot of the frame",
    )
    parts += _counted(what, names, failures.owners, failures, limit)
    parts += _sensitivity(failures, limit)
    if failures.has_intents:
        names = ["active intent", "expected", "predicted"]
        parts += _counted("active intents", names, failures.intents, failures, limit)
        names = ["requested slot", "how"]
        parts += _counted("requested slots", names, failures.requested, failures, limit)
    else:
        parts.append([f"{evaluation.family} answers no intents and no requested slots"])
    shown = list(_examples(failures, worst[:limit]))
    if shown:
        parts.append(["examples", *shown])
    return "\n\n".join(map("\n".join, parts))


def _of(rows: Sequence[object], limit: int) -> str:
    return f" ({limit} of {len(rows)})" if len(rows) > limit else ""


def _counted(
    title: str,
    names: Sequence[str],
    table: Mapping[tuple, Counter[str]],
    failures: Failures,
    limit: int,
) -> list[list[str]]:
    """Returns a table of counters with its title, or nothing if it is empty."""
    rows = by_count(table)
    if not rows:
        return []
    cells = [[*names, "times", "under"]]
    cells += [
        [*map(str, key), str(counts.total()), split_counts(counts, failures)]
        for key, counts in rows[:limit]
    ]
    return [[f"{title}{_of(rows, limit)}", _left(cells)]]


def _sensitivity(failures: Failures, limit: int) -> list[list[str]]:
    slots = failures.most_sensitive()
    if not slots:
        return []
    found = [
        f"accuracy under each description, by spread and frames{_of(slots, limit)}"
    ]
    found.append("a spread over few frames may be chance")
    for slot in slots[:limit]:
        found.append(f"{slot}: {percent(failures.spread(slot))} points")
        table = [
            [
                f"  {name}",
                percent(failures.slots[slot][name].accuracy),
                f"of {failures.slots[slot][name].frames}",
                description,
            ]
            for name, description in failures.descriptions[slot].items()
        ]
        found.append(_left(table))
    return [found]


def _examples(failures: Failures, slots: Sequence[SlotId]) -> Iterator[str]:
    """Yields the lines of one example per slot, of the slot's most frequent kind."""
    for slot in slots:
        kind = max(KINDS, key=failures.total(slot).of_kind)
        example = failures.examples[slot, kind][0]
        yield (
            f"{slot}, {example.kind} under {example.wording}: dialogue "
            f"{example.dialogue_id}, turn {example.turn}"
        )
        yield f"  {example.name}: {example.description}"
        for speaker, utterance in example.turns[-3:]:
            yield f"  {speaker}: {utterance}"
        yield f"  expected {expected(example)}, predicted {predicted(example)}"


def _left(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as lines; columns of whole numbers are right-aligned."""
    return aligned(rows, [cell.replace(".", "").isdigit() for cell in rows[-1]])
