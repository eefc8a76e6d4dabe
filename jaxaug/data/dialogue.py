"""Records of dialogues, and a fast reader of dialogue files.

msgspec decodes JSON into typed records and checks the types on the way. It is several
times faster than `json` with the checks of `jaxaug.data.check`. The fast reader accepts
a subset of the files that the checked reader of `jaxaug.data.sgd` accepts, and gives
the same values. All other files are left to the checked reader, which reports the
problem.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
import numpy as np

from jaxaug.core.files import FETCH_AGAIN, PathLike, read_bytes
from jaxaug.data.check import ServiceRules, rules_of
from jaxaug.data.rename import INTENT_ACTS, Renaming, ServiceNames
from jaxaug.data.schema import Schema

_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)


class _Record(msgspec.Struct, frozen=True, gc=False):
    """Base class of records.

    Records have no reference cycles, so the garbage collector skips them. They contain
    tuples, which are allocated and freed faster than lists.
    """


class State(_Record, frozen=True):
    """The dialogue state of one service after a turn.

    `active_intent` is the name of an intent, or "NONE". `slot_values` maps a slot to at
    least one annotated value; several are wordings of the same value.
    """

    active_intent: str
    requested_slots: tuple[str, ...]
    slot_values: dict[str, tuple[str, ...]]


class Span(_Record, frozen=True):
    """A part of the utterance that is the value of a slot."""

    slot: str
    start: int
    exclusive_end: int


class Action(_Record, frozen=True):
    """A dialogue act; the slots `intent` and `count` belong to no schema."""

    act: str
    slot: str = ""
    values: tuple[str, ...] = ()
    canonical_values: tuple[str, ...] = ()


class Call(_Record, frozen=True):
    """A service call. `method` is an intent; `parameters` maps slots to values."""

    method: str
    parameters: dict[str, str]


class Frame(_Record, frozen=True):
    """The annotation of one service in one turn; system turns have no state."""

    service: str
    state: State | None = None
    slots: tuple[Span, ...] = ()
    actions: tuple[Action, ...] = ()
    service_call: Call | None = None
    service_results: tuple[dict[str, str], ...] | None = None


class Turn(_Record, frozen=True):
    """An utterance with its frames, at most one per service."""

    speaker: Literal["USER", "SYSTEM"]
    utterance: str
    frames: tuple[Frame, ...]


class Dialogue(_Record, frozen=True):
    """A dialogue; its id is unique in the split."""

    dialogue_id: str
    services: tuple[str, ...]
    turns: tuple[Turn, ...]


_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_DIALOGUE = msgspec.json.Decoder(Dialogue)


class Rejected(Exception):
    """The fast reader cannot read a file; the checked reader must."""


def read(path: PathLike, schema: Schema) -> Iterator[Dialogue]:
    """Yields the dialogues of a file; each is decoded when it is requested.

    The records of a single dialogue fit into the processor's caches; those for a whole
    file do not.

    Raises:
        Rejected, UnicodeDecodeError, RecursionError, msgspec.DecodeError: the file may
            break a rule, and the checked reader must read it.
        UserError: the file is missing.
    """
    rules = rules_of(schema)
    ids = {""}
    for data in _LIST.decode(read_bytes(path, FETCH_AGAIN)):
        dialogue = _DIALOGUE.decode(data)
        # The decoder drops unknown, null, and repeated fields, so that the JSON text
        # has more strings than the record.
        _require(_quotes(data) == 2 * _check(dialogue, rules))
        _require(dialogue.dialogue_id not in ids)
        ids.add(dialogue.dialogue_id)
        yield dialogue


def renamed(dialogue: Dialogue, names: Renaming) -> Dialogue:
    """Returns a dialogue with the names of a variant; see `jaxaug.data.rename`."""
    turns = [
        Turn(
            turn.speaker,
            turn.utterance,
            tuple([_renamed_frame(one, names[one.service]) for one in turn.frames]),
        )
        for turn in dialogue.turns
    ]
    services = tuple([names[name].service for name in dialogue.services])
    return Dialogue(dialogue.dialogue_id, services, tuple(turns))


def _renamed_frame(frame: Frame, names: ServiceNames) -> Frame:
    slots, intents = names.slots, names.intents
    state, call, results = frame.state, frame.service_call, frame.service_results
    if state is not None:
        state = State(
            intents.get(state.active_intent, state.active_intent),
            tuple([slots[name] for name in state.requested_slots]),
            {slots[name]: v for name, v in state.slot_values.items()},
        )
    if call is not None:
        parameters = {slots[name]: v for name, v in call.parameters.items()}
        call = Call(intents[call.method], parameters)
    if results is not None:
        results = tuple([{slots[n]: v for n, v in one.items()} for one in results])
    return Frame(
        names.service,
        state,
        tuple([Span(slots[s.slot], s.start, s.exclusive_end) for s in frame.slots]),
        tuple([_renamed_action(action, names) for action in frame.actions]),
        call,
        results,
    )


def _renamed_action(action: Action, names: ServiceNames) -> Action:
    act, slot, values, canonical = msgspec.structs.astuple(action)
    # Only the act shows whether "intent" is a slot of the service.
    if slot == "intent" and act in INTENT_ACTS:
        values = tuple([names.intents.get(v, v) for v in values])
        canonical = tuple([names.intents.get(v, v) for v in canonical])
        return Action(act, slot, values, canonical)
    return Action(act, names.slots.get(slot, slot), values, canonical)


def _quotes(data: msgspec.Raw) -> int:
    """Returns the number of unescaped quotation marks in a valid JSON text."""
    marks = int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord('"')))
    return marks - _ESCAPE.findall(data).count(b'"')


def _require(holds: object) -> None:
    if not holds:
        raise Rejected


def _check(dialogue: Dialogue, rules: Mapping[str, ServiceRules]) -> int:
    """Checks the rules that types do not express.

    Returns:
        The number of strings in the record, including field names.
    """
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
                raise Rejected
            if frame.service not in rules:
                raise Rejected
            strings += _check_frame(frame, rules[frame.service], length)
        if len(frames) > 1:
            _require(len({frame.service for frame in frames}) == len(frames))
    return strings


def _is_idle(frame: Frame) -> bool:
    """Returns the same as `jaxaug.data.check.is_idle`."""
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
            raise Rejected
    for action in actions:
        if action.slot not in action_slots:
            raise Rejected
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
            raise Rejected
        strings += 5 + len(state.requested_slots) + len(values)
        strings += sum(map(len, values.values()))
    call = frame.service_call
    if call is not None:
        if call.method not in rules.intents or not call.parameters.keys() <= slots:
            raise Rejected
        strings += 4 + 2 * len(call.parameters)
    results = frame.service_results
    if results is not None:
        strings += 1
        for result in results:
            if not result.keys() <= slots:
                raise Rejected
            strings += 2 * len(result)
    return strings
