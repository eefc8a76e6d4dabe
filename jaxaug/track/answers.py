"""What a tracker answers: states turn by turn, and where their values were said."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxaug.data.sgd import Dialogue
from jaxaug.formats.records import Parsed


class Said(NamedTuple):
    """Where a value stands: `utterance[start:end]` of a turn is `text`."""

    turn: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class FrameState:
    """The state of one service after a turn of the user.

    Attributes:
      turn: index in the dialogue's turns.
      service: its name.
      state: slots and values, intent, requested slots.
      said: slot -> where its value was said last, for values that were.
    """

    turn: int
    service: str
    state: Parsed
    said: Mapping[str, Said]

    def as_json(self) -> dict[str, Any]:
        """The frame as SGD writes it, with `spans`."""
        return {
            "service": self.service,
            "state": {
                "active_intent": self.state.active_intent,
                "requested_slots": list(self.state.requested_slots),
                "slot_values": {s: list(v) for s, v in self.state.slot_values.items()},
            },
            "spans": {slot: place._asdict() for slot, place in self.said.items()},
        }


@dataclass(frozen=True, slots=True)
class Prediction:
    """A dialogue with its states, in the order of its turns and frames."""

    dialogue: Dialogue
    frames: tuple[FrameState, ...]

    def as_json(self) -> dict[str, Any]:
        """The dialogue as SGD writes it, with the predicted frames."""
        turns = [
            {
                "speaker": turn.speaker,
                "utterance": turn.utterance,
                "frames": [f.as_json() for f in self.frames if f.turn == index],
            }
            for index, turn in enumerate(self.dialogue.turns)
        ]
        return {
            "dialogue_id": self.dialogue.dialogue_id,
            "services": list(self.dialogue.services),
            "turns": turns,
        }


def frame_state(
    dialogue: Dialogue, turn: int, service: str, state: Parsed
) -> FrameState:
    """A state with the places of its values, looked for in the latest turn first."""
    said = {}
    for slot, values in state.slot_values.items():
        for value in values:
            if place := find(dialogue, turn, value):
                said[slot] = place
                break
    return FrameState(turn, service, state, said)


def find(dialogue: Dialogue, turn: int, value: str) -> Said | None:
    """Where a value was said last up to a turn; letter case and spaces do not count."""
    words = value.split()
    if not words:
        return None
    pattern = re.compile(
        r"(?<!\w)" + r"\s+".join(map(re.escape, words)) + r"(?!\w)", re.IGNORECASE
    )
    for index in range(turn, -1, -1):
        utterance = dialogue.turns[index].utterance
        if found := [*pattern.finditer(utterance)]:
            start, end = found[-1].span()
            return Said(index, start, end, utterance[start:end])
    return None
