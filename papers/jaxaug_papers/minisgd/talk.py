"""The state of a simulated dialogue: services, values, and the system's last act."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxaug_papers.minisgd.concepts import goes_on
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.speech import Speech
from jaxaug_papers.minisgd.world import IntentSpec, ServiceSpec, SlotSpec

DONTCARE = "dontcare"
NO_INTENT = "NONE"


@dataclass
class Track:
    """The state of one service in the dialogue."""

    spec: ServiceSpec
    intent: IntentSpec
    wanted: list[str]
    active: bool = True
    values: dict[str, str] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    declined: set[str] = field(default_factory=set)

    def missing(self) -> list[SlotSpec]:
        return [self.spec.slot(n) for n in self.wanted if n not in self.values]

    def known(self) -> list[SlotSpec]:
        return [self.spec.slot(n) for n, v in self.values.items() if v != DONTCARE]

    def state(self) -> dict[str, Any]:
        return {
            "active_intent": self.intent.name if self.active else NO_INTENT,
            "requested_slots": sorted(self.requested),
            "slot_values": {slot: [self.values[slot]] for slot in sorted(self.values)},
        }


@dataclass
class Pending:
    """The last act of the system, to which the user reacts."""

    act: str
    slots: list[SlotSpec] = field(default_factory=list)
    value: str = ""


class Talk:
    """A dialogue in progress; base class of user and system."""

    def __init__(
        self,
        draw: Draw,
        first: ServiceSpec,
        second: ServiceSpec | None,
        remarks: Sequence[str],
    ):
        self.draw = draw
        self.remarks = remarks
        self.tracks = [self.start(first)]
        self.second = second
        self.pending = Pending("")
        # Mentioned values that the user does not want.
        self.decoys: set[str] = set()
        self.turns: list[dict[str, Any]] = []

    @property
    def track(self) -> Track:
        return self.tracks[-1]

    def start(self, spec: ServiceSpec) -> Track:
        intent = self.draw.pick(spec.intents)
        return Track(spec, intent, self.wanted(intent))

    def wanted(self, intent: IntentSpec) -> list[str]:
        optional = [name for name in intent.optional if self.draw.chance(0.6)]
        names = [*intent.required, *optional]
        return self.draw.sample(names, len(names))

    def free(self, slot: SlotSpec, but: str = "") -> list[str]:
        """Returns the valid values of a slot in the current state, except `but`."""
        track = self.track
        known = {s.name: track.values[s.name] for s in track.known()}
        found = free_values(slot, track.spec, known, track.wanted)
        found = [value for value in found if value != but]
        return [value for value in found if value not in self.decoys] or found

    def say_value(
        self,
        speech: Speech,
        act: str,
        slot: SlotSpec,
        value: str,
        templates: Sequence[str],
    ) -> None:
        """Appends one of the phrases, after an "and" if it needs one."""
        template = self.draw.pick(templates)
        speech.go_on(goes_on(template))
        speech.value(self.track.spec.name, act, slot, template, value)


def fragments(slot: SlotSpec, value: str) -> tuple[str, ...]:
    """Returns the phrases for a value that fit into any sentence of user or system."""
    if slot.is_flag:
        return (slot.concept.yes if value == "True" else slot.concept.no)[:1]
    return slot.concept.offer


def phrases(slot: SlotSpec, value: str, first: bool, last: bool) -> tuple[str, ...]:
    """Returns the user's phrases for a value.

    Whole sentences are only for the last value: "on Monday with a guide and we start at
    noon".
    """
    concept = slot.concept
    if slot.is_flag:
        found = concept.yes if value == "True" else concept.no
    else:
        found = concept.tell if first else concept.added
    fragments_only = tuple(filter(goes_on, found))
    return found if last or first or not fragments_only else fragments_only


def free_values(
    slot: SlotSpec, spec: ServiceSpec, known: Mapping[str, str], wanted: Collection[str]
) -> list[str]:
    """Returns the values that no other slot of the service has, in a plausible order.

    Origin and destination differ, and a start is before its end. If fewer than two
    values satisfy the order, the order is ignored, because users who reject a value
    need another one.

    Args:
        known: current values by slot, without dontcare.
        wanted: slots that have a value or may still get one.
    """
    taken = {
        value
        for name, value in known.items()
        if name != slot.name and not slot.is_categorical
    }
    free = [value for value in slot.values if value not in taken]
    low, high = _bounds(slot, spec, known, wanted)
    ordered = [value for value in free if low <= slot.values.index(value) < high]
    return ordered if len(ordered) > 1 else free


def _bounds(
    slot: SlotSpec, spec: ServiceSpec, known: Mapping[str, str], wanted: Collection[str]
) -> tuple[int, int]:
    """Returns the range (first, end) of valid positions in the value list."""
    order = slot.values
    low, high = 0, len(order)
    # Two values are reserved for a slot that has no value yet.
    if slot.before in known:
        high = order.index(known[slot.before])
    elif slot.before in wanted:
        high -= 2
    for start in (other.name for other in spec.slots if other.before == slot.name):
        if start in known:
            low = order.index(known[start]) + 1
        elif start in wanted:
            low = 2
    return low, high
