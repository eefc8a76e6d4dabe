"""A fast reader of dialogue files, for those who need the text and the states alone.

msgspec decodes JSON into typed records and checks the types on the way, several times
faster than `json` and the checks of `jaxaug.data.check`. It reads only what the checked
reader reads, and gives the same values; whatever it cannot vouch for is left to that
reader, whose messages say what is wrong. So a file is never read otherwise than there,
and mistakes are reported as there.

Dialogues are made one at a time, when they are asked for: what is made of one, checked,
used and dropped stays in the processor's caches, which a file's worth of them does not.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.core.files import FETCH_AGAIN, PathLike, read_bytes
from jaxaug.data import sgd
from jaxaug.data.check import ServiceRules, rules_of
from jaxaug.data.rename import Renaming, ServiceNames
from jaxaug.data.schema import Schema

_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)


class _Record(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Records hold no circles: the garbage collector need not look at them.

    Tuples, as they are made and freed faster than lists.
    """


class State(_Record):
    """As `jaxaug.data.sgd.State`."""

    active_intent: str
    requested_slots: tuple[str, ...]
    slot_values: dict[str, tuple[str, ...]]


class _Span(_Record):
    slot: str
    start: int
    exclusive_end: int


class _Action(_Record):
    act: str
    slot: str
    values: tuple[str, ...]
    canonical_values: tuple[str, ...]


class _Call(_Record):
    method: str
    parameters: dict[str, str]


class Frame(_Record):
    """As `jaxaug.data.sgd.Frame`, without `raw`."""

    service: str
    slots: tuple[_Span, ...]
    actions: tuple[_Action, ...]
    state: State | None = None
    service_call: _Call | None = None
    service_results: tuple[dict[str, str], ...] | None = None


class Turn(_Record):
    """As `jaxaug.data.sgd.Turn`."""

    speaker: Literal["USER", "SYSTEM"]
    utterance: str
    frames: tuple[Frame, ...]


class Dialogue(_Record):
    """As `jaxaug.data.sgd.Dialogue`."""

    dialogue_id: str
    services: tuple[str, ...]
    turns: tuple[Turn, ...]


_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_DIALOGUE = msgspec.json.Decoder(Dialogue)


class _Rejected(Exception):
    """The checked reader is to look at the file."""


def read(
    path: PathLike, schema: Schema, rename: Renaming | None = None
) -> Iterator[Dialogue | sgd.Dialogue]:
    """The dialogues of a file, those of the checked reader once it has to read.

    The arguments and errors are those of `jaxaug.data.sgd.read_dialogue_file`; an error
    is raised when its dialogue's turn comes, or before.
    """
    count = 0
    try:
        for dialogue in _read(path, schema):
            if rename is not None:
                _rename(dialogue, rename)
            yield dialogue
            count += 1
    except (
        UserError,
        UnicodeDecodeError,
        RecursionError,
        msgspec.DecodeError,
        _Rejected,
    ):
        yield from sgd.read_dialogue_file(path, schema, rename)[count:]


def _read(path: PathLike, schema: Schema) -> Iterator[Dialogue]:
    rules = rules_of(schema)
    ids = {""}
    for data in _LIST.decode(read_bytes(path, FETCH_AGAIN)):
        dialogue = _DIALOGUE.decode(data)
        # JSON that has a name twice, or null, has more strings than what was made of it.
        _require(_quotes(data) == 2 * _check(dialogue, rules))
        _require(dialogue.dialogue_id not in ids)
        ids.add(dialogue.dialogue_id)
        yield dialogue


def _quotes(data: msgspec.Raw) -> int:
    """Quotation marks that begin or end a string of a correct JSON text."""
    marks = int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord('"')))
    return marks - _ESCAPE.findall(data).count(b'"')


def _require(holds: object) -> None:
    if not holds:
        raise _Rejected


def _check(dialogue: Dialogue, rules: Mapping[str, ServiceRules]) -> int:
    """Checks what types do not; returns the number of strings, names of fields too."""
    services = dialogue.services
    _require(services and dialogue.turns and len({*services}) == len(services))
    _require(rules.keys() >= {*services})
    strings = 4 + len(services)
    for turn in dialogue.turns:
        strings += 5
        length = len(turn.utterance)
        frames = turn.frames
        for frame in frames:
            if frame.service not in services and not _is_idle(frame):
                raise _Rejected
            if frame.service not in rules:
                raise _Rejected
            strings += _check_frame(frame, rules[frame.service], length)
        if len(frames) > 1:
            _require(len({frame.service for frame in frames}) == len(frames))
    return strings


def _is_idle(frame: Frame) -> bool:
    """As `jaxaug.data.check.is_idle`."""
    state = frame.state
    return (
        state is not None
        and state.active_intent == "NONE"
        and not (state.requested_slots or state.slot_values or frame.slots)
    )


def _check_frame(frame: Frame, rules: ServiceRules, length: int) -> int:
    slots, action_slots = rules.slots, rules.action_slots
    actions = frame.actions
    strings = 4 + 4 * len(frame.slots) + 6 * len(actions)
    for span in frame.slots:
        if span.slot not in slots or not 0 <= span.start < span.exclusive_end <= length:
            raise _Rejected
    for action in actions:
        if action.slot not in action_slots:
            raise _Rejected
        strings += len(action.values) + len(action.canonical_values)
    state = frame.state
    if state is not None:
        values = state.slot_values
        if (
            state.active_intent not in rules.active_intents
            or not slots.issuperset(state.requested_slots)
            or not values.keys() <= slots
            or not all(values.values())
        ):
            raise _Rejected
        strings += 5 + len(state.requested_slots) + len(values)
        strings += sum(map(len, values.values()))
    call = frame.service_call
    if call is not None:
        if call.method not in rules.intents or not call.parameters.keys() <= slots:
            raise _Rejected
        strings += 4 + 2 * len(call.parameters)
    results = frame.service_results
    if results is not None:
        strings += 1
        for result in results:
            if not result.keys() <= slots:
                raise _Rejected
            strings += 2 * len(result)
    return strings


def _rename(dialogue: Dialogue, names: Renaming) -> None:
    dialogue.services = tuple([names[name].service for name in dialogue.services])
    for turn in dialogue.turns:
        for frame in turn.frames:
            new = names[frame.service]
            frame.service = new.service
            if frame.state is not None:
                _rename_state(frame.state, new)


def _rename_state(state: State, names: ServiceNames) -> None:
    slots = names.slots
    state.active_intent = names.intents.get(state.active_intent, state.active_intent)
    state.requested_slots = tuple([slots[name] for name in state.requested_slots])
    state.slot_values = {slots[name]: v for name, v in state.slot_values.items()}
