"""A seeded simulator of task-oriented dialogues with the annotations of SGD.

User and system alternate, at most three user turns a dialogue. The state of a frame
accumulates over the dialogue as in SGD; values come from the user, or from a system
offer that the user accepts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxaug.data.minisgd import language as words
from jaxaug.data.minisgd.choices import free_values
from jaxaug.data.minisgd.draw import Draw
from jaxaug.data.minisgd.speech import Speech
from jaxaug.data.minisgd.world import (
    IntentSpec,
    ServiceSpec,
    SlotSpec,
    services_of,
    unseen_services,
)

DONTCARE = "dontcare"
NO_INTENT = "NONE"
FILE_DIALOGUES = 128
UNSEEN_SHARE = 0.5
TWO_SERVICES = 0.06
FAILURES = 0.2
USER_TURNS = (1, 2, 2, 2, 3, 3)


@dataclass
class _Track:
    """What has been said about one service so far."""

    spec: ServiceSpec
    intent: IntentSpec
    wanted: list[str]
    active: bool = True
    values: dict[str, str] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)

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
class _Pending:
    """The system's last act, to which the user reacts."""

    act: str
    slots: list[SlotSpec] = field(default_factory=list)
    value: str = ""


class _Simulation:
    def __init__(self, split: str, draw: Draw):
        self.draw = draw
        self.split = split
        first = self._service()
        self.tracks = [self._start(first)]
        self.second: ServiceSpec | None = None
        if draw.chance(TWO_SERVICES):
            others = [s for s in services_of(split) if s.name != first.name]
            self.second = draw.pick(others)
        self.pending = _Pending("")
        self.turns: list[dict[str, Any]] = []

    def _service(self) -> ServiceSpec:
        everything, unseen = services_of(self.split), unseen_services(self.split)
        if self.split == "train":
            return self.draw.pick([s for s in everything for _ in range(s.weight)])
        if self.split == "test" and self.draw.chance(UNSEEN_SHARE):
            return self.draw.pick(unseen)
        if self.split == "test":
            return self.draw.pick([s for s in everything if s not in unseen])
        return self.draw.pick(everything)

    def _start(self, spec: ServiceSpec) -> _Track:
        intent = self.draw.pick(spec.intents)
        return _Track(spec, intent, self._wanted(intent))

    def _wanted(self, intent: IntentSpec) -> list[str]:
        optional = [name for name in intent.optional if self.draw.chance(0.6)]
        names = [*intent.required, *optional]
        return self.draw.sample(names, len(names))

    @property
    def track(self) -> _Track:
        return self.tracks[-1]

    def run(self) -> list[dict[str, Any]]:
        count = self.draw.pick(USER_TURNS)
        if self.second is not None:
            count = max(count, 2)
        for number in range(count):
            last = number == count - 1
            self._user_turn(number, last)
            self._system_turn(last)
        return self.turns

    # -- the user ---------------------------------------------------------

    def _user_turn(self, number: int, last: bool) -> None:
        speech = Speech("USER")
        for track in self.tracks:
            track.requested = []
        if number == 0:
            if self.draw.chance(0.25):
                speech.say(self.draw.pick(words.GREETINGS))
            if self.draw.chance(0.08):
                speech.say(self.draw.pick(words.REMARKS))
            self._open(speech)
        elif (
            self.second is not None
            and len(self.tracks) == 1
            and (last or self.draw.chance(0.5))
        ):
            self._leave(speech, self.track)
            self.tracks.append(self._start(self.second))
            self._open(speech)
        else:
            self._react(speech)
        for track in self.tracks:
            if track is self.track or speech.mentions(track.spec.name):
                speech.set_state(track.spec.name, track.state())
        self.turns.append(speech.turn())

    def _open(self, speech: Speech) -> None:
        track = self.track
        service, intent = track.spec.name, track.intent.name
        speech.say(self.draw.pick(words.OPENERS[service, intent]))
        speech.act(service, "INFORM_INTENT", "intent", intent)
        for slot in track.missing()[: self.draw.pick((0, 1, 1, 2, 2, 3))]:
            self._tell(speech, slot)

    def _leave(self, speech: Speech, track: _Track) -> None:
        speech.say(self.draw.pick(words.THANKS))
        speech.act(track.spec.name, "THANK_YOU")
        track.active = False

    def _react(self, speech: Speech) -> None:
        pending, draw = self.pending, self.draw
        before = dict(self.track.values)
        if pending.act == "REQUEST":
            self._answer(speech, pending.slots)
        elif pending.act == "OFFER":
            self._take_or_refuse(speech, pending.slots[0], pending.value)
        elif pending.act == "CONFIRM" and draw.chance(0.35):
            self._change(speech, draw.pick(pending.slots), words.REJECT)
            speech.act(self.track.spec.name, "NEGATE")
        elif pending.act == "CONFIRM":
            speech.say(draw.pick(words.AFFIRM))
            speech.act(self.track.spec.name, "AFFIRM")
        elif self._switch_intent(speech):
            return
        elif draw.chance(0.35):
            self._leave(speech, self.track)
            return
        self._extras(speech, before)

    def _extras(self, speech: Speech, before: dict[str, str]) -> None:
        """Things a user adds unasked; something, if nothing was said yet."""
        draw, missing = self.draw, self.track.missing()
        old = [s for s in self.track.known() if s.name in before]
        if missing and draw.chance(0.2 if speech.text else 0.6):
            self._tell(speech, missing[0])
        elif old and draw.chance(0.1):
            self._change(speech, draw.pick(old), words.CHANGE)
        elif missing and draw.chance(0.05):
            self._any(speech, missing[0], words.ANY_OPEN)
        elif old and draw.chance(0.04):
            slot = draw.pick(old)
            speech.say(draw.pick(words.FORGET).format(noun=slot.concept.noun))
            del self.track.values[slot.name]
            self.track.wanted.remove(slot.name)
            speech.act(self.track.spec.name, "NEGATE")
        if not speech.text or draw.chance(0.15):
            self._wonder(speech)
        if speech.text:
            self.track.active = True
        else:
            self._leave(speech, self.track)

    def _wonder(self, speech: Speech) -> None:
        track = self.track
        open_slots = [
            slot
            for slot in track.spec.slots
            if slot.concept.wonder
            and slot.name not in track.values
            and slot.name not in track.answered
        ]
        for slot in self.draw.sample(open_slots, 2 if self.draw.chance(0.15) else 1):
            speech.say(self.draw.pick(slot.concept.wonder))
            speech.act(track.spec.name, "REQUEST", slot.name)
            track.requested.append(slot.name)

    def _answer(self, speech: Speech, slots: list[SlotSpec]) -> None:
        for slot in slots:
            if self.draw.chance(0.12):
                one = len(slots) == 1 and self.draw.chance(0.6)
                self._any(speech, slot, words.ANY_ASKED if one else words.ANY_OPEN)
            elif len(slots) == 1 and not slot.is_flag and self.draw.chance(0.35):
                self._tell(speech, slot, template="{v}")
            else:
                self._tell(speech, slot)

    def _take_or_refuse(self, speech: Speech, slot: SlotSpec, value: str) -> None:
        service = self.track.spec.name
        if self.draw.chance(0.6):
            speech.say(self.draw.pick(words.ACCEPT))
            speech.act(service, "SELECT", slot.name, value)
            self._set(slot, value)
        else:
            speech.act(service, "NEGATE")
            self._say_inside(
                speech, self.draw.pick(words.REJECT), slot, self._other(slot, value)
            )

    def _switch_intent(self, speech: Speech) -> bool:
        track = self.track
        others = [i for i in track.spec.intents if i.name != track.intent.name]
        if not track.active or not others or not self.draw.chance(0.4):
            return False
        track.intent = self.draw.pick(others)
        track.wanted = self._wanted(track.intent)
        usable = {*track.intent.required, *track.intent.optional}
        track.values = {n: v for n, v in track.values.items() if n in usable}
        self._open(speech)
        return True

    def _any(self, speech: Speech, slot: SlotSpec, templates: Sequence[str]) -> None:
        speech.say(self.draw.pick(templates).format(noun=slot.concept.noun))
        speech.act(self.track.spec.name, "INFORM", slot.name, DONTCARE)
        self._set(slot, DONTCARE)

    def _change(self, speech: Speech, slot: SlotSpec, templates: Sequence[str]) -> None:
        value = self._other(slot, self.track.values[slot.name])
        self._say_inside(speech, self.draw.pick(templates), slot, value)

    def _say_inside(
        self, speech: Speech, template: str, slot: SlotSpec, value: str
    ) -> None:
        before, after = template.split("{phrase}")
        speech.say(before)
        self._tell(speech, slot, value=value)
        speech.say(after)

    def _tell(
        self, speech: Speech, slot: SlotSpec, template: str = "", value: str = ""
    ) -> None:
        value = value or self.draw.pick(self._free_values(slot))
        speech.value(
            self.track.spec.name,
            "INFORM",
            slot,
            template or self._phrase(slot, value),
            value,
        )
        self._set(slot, value)

    def _set(self, slot: SlotSpec, value: str) -> None:
        self.track.values[slot.name] = value

    def _other(self, slot: SlotSpec, value: str) -> str:
        return self.draw.pick([v for v in self._free_values(slot) if v != value])

    def _free_values(self, slot: SlotSpec) -> list[str]:
        track = self.track
        known = {s.name: track.values[s.name] for s in track.known()}
        return free_values(slot, track.spec, known, track.wanted)

    def _phrase(self, slot: SlotSpec, value: str) -> str:
        concept = slot.concept
        if slot.is_flag:
            return self.draw.pick(concept.yes if value == "True" else concept.no)
        return self.draw.pick(concept.tell)

    # -- the system -------------------------------------------------------

    def _system_turn(self, last: bool) -> None:
        speech, draw, track = Speech("SYSTEM"), self.draw, self.track
        missing = track.missing()
        self.pending = _Pending("MORE")
        if not track.active:
            speech.say(draw.pick(words.GOODBYE if last else words.MORE))
            speech.act(track.spec.name, "GOODBYE" if last else "REQ_MORE")
        elif track.requested:
            self._reply(speech)
        elif missing and not last:
            if not missing[0].is_flag and draw.chance(0.2):
                self._offer(speech, missing[0])
            else:
                self._ask(speech, missing[: 2 if draw.chance(0.25) else 1])
        elif track.known() and not last and draw.chance(0.5):
            self._confirm(speech)
        else:
            self._finish(speech, last)
        self.turns.append(speech.turn())

    def _reply(self, speech: Speech) -> None:
        track = self.track
        result = dict(track.values)
        for name in track.requested:
            slot = track.spec.slot(name)
            value = self.draw.pick(self._free_values(slot))
            result[name] = value
            track.answered.add(name)
            if slot.is_flag:
                yes = value == "True"
                template = words.ANSWER_YES if yes else words.ANSWER_NO
            else:
                template = words.ANSWER
            speech.value(
                track.spec.name, "INFORM", slot, self.draw.pick(template), value
            )
        speech.call(track.spec.name, track.intent.name, track.values, result)

    def _ask(self, speech: Speech, slots: list[SlotSpec]) -> None:
        for slot in slots:
            speech.say(self.draw.pick(slot.concept.ask))
            speech.act(self.track.spec.name, "REQUEST", slot.name)
        self.pending = _Pending("REQUEST", slots)

    def _offer(self, speech: Speech, slot: SlotSpec) -> None:
        value = self.draw.pick(self._free_values(slot))
        before, after = self.draw.pick(words.OFFER).split("{phrase}")
        speech.say(before)
        phrase = self.draw.pick(slot.concept.offer)
        speech.value(self.track.spec.name, "OFFER", slot, phrase, value)
        speech.say(after)
        self.pending = _Pending("OFFER", [slot], value)

    def _confirm(self, speech: Speech) -> None:
        slots = self.draw.sample(self.track.known(), 2 if self.draw.chance(0.5) else 1)
        before, after = self.draw.pick(words.CONFIRM).split("{phrases}")
        speech.say(before)
        for slot in slots:
            value = self.track.values[slot.name]
            phrase = self._phrase(slot, value)
            speech.value(self.track.spec.name, "CONFIRM", slot, phrase, value)
        speech.say(after)
        self.pending = _Pending("CONFIRM", slots)

    def _finish(self, speech: Speech, last: bool) -> None:
        track = self.track
        incomplete = any(slot not in track.values for slot in track.intent.required)
        if incomplete and last and not self.draw.chance(FAILURES):
            speech.say(self.draw.pick(words.LATER))
            speech.act(track.spec.name, "GOODBYE")
            return
        if incomplete:
            speech.say(self.draw.pick(words.FAILURE))
            speech.act(track.spec.name, "NOTIFY_FAILURE")
            return
        if track.intent.is_transactional:
            speech.say(self.draw.pick(words.SUCCESS))
            speech.act(track.spec.name, "NOTIFY_SUCCESS")
        else:
            count = self.draw.pick("2345")
            key = track.spec.name, track.intent.name
            templates = words.COUNTED.get(key, words.FOUND)
            speech.say(self.draw.pick(templates).format(n=count))
            speech.act(track.spec.name, "INFORM_COUNT", "count", count)
        speech.call(
            track.spec.name, track.intent.name, track.values, dict(track.values)
        )


def dialogue(split: str, index: int, seed: int) -> dict[str, Any]:
    """The dialogue of that index (from 0) in SGD layout.

    It depends on split, index and seed only, so any part of a world can be made alone.
    """
    simulation = _Simulation(split, Draw(f"minisgd/{seed}/{split}/{index}"))
    turns = simulation.run()
    file_number, position = divmod(index, FILE_DIALOGUES)
    return {
        "dialogue_id": f"{file_number + 1}_{position:05d}",
        "services": sorted(track.spec.name for track in simulation.tracks),
        "turns": turns,
    }
