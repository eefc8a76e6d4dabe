"""The D3ST example of a single frame."""

from msgspec.structs import replace

from jaxaug.data import sgd
from jaxaug.data.schema import Schema, Service
from jaxaug.formats.d3st import D3STFormatter, D3STOptions
from jaxaug.formats.records import Example


def format_frame(
    dialogue: sgd.Dialogue,
    turn: int,
    frame: int,
    service: Service,
    options: D3STOptions,
    epoch: int = 0,
) -> Example:
    """Returns the example of one user frame.

    `turn` is an index of `dialogue.turns`, `frame` an index of the frames of that turn.
    """
    formatter = D3STFormatter(Schema((service,)), options)
    (example,) = formatter.dialogue(_only(dialogue, turn, frame), epoch)
    return example


def _only(dialogue: sgd.Dialogue, turn: int, frame: int) -> sgd.Dialogue:
    """Returns the dialogue up to `turn`, with the state of this frame only."""
    turns = [replace(item, frames=()) for item in dialogue.turns[: turn + 1]]
    frames = tuple(
        item if index == frame else replace(item, state=None)
        for index, item in enumerate(dialogue.turns[turn].frames)
    )
    turns[turn] = replace(dialogue.turns[turn], frames=frames)
    return replace(dialogue, turns=tuple(turns))
