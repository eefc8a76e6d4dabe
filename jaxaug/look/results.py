"""Failures of a run: slots, wordings, examples, and their tables."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jaxaug.metrics import dst

MISSED, EXTRA, WRONG = KINDS = ("missed", "extra", "wrong value")
DEFINITIONS = {
    "missed": "annotated, not predicted",
    "extra": "predicted, not annotated",
    "wrong value": "both, with a score below 1 (see match); the score may be near 1",
    "filled": "frames whose annotation fills the slot",
    "accuracy": "mean score of the slot over the frames in which annotation or "
    "prediction fills it; missed and extra ones score 0",
    "cost": "sum of what is lacking to a score of 1",
    "value of another slot": "a predicted value that is extra or wrong, and right for "
    "another slot of the frame; true, false and dontcare are left out, as well as "
    "categorical slots, which can only answer their own options",
    "spread": "highest minus lowest accuracy of a slot over the wordings, in points; "
    "over few frames it may be chance",
    "joint goal accuracy": dst.DEFINITIONS[dst.JGA],
    "match": dst.DEFINITIONS["match"],
}


class SlotId(NamedTuple):
    """A slot by its original names."""

    service: str
    slot: str

    def __str__(self) -> str:
        return f"{self.service}.{self.slot}"


@dataclass(slots=True)
class SlotCounts:
    """Counts of one slot; see `DEFINITIONS`."""

    filled: int = 0
    missed: int = 0
    extra: int = 0
    wrong: int = 0
    score: float = 0.0

    @property
    def failed(self) -> int:
        """Number of frames in which the slot has a score below 1."""
        return self.missed + self.extra + self.wrong

    @property
    def frames(self) -> int:
        """Number of frames in which annotation or prediction fills the slot."""
        return self.filled + self.extra

    def of_kind(self, kind: str) -> int:
        """Returns the number of failures of one of `KINDS`."""
        return dict(zip(KINDS, (self.missed, self.extra, self.wrong), strict=True))[
            kind
        ]

    @property
    def cost(self) -> float:
        """Cost; see `DEFINITIONS`."""
        return self.frames - self.score

    @property
    def accuracy(self) -> float:
        """Accuracy from 0 to 1, or NaN for an unfilled slot; see `DEFINITIONS`."""
        return self.score / self.frames if self.frames else math.nan

    def add(self, other: "SlotCounts") -> None:
        """Adds the counts of `other` to these counts."""
        self.filled += other.filled
        self.missed += other.missed
        self.extra += other.extra
        self.wrong += other.wrong
        self.score += other.score


@dataclass(frozen=True, slots=True)
class Example:
    """One failure.

    Attributes:
        kind: one of `KINDS`.
        name: `SERVICE.SLOT` by the names of the wording.
        turns: (speaker, utterance) of the last turns up to `turn`.
        before: number of turns that are left out before `turns`.
        expected: annotated values, which are alternatives; empty for an unfilled slot.
        predicted: predicted value; None for no prediction.
        owner: other slots for which the predicted value is right; "" for no such slot.
    """

    slot: SlotId
    kind: str
    wording: str
    name: str
    description: str
    dialogue_id: str
    turn: int
    turns: tuple[tuple[str, str], ...]
    before: int
    expected: tuple[str, ...]
    predicted: str | None
    owner: str


@dataclass(slots=True)
class WordingCounts:
    """Figures of one wording.

    Attributes:
        jga: joint goal accuracy, 0 to 1, or NaN.
        intents: number of frames with a wrong active intent.
        requested: number of frames with wrong requested slots.
    """

    frames: int
    dialogues: int
    jga: float
    slots: SlotCounts = field(default_factory=SlotCounts)
    intents: int = 0
    requested: int = 0


def _tables() -> defaultdict[tuple, Counter[str]]:
    return defaultdict(Counter)


@dataclass(slots=True)
class Failures:
    """The result of `failures.count`; counts are `Counter`s by wording.

    Attributes:
        has_intents: whether the format answers active intents and requested slots.
        slots: slot -> wording -> counts, of all slots of the split's services.
        seen: original names of the services that also occur in the training data.
        descriptions: slot -> wording -> description.
        owners: (slot for which the value is right, slot with the value) -> counts.
        intents: (service, expected, predicted), if they differ -> counts.
        requested: (slot, "missed" or "extra") -> counts.
        examples: (slot, kind) -> examples, of each wording in turn.
    """

    has_intents: bool
    wordings: dict[str, WordingCounts] = field(default_factory=dict)
    slots: dict[SlotId, dict[str, SlotCounts]] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()
    descriptions: dict[SlotId, dict[str, str]] = field(default_factory=dict)
    owners: defaultdict[tuple, Counter[str]] = field(default_factory=_tables)
    intents: defaultdict[tuple, Counter[str]] = field(default_factory=_tables)
    requested: defaultdict[tuple, Counter[str]] = field(default_factory=_tables)
    examples: dict[tuple[SlotId, str], list[Example]] = field(default_factory=dict)

    def total(self, slot: SlotId) -> SlotCounts:
        """Returns the counts of a slot, summed over all wordings."""
        found = SlotCounts()
        for counts in self.slots[slot].values():
            found.add(counts)
        return found

    def costliest(self) -> list[SlotId]:
        """Returns the slots with failures, the highest total cost first."""
        totals = {slot: self.total(slot) for slot in self.slots}
        failing = [slot for slot, total in totals.items() if total.failed]
        return sorted(failing, key=lambda slot: (-totals[slot].cost, slot))

    def spread(self, slot: SlotId) -> float:
        """Returns the highest minus the lowest accuracy over the wordings, 0 to 1."""
        values = [c.accuracy for c in self.slots[slot].values() if c.frames]
        return max(values) - min(values) if values else 0.0

    def most_sensitive(self) -> list[SlotId]:
        """Returns the slots whose accuracy differs by wording.

        They are in the order of spread times frames, the largest first: with few frames
        chance alone makes a large spread.
        """
        differing = [slot for slot in self.slots if self.spread(slot)]
        return sorted(
            differing,
            key=lambda slot: (-self.spread(slot) * self.total(slot).frames, slot),
        )


def by_count(table: Mapping[tuple, Counter[str]]) -> list[tuple[tuple, Counter[str]]]:
    """Returns the rows of a table of counters, the largest total first."""
    return sorted(table.items(), key=lambda row: (-row[1].total(), row[0]))
