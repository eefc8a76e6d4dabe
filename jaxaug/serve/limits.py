"""Limits of requests and connections."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxaug.core.errors import UserError
from jaxaug.data.dialogue import Dialogue
from jaxaug.data.schema import Service

if TYPE_CHECKING:
    from jaxaug.track.base import BaseTracker


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum sizes and times of a request and a connection.

    Attributes:
        body: bytes of a request.
        turns: turns of all dialogues of a request.
        description: characters of one description in a request.
        inputs: model inputs of a request. There is one input for each service in each
            user turn; formats that ask for each slot separately have one for each slot.
        characters: characters of all model inputs of a request.
        seconds: seconds from a request to its answer, including waiting for others.
        body_seconds: seconds in which the body of a request must arrive.
        waiting: prediction requests that are read, wait, or are computed.
        header_seconds: seconds in which the header of a request must arrive.
        reading_seconds: seconds in which a client must read the data that was sent.
        connections: open connections; a further one closes the idlest.
        tools_seconds: seconds in which the tools of a request must be read.
        tools_memory: bytes of memory that reading the tools of a request may take.
    """

    body: int = 262_144
    turns: int = 64
    description: int = 1000
    inputs: int = 4096
    characters: int = 33_554_432
    seconds: float = 120.0
    body_seconds: float = 20.0
    waiting: int = 64
    header_seconds: float = 10.0
    reading_seconds: float = 30.0
    connections: int = 256
    tools_seconds: float = 5.0
    tools_memory: int = 268_435_456


def check_size(
    limits: Limits, tracker: "BaseTracker", dialogues: Sequence[Dialogue]
) -> None:
    """Refuses dialogues that would take too long.

    Raises:
        UserError: the dialogues have too many turns, or give too many or too long
            model inputs.
    """
    turns = sum(len(dialogue.turns) for dialogue in dialogues)
    if turns > limits.turns:
        raise UserError(
            f"dialogue: has {turns} turns; at most {limits.turns} are taken in a "
            "request. Leave out the first ones."
        )
    slots, texts = {}, {}
    for service in tracker.schema.services:
        slots[service.name] = len(service.slots) if tracker.per_slot else 1
        texts[service.name] = _characters(service)
    inputs = characters = 0
    times = 1 + tracker.robust.wordings
    for dialogue in dialogues:
        said = 0
        for turn in dialogue.turns:
            said += len(turn.utterance)
            for frame in turn.frames:
                asked = slots[frame.service]
                inputs += times * asked
                characters += times * (said * asked + texts[frame.service])
    for found, most, what in (
        (inputs, limits.inputs, "inputs"),
        (characters, limits.characters, "characters of inputs"),
    ):
        if found > most:
            raise UserError(
                f"dialogue: its turns and services make {found} {what}; at most {most} "
                "are taken. Name fewer services, or leave out turns or text."
            )


def _characters(service: Service) -> int:
    """Returns the total length of the texts of a service."""
    texts = [service.description, *(intent.description for intent in service.intents)]
    for slot in service.slots:
        texts += [slot.description, *slot.possible_values]
    return sum(map(len, texts))
