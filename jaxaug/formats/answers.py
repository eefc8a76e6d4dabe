"""Parsed answers of a tracker, each with its frame."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxaug.formats.records import Parsed, merged


@dataclass(frozen=True, slots=True)
class FrameAnswer:
    """A parsed answer and its frame; `split` is a split of the data folder."""

    split: str
    dialogue_id: str
    turn: int
    frame: int
    service: str
    parsed: Parsed


def postprocessor(
    parse: Callable[[str, str], Parsed],
) -> Callable[..., FrameAnswer]:
    """Returns the SeqIO `postprocess_fn` of a format.

    Args:
        parse: parser of the format: text and key of an example -> state.

    Returns:
        A function from the text of a target or prediction, and the fields of its
        example, to the answer.
    """

    def postprocess(
        text: str, example: Mapping[str, Any], is_target: bool = False
    ) -> FrameAnswer:
        del is_target
        return FrameAnswer(
            _string(example["split"]),
            _string(example["dialogue_id"]),
            int(example["turn"]),
            int(example["frame"]),
            _string(example["service"]),
            parse(_string(text), _string(example["key"])),
        )

    return postprocess


def join(answers: Sequence[FrameAnswer]) -> dict[tuple[str, int, int, str], Parsed]:
    """Merges answers about the same frame; T5DST gives one answer per slot.

    Returns:
        (dialogue id, turn, frame, service) -> state, in order of appearance.
    """
    frames: dict[tuple[str, int, int, str], Parsed] = {}
    for answer in answers:
        key = (answer.dialogue_id, answer.turn, answer.frame, answer.service)
        known = frames.get(key)
        parsed = answer.parsed
        frames[key] = parsed if known is None else merged(known, parsed)
    return frames


def _string(value: Any) -> str:
    """Returns the text of a string, bytes, or a NumPy scalar of either."""
    value = value.item() if hasattr(value, "item") else value
    return value.decode() if isinstance(value, bytes) else str(value)
