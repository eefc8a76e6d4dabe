"""How much one request may ask for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What is refused beyond.

    Attributes:
      body: bytes of a request.
      turns: of a dialogue.
      description: characters of one description that a request brings.
      seconds: from a request to its answer, waiting for others included.
    """

    body: int = 262_144
    turns: int = 64
    description: int = 1000
    seconds: float = 120.0
