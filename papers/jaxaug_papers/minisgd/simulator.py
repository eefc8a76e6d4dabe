"""A seeded simulator of task-oriented dialogues with the annotations of SGD.

User and system alternate, with at most three user turns per dialogue. The state of a
frame accumulates over the dialogue as in SGD. Values come from the user, from an
accepted offer of the system, or from the previous service ("in the same city"). Users
also mention unwanted values and correct themselves.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from etils import epath

from jaxaug_papers.minisgd import language as words
from jaxaug_papers.minisgd.concepts import agreeing
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.speech import Speech
from jaxaug_papers.minisgd.talk import Pending, Talk, fragments
from jaxaug_papers.minisgd.user import User
from jaxaug_papers.minisgd.world import (
    ServiceSpec,
    SlotSpec,
    services_of,
    unseen_services,
)

FILE_DIALOGUES = 128
UNSEEN_SHARE = 0.5
TWO_SERVICES = 0.2
# Probability of a second service that can take over a value of the first one.
RELATED = 0.7
FAILURES = 0.2
USER_TURNS = (1, 2, 2, 2, 3, 3)


class _System(Talk):
    """Asks, offers, confirms, answers, and calls the service."""

    def system_turn(self, last: bool) -> None:
        speech, draw, track = Speech("SYSTEM"), self.draw, self.track
        missing, sure = track.missing(), self.pending.act == "CONFIRM"
        self.pending = Pending("MORE")
        if not track.active:
            speech.say(draw.pick(words.GOODBYE if last else words.MORE))
            speech.act(track.spec.name, "GOODBYE" if last else "REQ_MORE")
        elif track.requested:
            self._reply(speech)
        elif missing and not last:
            refused = missing[0].name in track.declined
            if not missing[0].is_flag and not refused and draw.chance(0.25):
                self._offer(speech, missing[0])
            else:
                self._ask(speech, missing[: 2 if draw.chance(0.25) else 1])
        elif track.known() and not last and not sure and draw.chance(0.5):
            self._confirm(speech)
        else:
            self._finish(speech, last)
        self.turns.append(speech.turn())

    def _reply(self, speech: Speech) -> None:
        track = self.track
        result = dict(track.values)
        for name in track.requested:
            slot = track.spec.slot(name)
            value = self.draw.pick(self.free(slot))
            result[name] = value
            track.answered.add(name)
            template: tuple[str, ...]
            if slot.is_flag:
                yes = value == "True"
                template = words.ANSWER_YES if yes else words.ANSWER_NO
            elif slot.concept.with_article:
                template = words.ANSWER_THE
            else:
                template = words.ANSWER
            self.say_value(speech, "INFORM", slot, value, template)
        speech.call(track.spec.name, track.intent.name, track.values, result)

    def _ask(self, speech: Speech, slots: list[SlotSpec]) -> None:
        for slot in slots:
            speech.go_on(False)
            speech.say(self.draw.pick(slot.concept.ask))
            speech.act(self.track.spec.name, "REQUEST", slot.name)
        self.pending = Pending("REQUEST", slots)

    def _offer(self, speech: Speech, slot: SlotSpec) -> None:
        value = self.draw.pick(self.free(slot))
        before, after = self.draw.pick(words.OFFER).split("{phrase}")
        speech.say(before)
        phrase = agreeing(self.draw.pick(slot.concept.offer), value)
        speech.value(self.track.spec.name, "OFFER", slot, phrase, value)
        speech.say(after)
        self.pending = Pending("OFFER", [slot], value)

    def _confirm(self, speech: Speech) -> None:
        slots = self.draw.sample(self.track.known(), 2 if self.draw.chance(0.5) else 1)
        before, after = self.draw.pick(words.CONFIRM).split("{phrases}")
        speech.say(before)
        for number, slot in enumerate(slots):
            value = self.track.values[slot.name]
            speech.go_on(not number)
            phrase = self.draw.pick(fragments(slot, value))
            speech.value(self.track.spec.name, "CONFIRM", slot, phrase, value)
        speech.say(after)
        self.pending = Pending("CONFIRM", slots)

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
            found = words.COUNTED.get(track.intent.name, (words.FOUND, words.COUNTS))
            templates, counts = found
            count = self.draw.pick(counts)
            speech.say(self.draw.pick(templates).format(n=count))
            speech.act(track.spec.name, "INFORM_COUNT", "count", count)
        speech.call(
            track.spec.name, track.intent.name, track.values, dict(track.values)
        )


class _Simulation(User, _System):
    def run(self) -> list[dict[str, Any]]:
        count = self.draw.pick(USER_TURNS)
        if self.second is not None:
            count = max(count, 2)
        for number in range(count):
            last = number == count - 1
            self.user_turn(number, last)
            self.system_turn(last)
        return self.turns


def _first_service(split: str, draw: Draw) -> ServiceSpec:
    everything, unseen = services_of(split), unseen_services(split)
    if split == "train":
        return draw.pick([s for s in everything for _ in range(s.weight)])
    if split == "test" and draw.chance(UNSEEN_SHARE):
        return draw.pick(unseen)
    if split == "test":
        return draw.pick([s for s in everything if s not in unseen])
    return draw.pick(everything)


def _second_service(split: str, draw: Draw, first: ServiceSpec) -> ServiceSpec:
    others = [spec for spec in services_of(split) if spec.name != first.name]
    if split == "test":
        unseen = unseen_services(split)
        others = [spec for spec in others if (spec in unseen) == (first in unseen)]
    given = {slot.concept.role for slot in first.slots} - {""}
    related = [
        spec
        for spec in others
        if given & {s.concept.role for s in spec.slots if s.concept.same}
    ]
    return draw.pick(related if related and draw.chance(RELATED) else others)


def dialogue(split: str, index: int, seed: int) -> dict[str, Any]:
    """Returns a dialogue in SGD layout, which depends only on the arguments."""
    draw = Draw(f"minisgd/{seed}/{split}/{index}")
    first = _first_service(split, draw)
    second = None
    if draw.chance(TWO_SERVICES):
        second = _second_service(split, draw, first)
    return between(draw, first, second, index)


def between(
    draw: Draw,
    first: ServiceSpec,
    second: ServiceSpec | None,
    index: int,
    remarks: Sequence[str] = words.REMARKS,
) -> dict[str, Any]:
    """Returns a dialogue in SGD layout about one service or two."""
    simulation = _Simulation(draw, first, second, remarks)
    turns = simulation.run()
    file_number, position = divmod(index, FILE_DIALOGUES)
    return {
        "dialogue_id": f"{file_number + 1}_{position:05d}",
        "services": sorted(track.spec.name for track in simulation.tracks),
        "turns": turns,
    }


def write_records(path: epath.Path, records: list[dict[str, Any]]) -> None:
    """Writes a JSON list, one record per line; json's fast encoder cannot indent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(record) for record in records)
    path.write_text(f"[\n{lines}\n]\n")


def write_dialogues(
    folder: epath.Path, size: int, dialogue: Callable[[int], dict[str, Any]]
) -> None:
    """Writes `dialogues_001.json` and so on, with one file in memory at a time."""
    for number, start in enumerate(range(0, size, FILE_DIALOGUES), start=1):
        indices = range(start, min(start + FILE_DIALOGUES, size))
        path = folder / f"dialogues_{number:03d}.json"
        write_records(path, [dialogue(index) for index in indices])
