"""Prompts of the model that rewords descriptions, names, and sentences.

A prompt gives the model the description of the service and the names of the other
slots, if any, and then the text. Each line behind it has a grade, from 1 (near the
text) to 5 (far from it), and a rewording. The model learns several lines of a text in
one sequence, in random order of their grades. One line is enough for its use:

    Books visits at a veterinary clinic
    slots: pet_name, owner_phone
    slot visit_date: Date of the visit
    3: Day on which the visit takes place

Training and inference both use this module, so that their tokens are equal.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from jaxaug.core.text import clean
from jaxaug.data.rewordings import Record

GRADES = (1, 2, 3, 4, 5)
END = "\n"
"""End of a rewording."""
_SIBLINGS = 6
# Share of the examples without service, slots, and name, as for texts without a schema.
_BARE = 0.2


class Source(NamedTuple):
    """A text to reword.

    Attributes:
        kind: a kind of `rewordings.KINDS`.
        text: the description, name, or sentence.
        name: name of the described slot or intent, if any.
        service: description of its service, if any.
        siblings: names of other slots of the service; the first few are used.
    """

    kind: str
    text: str
    name: str = ""
    service: str = ""
    siblings: Sequence[str] = ()

    def prompt(self, grade: int) -> str:
        """Returns the prompt for a rewording of a grade.

        The rewording follows with a space before it and `END` behind it.
        """
        lines = [clean(self.service, False)] if self.service else []
        if self.siblings:
            lines.append(f"slots: {', '.join(self.siblings[:_SIBLINGS])}")
        named = f"{self.kind} {self.name}" if self.name else self.kind
        lines += [f"{named}: {clean(self.text, False)}", f"{grade}:"]
        return "\n".join(lines)


def pairs(records: Iterable[Record], passes: int, most: int) -> list[tuple[str, str]]:
    """Returns (prompt, lines) examples of the corpus; equal calls have equal results.

    Args:
        records: records of the corpus.
        passes: number of examples in which each rewording occurs. In every other pass,
            the text and its nearest rewording trade places.
        most: largest number of rewordings of an example.
    """
    found = list(records)
    contexts = _contexts(found)
    chosen = random.Random(0)
    return [
        example
        for number in range(passes)
        for record in found
        for example in _examples(
            record, contexts[record.service], number % 2 == 1, most, chosen
        )
    ]


class _Context(NamedTuple):
    description: str
    slots: list[str]


def _contexts(records: Sequence[Record]) -> dict[str, _Context]:
    contexts: dict[str, _Context] = {}
    for record in records:
        context = contexts.setdefault(record.service, _Context("", []))
        if record.kind == "service":
            contexts[record.service] = context._replace(description=record.text)
        if record.kind == "slot":
            context.slots.append(record.name)
        if record.kind == "name":
            context.slots.append(record.text)
    return contexts


def _source(record: Record, context: _Context, text: str) -> Source:
    own = record.text if record.kind == "name" else record.name
    others = [name for name in context.slots if name != own]
    match record.kind:
        case "slot":
            return Source("slot", text, record.name, context.description, others)
        case "intent":
            return Source("intent", text, record.name, context.description)
        case "name":
            return Source("name", text, siblings=others)
    return Source(record.kind, text)


def _examples(
    record: Record, context: _Context, trades: bool, most: int, chosen: random.Random
) -> Iterator[tuple[str, str]]:
    text, good = record.text, list(record.good)
    if trades:
        text, good[0] = good[0], text
    order = list(GRADES[: len(good)])
    chosen.shuffle(order)
    parts = -(-len(order) // most)
    for part in range(parts):
        source = _source(record, context, text)
        if chosen.random() < _BARE:
            source = Source(source.kind, source.text)
        grades = order[part::parts]
        lines = [f" {clean(good[grade - 1], False)}{END}" for grade in grades]
        behind = [f"{grade}:{line}" for grade, line in zip(grades, lines, strict=True)]
        yield source.prompt(grades[0]), lines[0] + "".join(behind[1:])
