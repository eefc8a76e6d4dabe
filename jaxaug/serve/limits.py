"""Limits of requests and connections."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum sizes and times of a request and a connection.

    Attributes:
        body: bytes of a request.
        turns: of a dialogue.
        description: characters of one description that a request brings.
        inputs: that the tracker reads for a request: one for each service in each turn
          of the user; with formats that ask for slots one by one, one for each slot.
        characters: of all inputs of a request together.
        seconds: from a request to its answer, waiting for others included.
        body_seconds: for the body of a request to arrive.
        waiting: requests for predictions that are read, wait or are computed.
        header_seconds: for the header of a request to arrive.
        reading_seconds: for a client to read what was sent.
        connections: that are open. A further one closes the idlest.
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
