"""Checks the JSON of dialogue files against a schema, field by field.

Correct data takes one type or membership test a field; a message is put together
only once something is wrong.
"""

from collections.abc import Collection
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import FETCH_AGAIN, shown
from jaxaug.core.suggestion import suggestion
from jaxaug.data.schema import Schema

_STRINGS = frozenset({str})
_SPEAKERS = ("USER", "SYSTEM")
# Action slots that SGD uses beside those of the service.
_ACTION_SLOTS = frozenset({"", "intent", "count"})
_NO_INTENT = "NONE"
_MISSING = object()
_NOTHING: list[Any] = []  # a missing list that may be missing


class _Wrong(Exception):
    """A rule is broken; every level on the way up adds its place in the file."""

    def __init__(self, field: str, expected: str, got: Any):
        super().__init__()
        self.places: list[str] = []
        self.field, self.expected, self.got = field, expected, got

    def message(self, path: str) -> str:
        where = ": ".join([path, *filter(None, [", ".join(reversed(self.places))])])
        field = f"field {shown(self.field)}: " if self.field else ""
        got = "nothing" if self.got is _MISSING else shown(self.got)
        return f"{where}: {field}expected {self.expected}, got {got}. {FETCH_AGAIN}"


class ServiceRules:
    """The names that may occur in frames of one service.

    Those of `slots` and `intents`; actions may speak of `action_slots`, and a state may
    have one of `active_intents`.
    """

    def __init__(self, slots: frozenset[str], intents: frozenset[str]):
        self.slots, self.intents = slots, intents
        self.action_slots = slots | _ACTION_SLOTS
        self.active_intents = intents | {_NO_INTENT}


def rules_of(schema: Schema) -> dict[str, ServiceRules]:
    """The rules of every service of a schema."""
    return {
        service.name: ServiceRules(
            frozenset(slot.name for slot in service.slots),
            frozenset(intent.name for intent in service.intents),
        )
        for service in schema.services
    }


def check_dialogues(data: Any, schema: Schema, path: str) -> None:
    """Checks what was parsed from a dialogue file.

    Rules: a list of dialogues with distinct ids; each has distinct services of the
    schema and turns; a turn has a speaker (USER or SYSTEM), an utterance and frames,
    at most one a service; a frame's service is one of the dialogue's; its state
    names slots and intents of the service, every slot with a non-empty list of
    strings; spans, actions, service calls and results, where present, have the
    fields and types of SGD and name slots of the service.

    Raises:
      UserError: the first broken rule, with file, dialogue, turn, frame and field.
    """
    rules = rules_of(schema)
    try:
        if type(data) is not list:
            raise _Wrong("", "a list of dialogues", data)
        ids: set[str] = set()
        for index, dialogue in enumerate(data):
            try:
                _check_dialogue(dialogue, rules, ids)
            except _Wrong as wrong:
                wrong.places.append(f"dialogue {_name_of(dialogue, index)}")
                raise
    except _Wrong as wrong:
        raise UserError(wrong.message(path)) from None


def _name_of(dialogue: Any, index: int) -> str:
    name = dialogue.get("dialogue_id") if type(dialogue) is dict else None
    return shown(name) if type(name) is str and name else f"#{index}"


def _check_dialogue(
    dialogue: Any, rules: dict[str, ServiceRules], ids: set[str]
) -> None:
    if type(dialogue) is not dict:
        raise _Wrong("", "an object", dialogue)
    name = dialogue.get("dialogue_id", _MISSING)
    if type(name) is not str or not name:
        raise _Wrong("dialogue_id", "a non-empty string", name)
    if name in ids:
        raise _Wrong("dialogue_id", "an id that no other dialogue has", name)
    ids.add(name)
    services = dialogue.get("services", _MISSING)
    if type(services) is not list or {*map(type, services)} != _STRINGS:
        raise _Wrong("services", "a non-empty list of strings", services)
    if len({*services}) != len(services):
        raise _Wrong("services", "distinct services", services)
    for service in services:
        if service not in rules:
            raise _unknown("services", "services of the split's schema", service, rules)
    turns = dialogue.get("turns", _MISSING)
    if type(turns) is not list or not turns:
        raise _Wrong("turns", "a non-empty list", turns)
    for index, turn in enumerate(turns):
        try:
            _check_turn(turn, services, rules)
        except _Wrong as wrong:
            wrong.places.append(f"turn {index}")
            raise


def _unknown(field: str, expected: str, name: str, known: Collection[str]) -> "_Wrong":
    hint = suggestion(name, known).rstrip(".")
    return _Wrong(field, f"{expected} ({hint})", name)


def _check_turn(turn: Any, services: list[str], rules: dict[str, ServiceRules]) -> None:
    if type(turn) is not dict:
        raise _Wrong("", "an object", turn)
    speaker = turn.get("speaker", _MISSING)
    if speaker not in _SPEAKERS:
        raise _Wrong("speaker", "USER or SYSTEM", speaker)
    utterance = turn.get("utterance", _MISSING)
    if type(utterance) is not str:
        raise _Wrong("utterance", "a string", utterance)
    frames = turn.get("frames", _MISSING)
    if type(frames) is not list:
        raise _Wrong("frames", "a list", frames)
    seen: list[str] = []
    for index, frame in enumerate(frames):
        try:
            service = _service_of(frame, services, rules)
            if service in seen:
                raise _Wrong("service", "one frame a service", service)
            seen.append(service)
            _check_frame(frame, rules[service], len(utterance))
        except _Wrong as wrong:
            wrong.places.append(f"frame {index}")
            raise


def _service_of(frame: Any, services: list[str], rules: dict[str, ServiceRules]) -> str:
    if type(frame) is not dict:
        raise _Wrong("", "an object", frame)
    service = frame.get("service", _MISSING)
    if type(service) is not str:
        raise _Wrong("service", "a string", service)
    if service not in rules:
        raise _unknown("service", "a service of the split's schema", service, rules)
    if service not in services:
        raise _unknown("service", "one of the dialogue's services", service, services)
    return service


def _check_frame(
    frame: dict[str, Any], rules: ServiceRules, utterance_length: int
) -> None:
    if "state" in frame:
        _check_state(frame["state"], rules)
    for span in _objects(frame, "slots"):
        _check_span(span, rules, utterance_length)
    for action in _objects(frame, "actions"):
        _check_action(action, rules)
    if "service_call" in frame:
        call = frame["service_call"]
        if type(call) is not dict:
            raise _Wrong("service_call", "an object", call)
        method = call.get("method", _MISSING)
        if type(method) is not str or method not in rules.intents:
            raise _name_error("service_call.method", "intent", method, rules.intents)
        parameters = call.get("parameters", _MISSING)
        _check_values("service_call.parameters", parameters, rules.slots)
    for result in _objects(frame, "service_results"):
        _check_values("service_results", result, rules.slots)


def _objects(frame: dict[str, Any], field: str) -> list[dict[str, Any]]:
    items = frame.get(field, _NOTHING)
    if type(items) is not list:
        raise _Wrong(field, "a list", items)
    for item in items:
        if type(item) is not dict:
            raise _Wrong(field, "a list of objects", item)
    return items


def _name_error(field: str, what: str, name: Any, known: Collection[str]) -> _Wrong:
    if type(name) is not str:
        return _Wrong(field, f"the name of one {what}", name)
    return _unknown(field, f"{what}s of the service", name, known)


def _check_state(state: Any, rules: ServiceRules) -> None:
    if type(state) is not dict:
        raise _Wrong("state", "an object", state)
    active = state.get("active_intent", _MISSING)
    if type(active) is not str or active not in rules.active_intents:
        raise _name_error("state.active_intent", "intent", active, rules.active_intents)
    requested = state.get("requested_slots", _MISSING)
    if type(requested) is not list:
        raise _Wrong("state.requested_slots", "a list of slots", requested)
    for name in requested:
        if type(name) is not str or name not in rules.slots:
            raise _name_error("state.requested_slots", "slot", name, rules.slots)
    slot_values = state.get("slot_values", _MISSING)
    if type(slot_values) is not dict:
        raise _Wrong(
            "state.slot_values", "an object from slots to lists of values", slot_values
        )
    for name, values in slot_values.items():
        if name not in rules.slots:
            raise _name_error("state.slot_values", "slot", name, rules.slots)
        if type(values) is not list or {*map(type, values)} != _STRINGS:
            raise _Wrong(
                f"state.slot_values.{name}", "a non-empty list of strings", values
            )


def _check_span(span: dict[str, Any], rules: ServiceRules, length: int) -> None:
    name = span.get("slot", _MISSING)
    if type(name) is not str or name not in rules.slots:
        raise _name_error("slots.slot", "slot", name, rules.slots)
    start, end = span.get("start"), span.get("exclusive_end")
    if type(start) is int and type(end) is int and 0 <= start < end <= length:
        return
    raise _Wrong(
        "slots",
        f"0 <= start < exclusive_end <= {length}, the length of the utterance",
        span,
    )


def _check_action(action: dict[str, Any], rules: ServiceRules) -> None:
    act = action.get("act", _MISSING)
    if type(act) is not str:
        raise _Wrong("actions.act", "a string", act)
    name = action.get("slot", "")
    if type(name) is not str or name not in rules.action_slots:
        raise _name_error("actions.slot", "slot", name, rules.slots)
    for field in ("values", "canonical_values"):
        values = action.get(field, _NOTHING)
        if type(values) is not list or not {*map(type, values)} <= _STRINGS:
            raise _Wrong(f"actions.{field}", "a list of strings", values)


def _check_values(field: str, values: Any, slots: frozenset[str]) -> None:
    if type(values) is not dict:
        raise _Wrong(field, "an object from slots to values", values)
    if not values.keys() <= slots:
        raise _name_error(field, "slot", next(iter(values.keys() - slots)), slots)
    if values and {*map(type, values.values())} != _STRINGS:
        raise _Wrong(field, "strings as values", values)
