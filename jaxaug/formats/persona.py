"""Persona-Chat as text: persona and dialogue history -> the next response.

Style `marked`, for models trained from scratch and for language models in general:

  persona   [persona] i have two dogs. [persona] i like to work on vintage cars.
  history   [partner] hi ! [self] hello , how are you ? [partner] fine . and you ?

Style `turns`, for models trained on plain turns such as DialoGPT (Zhang et al., 2020),
has the traits in one line and then a line per utterance. A line break represents the
model's end of sequence, which separates turns in DialoGPT. The order determines the
speaker.

  persona   i have two dogs. i like to work on vintage cars.
  history   hi !
            hello , how are you ?
            fine . and you ?

Persona and history are separate fields. An input that is too long can then lose its
oldest utterances but never its persona.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import one_of
from jaxaug.core.text import clean
from jaxaug.data.personachat import MARKERS, Dialogue

_PERSONA, _PARTNER_PERSONA, _PARTNER, _SELF = MARKERS
STYLES = ("marked", "turns")

# Maps (dialogue, number of the turn) to the traits of the example.
Rewording = Callable[[Dialogue, int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class PersonaOptions:
    """Options of Persona-Chat text.

    Attributes:
        style: `marked` or `turns`.
        utterances: number of last utterances in the history; 0 means all. An odd number
            starts with the partner.
        lowercase: whether all text is lower-cased (the published files are).
    """

    style: str = "marked"
    utterances: int = 0
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise UserError(
                f"persona option style={self.style!r}: {one_of(self.style, STYLES)}"
            )
        if self.utterances < 0:
            raise UserError(
                f"persona option utterances={self.utterances}: use 0 for the whole "
                "dialogue, or the number of last utterances to keep."
            )


@dataclass(frozen=True, slots=True)
class PersonaExample:
    """One response to predict; `turn` is the index in the dialogue's turns."""

    persona: str
    history: str
    targets: str
    dialogue_id: str
    turn: int

    @property
    def inputs(self) -> str:
        """Persona and history as the model reads them."""
        separator = "\n" if "\n" in self.persona + self.history else " "
        return separator.join(filter(None, (self.persona.rstrip("\n"), self.history)))


def examples(
    dialogue: Dialogue, options: PersonaOptions, reword: Rewording | None = None
) -> Iterator[PersonaExample]:
    """Yields the examples of a dialogue, one per turn.

    Args:
        reword: replaces the traits of the model's own persona.
    """
    said: list[tuple[str, str]] = []
    for number, turn in enumerate(dialogue.turns):
        said.append((_PARTNER, clean(turn.partner, options.lowercase)))
        own = dialogue.persona if reword is None else reword(dialogue, number)
        traits = [(_PERSONA, clean(text, options.lowercase)) for text in own]
        traits += [
            (_PARTNER_PERSONA, clean(text, options.lowercase))
            for text in dialogue.partner_persona
        ]
        persona, history = _written(traits, said[-options.utterances :], options.style)
        response = clean(turn.response, options.lowercase)
        yield PersonaExample(persona, history, response, dialogue.dialogue_id, number)
        said.append((_SELF, response))


def _written(
    traits: Sequence[tuple[str, str]], said: Sequence[tuple[str, str]], style: str
) -> tuple[str, str]:
    if style == "marked":
        return _joined(traits), _joined(said)
    persona = " ".join(text for _, text in traits)
    return f"{persona}\n" if persona else "", "\n".join(text for _, text in said)


def _joined(parts: Sequence[tuple[str, str]]) -> str:
    return " ".join(f"{marker} {text}" for marker, text in parts)


def parse(text: str) -> str:
    """Extracts the response from the output of a model.

    It ends where the model continues with the next marker or line. A target is its own
    parse, up to white space, unless it contains a marker or a line break, which no file
    of ConvAI2 does.
    """
    for mark in (*MARKERS, "\n"):
        text = text.strip().split(mark, 1)[0]
    return clean(text, False)
