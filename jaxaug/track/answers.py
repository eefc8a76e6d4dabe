"""The answers of a tracker: states turn by turn, with the source of each value."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxaug.data.sgd import Dialogue
from jaxaug.formats.records import Parsed
from jaxaug.track.combine import Agreement


class Said(NamedTuple):
    """The span of a value: `utterance[start:end]` of a turn is `text`."""

    turn: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class FrameState:
    """The state of one service after a user turn.

    Attributes:
        turn: index of the turn in the dialogue.
        service: name of the service.
        state: slots with values, intent, and requested slots.
        said: slot -> last span of its value; slots whose value does not occur in the
          dialogue are left out.
        agreement: slot -> agreement of the wordings, for each slot that any wording
          fills; None if the tracker uses a single wording.
        uncertain: slots whose agreement is below `min_confidence`; None if it is 0.
        unsaid: slots whose value occurs in no turn; None if this was not checked.
    """

    turn: int
    service: str
    state: Parsed
    said: Mapping[str, Said]
    agreement: Mapping[str, Agreement] | None = None
    uncertain: tuple[str, ...] | None = None
    unsaid: tuple[str, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns the frame in the layout of SGD, with `spans` and requested checks."""
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
        """Returns the dialogue in the layout of SGD, with the predicted frames."""
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
    """Returns one line of `jaxaug predict --out F.jsonl`."""
    return json.dumps(prediction.as_json(), ensure_ascii=False)


def frame_state(
    dialogue: Dialogue, turn: int, service: str, state: Parsed, **checks: Any
) -> FrameState:
    """Returns a state with the spans of its values; the latest turn is searched first.

    Args:
        turn: index of the turn after which the state holds.
        service: name of the service of the state.
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
    """Returns the last span of a value up to a turn, or None if it does not occur.

    Letter case and the amount of white space are ignored.
    """
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
