"""Shared parts of all dialogue formats: example, answer, contexts, and formatters.

A formatter prepares the services of a schema once, for dialogues as examples.
"""

import abc
import functools
import random
import re
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import msgspec
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.suggestion import nearest
from jaxaug.core.text import clean
from jaxaug.data.dialogue import Dialogue, Frame, State
from jaxaug.data.schema import Schema, Service

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


def read_values(
    text: str, read: Callable[[str], str | None]
) -> tuple[tuple[str, ...], int]:
    """Returns the values of a text that `read` understands, and how many it does not.

    `read` returns None for a value that it does not understand.
    """
    found = [*map(read, split_values(text))]
    values = tuple(value for value in found if value)
    return values, len(found) - len(values)


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


Answered = tuple[str, str, str]
"""Inputs, targets, and key of an example."""


class Prompt(Protocol):
    """A service, prepared once for all of its frames."""

    @property
    def is_fixed(self) -> bool:
        """True if the order of the prompt never changes."""

    @property
    def known(self) -> Mapping[str, object]:
        """The slots of the service by name."""

    def examples(
        self, state: State, context: str, rng: FrameRandom
    ) -> Iterable[Answered]:
        """Returns the examples of a frame; `rng` draws orders that are not fixed."""


class Rendering(Protocol):
    """A prompt with the data to answer it and to read the answer."""

    @property
    def prompt(self) -> str: ...

    @property
    def key(self) -> str: ...


_R = TypeVar("_R", bound=Rendering)
_I = TypeVar("_I")


class FramePrompt(abc.ABC, Generic[_I, _R]):
    """A prompt with one example per frame, which shows items in some order.

    Attributes:
        known: the slots of the service by name.
        fixed: the rendering in schema order; None if every frame has its own order.
        between: text between prompt and dialogue.
    """

    between: ClassVar[str] = " "

    def __init__(
        self, known: Mapping[str, object], items: Sequence[_I], is_fixed: bool
    ):
        self.known, self._items = known, items
        self.fixed = self._write(items, None) if is_fixed else None

    @property
    def is_fixed(self) -> bool:
        """True if the order of the prompt never changes."""
        return self.fixed is not None

    @abc.abstractmethod
    def _write(self, items: Sequence[_I], rng: FrameRandom | None) -> _R:
        """Returns the prompt of items in order; `rng` shuffles what is inside."""

    @abc.abstractmethod
    def _target(self, state: State, rendering: _R) -> str:
        """Returns the answer for a state."""

    def _drawn(self, rng: FrameRandom) -> _R:
        """Returns the prompt in the order drawn by `rng`."""
        items = list(self._items)
        rng.shuffle(items)
        return self._write(items, rng)

    def examples(
        self, state: State, context: str, rng: FrameRandom
    ) -> Iterable[Answered]:
        """See `Prompt`."""
        rendering = self._drawn(rng) if self.fixed is None else self.fixed
        inputs = f"{rendering.prompt}{self.between}{context}"
        return ((inputs, self._target(state, rendering), rendering.key),)


class SchemaFormatter(abc.ABC):
    """Formats the dialogues of one schema; prepares every service once."""

    def __init__(self, schema: Schema, options: Any):
        self._schema, self._options = schema, options
        self._prompts: dict[str, Prompt] = {}
        self._left_out = options.left_out if isinstance(options, FromData) else ()

    @abc.abstractmethod
    def prepared(self, service: Service) -> Prompt:
        """Returns the prompt of a service."""

    def dialogue(self, dialogue: Dialogue, epoch: int = 0) -> Iterator[Example]:
        """Yields the examples of each user frame that has a state.

        A dialogue that is shown as a demonstration gives no examples.

        Raises:
            UserError: a frame names a service or slot that the schema lacks, or the
                format has no place for it.
        """
        if dialogue.dialogue_id in self._left_out:
            return
        rng, options, name = FrameRandom(), self._options, dialogue.dialogue_id
        for context, turn, index, frame in user_frames(dialogue, options.lowercase):
            prompt = self._prompts.get(frame.service)
            if prompt is None:
                prompt = self.prepared(self._schema.service(frame.service))
                self._prompts[frame.service] = prompt
            state, known = frame.state, prompt.known.keys()
            assert state is not None
            named = state.slot_values.keys()
            if not prompt.is_fixed:
                rng.start(options.seed, name, turn, index, epoch)
            try:
                if not (named <= known and known >= {*state.requested_slots}):
                    slots = (*named, *state.requested_slots)
                    _check_slots(slots, known, frame.service)
                found = prompt.examples(state, context, rng)
            except UserError as error:
                raise UserError(f"dialogue {name!r}, turn {turn}: {error}") from None
            for inputs, targets, key in found:
                yield Example(inputs, targets, name, turn, index, frame.service, key)


def _check_slots(names: Iterable[str], known: Collection[str], service: str) -> None:
    """Raises `UserError` for a slot that the service lacks."""
    for name in names:
        if name not in known:
            raise UserError(
                f"slot {name!r} is no slot of service {service!r} in this "
                f"schema.{nearest(name, known)} Use the schema that belongs to the "
                "dialogues (for a variant, dialogues are renamed while they are read)."
            )
