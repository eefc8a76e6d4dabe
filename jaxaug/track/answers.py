"""What a tracker answers: states turn by turn, and where their values were said."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxaug.data.sgd import Dialogue
from jaxaug.formats.records import Parsed
from jaxaug.track.combine import Agreement


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
        agreement: slot -> how the wordings of the schema answered, for slots that any
          filled; None if only one was asked.
        uncertain: slots with an agreement below the asked one; None if none was asked.
        unsaid: slots with a value that nobody said; None if that was not checked.
    """

    turn: int
    service: str
    state: Parsed
    said: Mapping[str, Said]
    agreement: Mapping[str, Agreement] | None = None
    uncertain: tuple[str, ...] | None = None
    unsaid: tuple[str, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """The frame as SGD writes it, with `spans` and the checks that were asked for."""
        checks: dict[str, Any] = {}
        if self.agreement is not None:
            checks["agreement"] = {s: a.as_json() for s, a in self.agreement.items()}
        if self.uncertain is not None:
            checks["uncertain"] = list(self.uncertain)
        if self.unsaid is not None:
            checks["unsaid"] = list(self.unsaid)
        return {
            "service": self.service,
            "state": {
                "active_intent": self.state.active_intent,
                "requested_slots": list(self.state.requested_slots),
                "slot_values": {s: list(v) for s, v in self.state.slot_values.items()},
            },
            "spans": {slot: place._asdict() for slot, place in self.said.items()},
            **checks,
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


def as_json_line(prediction: Prediction) -> str:
    """One line of `jaxaug predict --out F.jsonl`."""
    return json.dumps(prediction.as_json(), ensure_ascii=False)


def frame_state(
    dialogue: Dialogue, turn: int, service: str, state: Parsed, **checks: Any
) -> FrameState:
    """A state with the places of its values, looked for in the latest turn first.

    Args:
        dialogue: with the turns.
        turn: of the state.
        service: that the state is of.
        state: that was predicted.
        **checks: further attributes of `FrameState`.
    """
    said = {}
    for slot, values in state.slot_values.items():
        for value in values:
            if place := find(dialogue, turn, value):
                said[slot] = place
                break
    return FrameState(turn, service, state, said, **checks)


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
