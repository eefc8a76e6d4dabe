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
    """The example of one user frame.

    `turn` is an index of `dialogue.turns`, `frame` one of that turn's frames.
    """
    formatter = D3STFormatter(Schema((service,)), options)
    (example,) = formatter.dialogue(_only(dialogue, turn, frame), epoch)
    return example


def _only(dialogue: sgd.Dialogue, turn: int, frame: int) -> sgd.Dialogue:
    """The dialogue up to `turn`, with no other state than that of the frame."""
    turns = [replace(item, frames=()) for item in dialogue.turns[: turn + 1]]
    frames = tuple(
        item if index == frame else replace(item, state=None)
        for index, item in enumerate(dialogue.turns[turn].frames)
    )
    turns[turn] = replace(dialogue.turns[turn], frames=frames)
    return replace(dialogue, turns=tuple(turns))
