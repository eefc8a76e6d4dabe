"""Shared parts of all dialogue formats: example, parsed answer, letters, contexts."""

import functools
import random
import re
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec
from etils import epath

from jaxaug.core.files import PathLike
from jaxaug.core.text import clean
from jaxaug.data.dialogue import Dialogue, Frame
from jaxaug.data.schema import Schema

NO_INTENT = "NONE"
_MARKS = {"USER": " [user]", "SYSTEM": " [system]"}
BAR = "|"
"""Separates several values of one slot, unless a format overrides it."""


class Example(msgspec.Struct, frozen=True, gc=False):
    """One text-to-text example; no field contains a tab or a line break.

    `turn` is the index in the dialogue's turns, and `frame` the index in that turn.
    `key` is JSON from which `parse` turns indices and letters back into names.
    """

    inputs: str
    targets: str
    dialogue_id: str
    turn: int
    frame: int
    service: str
    key: str


class WholeFrame:
    """Mixin of options whose examples ask for the whole state of a frame."""

    __slots__ = ()

    per_slot: ClassVar[bool] = False
    level: Any

    @property
    def answers_intents(self) -> bool:
        """True if the level includes intents."""
        return self.level == "dst_intent"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A dialogue state parsed from text.

    `malformed` counts the pieces of the text that could not be used.
    """

    slot_values: Mapping[str, tuple[str, ...]]
    active_intent: str = NO_INTENT
    requested_slots: tuple[str, ...] = ()
    malformed: int = 0


def merged(first: Parsed, second: Parsed) -> Parsed:
    """Merges two answers about the same frame; in T5DST each is about one slot."""
    return Parsed(
        {**first.slot_values, **second.slot_values},
        first.active_intent
        if first.active_intent != NO_INTENT
        else second.active_intent,
        first.requested_slots + second.requested_slots,
        first.malformed + second.malformed,
    )


class Formatter(Protocol):
    """Formats whole dialogues; services are prepared once and reused."""

    def dialogue(self, dialogue: Dialogue, epoch: int = 0) -> Iterator[Example]:
        """Yields the examples of a dialogue, in the order of its turns and frames."""


class FormatOptions(Protocol):
    """Options of a format: a frozen dataclass that represents the format in all tables.

    Attributes:
        family: name of caches; letters and digits.
        version: part of the cache key: increase it when the text or the key changes.
        per_slot: whether each slot of a service, instead of each frame, is an example.
        answers_intents: whether answers name the active intent and requested slots.
        order: "schema", or "shuffled" for training.
        seed: seed of the shuffled order.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    family: ClassVar[str]
    version: ClassVar[int]
    per_slot: ClassVar[bool]

    def __hash__(self) -> int: ...

    @property
    def order(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def answers_intents(self) -> bool: ...

    def formatter(self, schema: Schema) -> Formatter:
        """Returns a formatter of dialogues under a schema."""

    def parse(self, text: str, key: str) -> Parsed:
        """Returns the state in an answer, given the key of its example."""


@runtime_checkable
class FromData(Protocol):
    """A format whose text depends on other parts of the data folder than the split."""

    @property
    def left_out(self) -> Collection[str]:
        """Ids of dialogues of the split that give no examples; known once `bound`."""

    def sources(self, data_dir: PathLike, split: str) -> Sequence[epath.Path]:
        """Returns files that determine the text; their bytes enter the cache key."""

    def bound(
        self,
        data_dir: PathLike,
        split: str,
        variant: str | None,
        variants_dir: PathLike | None,
    ) -> FormatOptions:
        """Returns the options with the data of these files, for `formatter`."""


@functools.cache
def letter(index: int) -> str:
    """Returns the name of an option: a, b, ... z, aa, ab, ..."""
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(ord("a") + rest) + name
    return name


def letter_index(name: str) -> int:
    """Inverts `letter`, for one or more of the letters a to z."""
    index = 0
    for character in name:
        index = index * 26 + ord(character) - ord("a") + 1
    return index - 1


class FrameRandom(random.Random):
    """Random orders of frames; each depends only on its frame."""

    def start(
        self, seed: int, dialogue_id: str, turn: int, frame: int, epoch: int
    ) -> None:
        """Starts the order of one frame, independently of earlier draws."""
        self.seed(f"{seed}|{epoch}|{turn}|{frame}|{dialogue_id}")

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffles like `random.Random.shuffle`, draw by draw, in half the time."""
        getrandbits = self.getrandbits
        for last in range(len(items) - 1, 0, -1):
            bits = (last + 1).bit_length()
            other = getrandbits(bits)
            while other > last:
                other = getrandbits(bits)
            items[last], items[other] = items[other], items[last]


def marked(speaker: str, utterance: str, lowercase: bool) -> str:
    """Returns an utterance after a space and the mark of its speaker."""
    text = clean(utterance, lowercase)
    return f"{_MARKS[speaker]} {text}" if text else _MARKS[speaker]


def user_frames(
    dialogue: Dialogue, lowercase: bool
) -> Iterator[tuple[str, int, int, Frame]]:
    """Yields (dialogue text up to the turn, turn, frame, the frame) for each state.

    The text is `[user] ... [system] ... [user] ...` with the utterances so far.
    """
    context = ""
    for turn_index, turn in enumerate(dialogue.turns):
        context += marked(turn.speaker, turn.utterance, lowercase)
        if turn.speaker == "USER":
            shown = context[1:]
            for frame_index, frame in enumerate(turn.frames):
                if frame.state is not None:
                    yield shown, turn_index, frame_index, frame


@functools.lru_cache(maxsize=1 << 16)
def clean_value(value: str, lowercase: bool) -> str:
    """Caches `clean` for values, which recur from turn to turn."""
    return clean(value, lowercase)


def join_values(values: Iterable[str], bar: str = BAR) -> str:
    """Returns the text of several values of one slot."""
    return f" {bar} ".join(values)


def split_values(text: str, bar: str = BAR) -> list[str]:
    """Inverts `join_values` for values without the bar between spaces."""
    parts = re.split(rf"(?<!\S){re.escape(bar)}(?!\S)", text)
    return [value.strip() for value in parts]


def restore_option(text: str, options: Sequence[str]) -> str | None:
    """Returns the option equal to `text`, ignoring letter case and spaces."""
    if text in options:
        return text
    folded = clean(text, True)
    return next((value for value in options if clean(value, True) == folded), None)


def read_option(text: str, options: Sequence[str], letters: bool = True) -> str | None:
    """Returns the value that an answer represents, or None if it is no option.

    Args:
        text: the answer; for a slot without options it is the value.
        options: possible values, in the order of their letters.
        letters: whether options are answered by letter.
    """
    if not options:
        return text
    # At least two letters, because a model may write more letters than there are
    # options.
    longest = max(2, len(letter(len(options) - 1)))
    is_letter = letters and len(text) <= longest and text.isascii() and text.isalpha()
    if is_letter and letter_index(text.lower()) < len(options):
        return options[letter_index(text.lower())]
    restored = restore_option(text, options)
    # A single character that names no option is a wrong letter, not an unlisted value.
    return text if restored is None and not (is_letter and len(text) == 1) else restored


def sections(
    text: str, marker: re.Pattern[str], first: str
) -> tuple[dict[str, str], int]:
    """Returns marker -> the text after it, and the number of unusable pieces.

    Without the marker `first`, the text before any marker counts as its section. A
    repeated section, and other text before the first marker, count as unusable.

    Args:
        marker: matches `[name]`, with the name as its group.
        first: name of the section that every answer has.
    """
    pieces = marker.split(" ".join(text.split()))
    found: dict[str, str] = {}
    malformed = 0
    for name, content in zip(pieces[1::2], pieces[2::2], strict=True):
        if name.lower() in found:
            malformed += 1
        else:
            found[name.lower()] = content.strip()
    malformed += first not in found
    if pieces[0].strip():
        if first in found:
            malformed += 1
        else:
            found[first] = pieces[0].strip()
    return found, malformed
