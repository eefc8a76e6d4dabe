"""The simulated user of MiniSGD."""

from collections.abc import Sequence

from jaxaug_papers.minisgd import language as words
from jaxaug_papers.minisgd.concepts import agreeing, goes_on
from jaxaug_papers.minisgd.speech import Speech
from jaxaug_papers.minisgd.talk import DONTCARE, Talk, Track, fragments, phrases
from jaxaug_papers.minisgd.world import VALUES, SlotSpec

LISTS = {values: name for name, values in VALUES.items()}


class User(Talk):
    """Opens services, answers, changes values, and asks questions."""

    def user_turn(self, number: int, last: bool) -> None:
        speech = Speech("USER")
        for track in self.tracks:
            track.requested = []
        if number == 0:
            self._begin(speech)
        elif (
            self.second is not None
            and len(self.tracks) == 1
            and (last or self.draw.chance(0.5))
        ):
            if self.pending.act == "MORE":
                self._leave(speech, self.track, words.THANKS_NEXT)
            else:
                self._respond(speech)
            self.tracks.append(self.start(self.second))
            self._open(speech, (words.NEXT_COMMAND, words.NEXT_SENTENCE))
        else:
            self._react(speech)
        for track in self.tracks:
            if track is self.track or speech.mentions(track.spec.name):
                speech.set_state(track.spec.name, track.state())
        self.turns.append(speech.turn())

    def _begin(self, speech: Speech) -> None:
        if self.draw.chance(0.25):
            speech.say(self.draw.pick(words.GREETINGS))
        if self.draw.chance(0.06):
            speech.say(self.draw.pick(self.remarks))
        elif self.draw.chance(0.15):
            self._aside(speech)
        self._open(speech, (words.COMMAND, words.SENTENCE))

    def _aside(self, speech: Speech) -> None:
        """Mentions a value that the user does not want for any slot."""
        lists = [LISTS[s.values] for s in self.track.missing() if s.values in LISTS]
        if lists:
            name = self.draw.pick(lists)
            value = self.draw.pick(VALUES[name])
            self.decoys.add(value)
            speech.say(self.draw.pick(words.ASIDES[name]).replace("{v}", value))

    def _open(self, speech: Speech, frames: Sequence[Sequence[str]] = ()) -> None:
        track = self.track
        service, intent = track.spec.name, track.intent.name
        opener = self.draw.pick(track.intent.openers)
        if frames:
            frame = frames[opener.split()[0] in words.SUBJECTS]
            opener = self.draw.pick(frame).format(opener=opener)
        speech.say(opener)
        speech.act(service, "INFORM_INTENT", "intent", intent)
        told = track.missing()[: self.draw.pick((0, 1, 1, 2, 2, 3, 4))]
        self._take_over(speech, track)
        self._tell_all(speech, [s for s in told if s.name not in track.values])

    def _tell_all(self, speech: Speech, slots: Sequence[SlotSpec]) -> None:
        for slot in slots:
            self._tell(speech, slot, last=slot is slots[-1])

    def _take_over(self, speech: Speech, track: Track) -> None:
        """Takes over a value of the previous service: "in the same city"."""
        for slot in track.missing():
            found = [v for t in self.tracks[:-1] for v in _only(t, slot.concept.role)]
            found = [value for value in found if value in self.free(slot)]
            if found and slot.concept.same and self.draw.chance(0.6):
                value = self.draw.pick(found)
                speech.say(self.draw.pick(slot.concept.same))
                speech.act(track.spec.name, "INFORM", slot.name, value)
                track.values[slot.name] = value

    def _leave(self, speech: Speech, track: Track, thanks: Sequence[str]) -> None:
        speech.say(self.draw.pick(thanks))
        speech.act(track.spec.name, "THANK_YOU")
        track.active = False

    def _react(self, speech: Speech) -> None:
        before = dict(self.track.values)
        if self.pending.act != "MORE":
            self._respond(speech)
        elif self._switch_intent(speech):
            return
        elif self.draw.chance(0.35):
            self._leave(speech, self.track, words.THANKS)
            return
        self._extras(speech, before)

    def _respond(self, speech: Speech) -> None:
        """Responds to a question, an offer, or a confirmation of the system."""
        pending, draw = self.pending, self.draw
        if pending.act == "REQUEST":
            self._answer(speech, pending.slots)
        elif pending.act == "OFFER":
            self._take_or_refuse(speech, pending.slots[0], pending.value)
        elif draw.chance(0.35):
            self._change(speech, draw.pick(pending.slots), words.REJECT)
            speech.act(self.track.spec.name, "NEGATE")
        else:
            speech.say(draw.pick(words.AFFIRM))
            speech.act(self.track.spec.name, "AFFIRM")

    def _extras(self, speech: Speech, before: dict[str, str]) -> None:
        """Things a user adds unasked; something, if nothing was said yet."""
        draw, missing = self.draw, self.track.missing()
        old = [s for s in self.track.known() if s.name in before]
        if missing and draw.chance(0.2 if speech.text else 0.6):
            self._tell_all(speech, missing[: 2 if draw.chance(0.3) else 1])
        elif old and self.pending.act in ("MORE", "REQUEST") and draw.chance(0.2):
            self._change(speech, draw.pick(old), words.CHANGE)
        elif missing and draw.chance(0.05):
            self._any(speech, missing[0])
        elif old and draw.chance(0.04):
            slot = draw.pick(old)
            speech.go_on(False)
            speech.say(draw.pick(words.FORGET).format(noun=slot.concept.noun))
            del self.track.values[slot.name]
            # Slots of another intent may have old values.
            if slot.name in self.track.wanted:
                self.track.wanted.remove(slot.name)
            speech.act(self.track.spec.name, "NEGATE")
        if not speech.text or draw.chance(0.15):
            self._wonder(speech)
        if speech.text:
            self.track.active = True
        else:
            self._leave(speech, self.track, words.THANKS)

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
            speech.go_on(False)
            speech.say(self.draw.pick(slot.concept.wonder))
            speech.act(track.spec.name, "REQUEST", slot.name)
            track.requested.append(slot.name)

    def _answer(self, speech: Speech, slots: list[SlotSpec]) -> None:
        for slot in slots:
            speech.go_on(False)
            if self.draw.chance(0.12):
                self._any(speech, slot, alone=len(slots) == 1)
            elif len(slots) == 1 and not slot.is_flag and self.draw.chance(0.3):
                self._tell(speech, slot, templates=("{v}",))
            else:
                self._tell(speech, slot)

    def _take_or_refuse(self, speech: Speech, slot: SlotSpec, value: str) -> None:
        service = self.track.spec.name
        if self.draw.chance(0.5):
            speech.say(self.draw.pick(words.ACCEPT))
            speech.act(service, "SELECT", slot.name, value)
            self.track.values[slot.name] = value
            return
        speech.act(service, "NEGATE")
        self.track.declined.add(slot.name)
        self.decoys.add(value)
        if self.draw.chance(0.4):
            speech.say(self.draw.pick(words.DECLINE))
        else:
            other = self.draw.pick(self.free(slot, value))
            self._say_inside(speech, words.REJECT, slot, other)

    def _switch_intent(self, speech: Speech) -> bool:
        track = self.track
        others = [i for i in track.spec.intents if i.name != track.intent.name]
        if not track.active or not others or not self.draw.chance(0.4):
            return False
        track.intent = self.draw.pick(others)
        track.wanted = self.wanted(track.intent)
        usable = {*track.intent.required, *track.intent.optional}
        track.values = {n: v for n, v in track.values.items() if n in usable}
        self._open(speech)
        return True

    def _any(self, speech: Speech, slot: SlotSpec, alone: bool = False) -> None:
        templates: Sequence[str] = words.ANY_FLAG if slot.is_flag else words.ANY_OPEN
        if alone and self.draw.chance(0.6):
            templates = words.ANY_ASKED
        speech.go_on(False)
        speech.say(self.draw.pick(templates).format(noun=slot.concept.noun))
        speech.act(self.track.spec.name, "INFORM", slot.name, DONTCARE)
        self.track.values[slot.name] = DONTCARE

    def _change(self, speech: Speech, slot: SlotSpec, templates: Sequence[str]) -> None:
        value = self.draw.pick(self.free(slot, self.track.values[slot.name]))
        self._say_inside(speech, templates, slot, value)

    def _say_inside(
        self, speech: Speech, templates: Sequence[str], slot: SlotSpec, value: str
    ) -> None:
        before, after = self.draw.pick(templates).split("{phrase}")
        speech.say(before)
        template = self.draw.pick(fragments(slot, value))
        speech.value(self.track.spec.name, "INFORM", slot, template, value)
        self.track.values[slot.name] = value
        speech.say(after)

    def _tell(
        self,
        speech: Speech,
        slot: SlotSpec,
        templates: Sequence[str] = (),
        last: bool = True,
    ) -> None:
        value = self.draw.pick(self.free(slot))
        slips = words.SLIP + words.NOT_BUT
        offers = [text for text in slot.concept.offer if goes_on(text)]
        if offers and not templates and self.draw.chance(0.06):
            before, _ = self.draw.pick(slips).split("{right}")
            wrong = self.draw.pick(self.free(slot, value))
            template = self.draw.pick(offers)
            phrase = agreeing(template, wrong).replace("{v}", wrong)
            speech.say(before.format(wrong=phrase))
            self.decoys.add(wrong)
            speech.value(self.track.spec.name, "INFORM", slot, template, value)
        else:
            first = not speech.text
            templates = templates or phrases(slot, value, first, last)
            self.say_value(speech, "INFORM", slot, value, templates)
        self.track.values[slot.name] = value


def _only(track: Track, role: str) -> list[str]:
    """Returns the value of a role if "the same" is unambiguous in the service."""
    known = track.known()
    return [
        track.values[slot.name]
        for slot in known
        if role
        and slot.concept.role == role
        and sum(other.values == slot.values for other in known) == 1
    ]
