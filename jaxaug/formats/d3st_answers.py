"""Parser of D3ST answers; `jaxaug.formats.d3st` writes them."""

import functools
import json
import re
import sys
from typing import NamedTuple

from jaxaug.formats.records import (
    NO_INTENT,
    Parsed,
    letter,
    letter_index,
    restore_option,
    sections,
    split_values,
)


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
        values = []
        for value in split_values(content):
            read = _read_value(value, index, options, names.letters)
            if read:
                values.append(read)
            else:
                malformed += 1
        if values:
            slot_values[name] = tuple(values)
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
