"""D3ST: schema descriptions as prompt, indices as answers (Zhao et al., 2022).

  0=city of the event 1=type of event 1a) music 1b) sports i0=buy tickets
  [user] i want to see a concert   ->   [states] 1=1a [intents] i0 [req_slots] 0

Indices count within the frame's service; slots and intents have separate numbers. The
text equals the output of the authors' script, except where that cannot be inverted or
loses annotation. There is one example per frame with the slots of that service. The
state is the annotated one (not accumulated over turns). Several values of a categorical
slot are joined as letters. As in the script, intents are in the prompt at either level.
A categorical slot whose values are all digits counts as free: the dialogue states the
digits themselves. Figure 2a of Coca et al. (2023) shows such a slot with options, `a) 1
b) 2 c) 3 d) 4`; `digit_options` writes them too.
"""

import functools
import json
import operator
import re
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.core.text import clean
from jaxaug.data.dialogue import State
from jaxaug.data.schema import Schema, Service
from jaxaug.formats.arguments import D3STText
from jaxaug.formats.records import (
    NO_INTENT,
    FramePrompt,
    FrameRandom,
    Parsed,
    SchemaFormatter,
    WholeFrame,
    clean_value,
    join_values,
    letter,
    letter_index,
    read_values,
    restore_option,
    sections,
)


class D3STOptions(D3STText, WholeFrame):
    """Options of D3ST text.

    Attributes:
        digit_options: whether categorical slots whose values are all digits have
            options.
        max_items: (lo, hi) restricts prompt and answer to a random choice of lo to hi
            slots (short prompts, from which a tracker learns indices; `seed` draws
            them too); None shows all.
    """

    digit_options: bool = False
    max_items: tuple[int, int] | None = None

    family: ClassVar[str] = "d3st"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.delimiter or re.search(r"[\w\s]", self.delimiter):
            raise UserError(
                f"D3ST option delimiter={self.delimiter!r}: use one or more characters "
                "that are neither letters, digits nor white space, such as '='."
            )
        if self.max_items is not None:
            low, high = self.max_items
            if not 1 <= low <= high:
                raise UserError(
                    f"D3ST option max_items={self.max_items}: use (lo, hi) with "
                    "1 <= lo <= hi."
                )

    def formatter(self, schema: Schema) -> "D3STFormatter":
        """Returns a formatter of dialogues under a schema."""
        return D3STFormatter(schema, self)

    def parse(self, text: str, key: str) -> Parsed:
        """See `parse` of this module."""
        return parse(text, key)


class _Slot(NamedTuple):
    name: str
    text: str
    options: tuple[str, ...]  # Empty for a free slot.
    option_texts: Mapping[str, str]
    json_name: str
    json_options: Mapping[str, str]  # Maps an option to its JSON form.


class _Intent(NamedTuple):
    name: str
    text: str
    json_name: str


class _Rendering(NamedTuple):
    """A prompt with the data to answer it and to read the answer."""

    prompt: str
    key: str
    # Maps a slot to (index, value -> text).
    answers: Mapping[str, tuple[int, Mapping[str, str]]]
    intents: Mapping[str, int]
    # Maps (slot, values) to (index, answer) for the answers so far, which recur from
    # turn to turn.
    answered: dict[tuple[str, tuple[str, ...]], tuple[int, str]]


_first = operator.itemgetter(0)
_MOST_ANSWERED = 1 << 16  # Maximum per service; one split has some thousands of values.


def _answer(
    name: str, values: tuple[str, ...], rendering: _Rendering, options: D3STOptions
) -> tuple[int, str]:
    """Returns (index of the slot, its part of the target)."""
    index, texts = rendering.answers[name]
    answer = join_values(
        [texts.get(value) or clean_value(value, options.lowercase) for value in values]
    )
    return index, f"{index}{options.delimiter}{answer}"


class _Prompt(FramePrompt[_Slot, _Rendering]):
    """A service prepared for rendering in any order."""

    def __init__(self, service: Service, options: D3STOptions):
        self.options = options
        slots = []
        for slot in service.slots:
            values = slot.possible_values if slot.is_categorical else ()
            if not options.digit_options and all(map(str.isdigit, values)):
                values = ()
            slots.append(
                _Slot(
                    slot.name,
                    clean(slot.description, options.lowercase),
                    values,
                    {value: clean(value, options.lowercase) for value in values},
                    json.dumps(slot.name),
                    {value: json.dumps(value) for value in values},
                )
            )
        self._intents = [
            _Intent(
                intent.name,
                clean(intent.description, options.lowercase),
                json.dumps(intent.name),
            )
            for intent in service.intents
        ]
        letters = str(options.categorical != "none").lower()
        delimiter = json.dumps(options.delimiter)
        self._key_start = f'{{"delimiter":{delimiter},"letters":{letters},"slots":['
        is_fixed = options.order == "schema" and options.max_items is None
        super().__init__({slot.name: slot for slot in slots}, slots, is_fixed)

    def _drawn(self, rng: FrameRandom) -> _Rendering:
        slots = list(self._items)
        if self.options.max_items is not None:
            count = min(rng.randint(*self.options.max_items), len(slots))
            chosen = sorted(rng.sample(range(len(slots)), count))
            slots = [slots[index] for index in chosen]
        if self.options.order != "shuffled":
            return self._write(slots, None)
        rng.shuffle(slots)
        return self._write(slots, rng)

    def _write(self, slots: Sequence[_Slot], rng: FrameRandom | None) -> _Rendering:
        """Returns the prompt of slots; `rng` shuffles intents and options."""
        style, delimiter = self.options.categorical, self.options.delimiter
        intents = list(self._intents)
        if rng is not None:
            rng.shuffle(intents)
        pieces = []
        keys = []
        answers = {}
        for index, (name, text, values, texts, json_name, json_values) in enumerate(
            slots
        ):
            pieces.append(f"{index}{delimiter}{text}")
            if not values:
                keys.append(f"[{json_name},[]]")
                answers[name] = index, texts
                continue
            options: Sequence[str] = values
            if rng is not None:
                options = list(values)
                rng.shuffle(options)
            listed = ",".join([json_values[value] for value in options])
            keys.append(f"[{json_name},[{listed}]]")
            if style != "none":
                mark = str(index) if style == "1a" else ""
                answered = {}
                for position, value in enumerate(options):
                    at = letter(position)
                    answered[value] = f"{index}{at}"
                    pieces.append(f"{mark}{at}) {texts[value]}")
                texts = answered
            answers[name] = index, texts
        numbers = {}
        for index, intent in enumerate(intents):
            pieces.append(f"i{index}{delimiter}{intent.text}")
            numbers[intent.name] = index
        known = []
        if self.options.level == "dst_intent":
            known = [intent.json_name for intent in intents]
        key = f'{self._key_start}{",".join(keys)}],"intents":[{",".join(known)}]}}'
        return _Rendering(" ".join(pieces), key, answers, numbers, {})

    def _target(self, state: State, rendering: _Rendering) -> str:
        answered, options = rendering.answered, self.options
        filled = []
        for item in state.slot_values.items():
            answer = answered.get(item)
            if answer is None:
                if not item[1] or item[0] not in rendering.answers:
                    continue
                answer = _answer(*item, rendering, options)
                if len(answered) < _MOST_ANSWERED:
                    answered[item] = answer
            filled.append(answer)
        filled.sort(key=_first)
        pieces = ["[states]", *[text for _, text in filled]]
        if options.level == "dst_intent":
            pieces.append("[intents]")
            if state.active_intent in rendering.intents:
                pieces.append(f"i{rendering.intents[state.active_intent]}")
            pieces.append("[req_slots]")
            for name in state.requested_slots:
                if name in rendering.answers:
                    pieces.append(str(rendering.answers[name][0]))
        return " ".join(pieces)


class D3STFormatter(SchemaFormatter):
    """Formatter of D3ST."""

    def prepared(self, service: Service) -> _Prompt:
        """See `SchemaFormatter`."""
        return _Prompt(service, self._options)


class _Key(NamedTuple):
    item: re.Pattern[str]  # Matches an index with its delimiter.
    letters: bool
    slots: list[tuple[str, list[str]]]
    intents: list[str]


@functools.lru_cache(maxsize=4096)
def _read_key(key: str) -> _Key:
    data = json.loads(key)
    # No item starts after the bar that joins values: '0:11:30 | 11:30 am'.
    item = re.compile(rf"(?<!\S)(?<!\| )(\d+){re.escape(data['delimiter'])}")
    return _Key(item, data["letters"], data["slots"], data["intents"])


_MARKER = re.compile(r"(?<!\S)\[(states|intents|req_slots)\](?!\S)", re.IGNORECASE)
_LETTERED = re.compile(r"(\d+)([a-z]+)", re.IGNORECASE)
_INTENT = re.compile(r"i(\d+)", re.IGNORECASE)


def parse(text: str, key: str) -> Parsed:
    """Parses the answer `text`, given the key of its example.

    It inverts the formatter, except for what the options drop (letter case of free
    values, runs of spaces). No value may contain a marker, ` | `, or an index with
    delimiter after a space. Any other text is parsed as far as possible. Unusable
    pieces are skipped and counted: unknown or repeated indices, empty values, invalid
    letters, text outside the sections, and repeated sections. Without `[states]`, the
    text before the first marker counts as the states.
    """
    names = _read_key(key)
    found, malformed = sections(text, _MARKER, "states")
    slot_values, unusable = _parse_states(found.get("states", ""), names)
    malformed += unusable
    intent = NO_INTENT
    for word in found.get("intents", "").split():
        match = _INTENT.fullmatch(word)
        if match and _index(match[1]) < len(names.intents) and intent == NO_INTENT:
            intent = names.intents[_index(match[1])]
        else:
            malformed += 1
    requested = []
    for word in found.get("req_slots", "").split():
        if word.isascii() and word.isdigit() and _index(word) < len(names.slots):
            requested.append(names.slots[_index(word)][0])
        else:
            malformed += 1
    return Parsed(slot_values, intent, tuple(requested), malformed)


def _index(digits: str) -> int:
    """Returns the number; a model may write more digits than Python can parse."""
    return int(digits) if len(digits) < 1000 else sys.maxsize


def _parse_states(text: str, names: _Key) -> tuple[dict[str, tuple[str, ...]], int]:
    slot_values: dict[str, tuple[str, ...]] = {}
    pieces = names.item.split(text)
    malformed = int(bool(pieces[0].strip()))
    for digits, content in zip(pieces[1::2], pieces[2::2], strict=True):
        index = _index(digits)
        if index >= len(names.slots) or names.slots[index][0] in slot_values:
            malformed += 1
            continue
        name, options = names.slots[index]
        read = functools.partial(
            _read_value, index=index, options=options, letters=names.letters
        )
        values, wrong = read_values(content, read)
        malformed += wrong
        if values:
            slot_values[name] = values
    return slot_values, malformed


def _read_value(text: str, index: int, options: list[str], letters: bool) -> str | None:
    """Returns the value that `text` represents, or None if it is no option."""
    if not options:
        return text
    match = _LETTERED.fullmatch(text) if letters else None
    # A word longer than any option letter is an unlisted value.
    if match and len(match[2]) > max(3, len(letter(len(options) - 1))):
        match = None
    if match:
        position = letter_index(match[2].lower())
        if _index(match[1]) == index and position < len(options):
            return options[position]
    # Unlisted values are written out; a model may also write out a listed one.
    restored = restore_option(text, options)
    if restored is None and match is None:
        return text
    return restored
