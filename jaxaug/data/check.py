"""Checks the JSON of dialogue files against a schema, field by field.

Readers stop at the first problem (`check_dialogues`). `jaxaug data check` reports every
problem (`dialogue_problems`).
"""

import sys
from collections.abc import Collection, Iterator
from typing import Any

from jaxaug.core.files import PathLike, shown
from jaxaug.core.json_places import Keys
from jaxaug.core.suggestion import suggestion
from jaxaug.data.schema import REPEATED, WRONG_TYPE, Problem, Schema, refuse

UNKNOWN_SERVICE = "unknown service"

_STRINGS = frozenset({str})
_SPEAKERS = ("USER", "SYSTEM")
# Action slots that SGD uses in addition to the slots of the service.
_ACTION_SLOTS = frozenset({"", "intent", "count"})
_NO_INTENT = "NONE"
_IDLE = {"active_intent": _NO_INTENT, "requested_slots": [], "slot_values": {}}
_MISSING = object()


def place_of(data: Any, keys: Keys) -> str:
    """Returns the dialogue, turn, and frame of a path of keys, in words."""
    words = []
    if keys:
        index = keys[0]
        dialogue = data[index]
        name = dialogue.get("dialogue_id") if type(dialogue) is dict else None
        known = type(name) is str and name
        words.append(f"dialogue {shown(name) if known else f'#{index}'}")
    if len(keys) > 2 and keys[1] == "turns":
        words.append(f"turn {keys[2]}")
    if len(keys) > 4 and keys[3] == "frames":
        words.append(f"frame {keys[4]}")
    return ", ".join(words)


class ServiceRules:
    """The names that are valid in frames of one service.

    `action_slots` are valid in actions, `active_intents` in states.
    """

    def __init__(self, slots: frozenset[str], intents: frozenset[str]):
        self.slots, self.intents = slots, intents
        self.action_slots = slots | _ACTION_SLOTS
        self.active_intents = intents | {_NO_INTENT}


def rules_of(schema: Schema) -> dict[str, ServiceRules]:
    """Returns the rules of every service of a schema."""
    return {
        service.name: ServiceRules(
            frozenset(slot.name for slot in service.slots),
            frozenset(intent.name for intent in service.intents),
        )
        for service in schema.services
    }


def check_dialogues(data: Any, schema: Schema, path: str) -> None:
    """Checks the JSON value of a dialogue file; see `dialogue_problems`.

    Raises:
        UserError: a rule is broken. The message gives the file, dialogue, turn, frame,
            and field of the first problem.
    """
    refuse(dialogue_problems(data, schema), path)


def dialogue_problems(data: Any, schema: Schema) -> list[Problem]:
    """Returns all problems in the JSON value of a dialogue file.

    The rules are:

    - The value is a list of dialogues with distinct ids.
    - A dialogue has turns, and distinct services of the schema.
    - A turn has a speaker (USER or SYSTEM), an utterance, and frames, at most one per
      service.
    - The service of a frame is one of the dialogue. Idle frames, which occur in
      MultiWOZ, may have any service of the schema (see `is_idle`).
    - A state names slots and intents of the service. Each slot has a non-empty list of
      strings.
    - Spans, actions, service calls, and service results are optional. They have the
      fields and types of SGD and name slots of the service.
    """
    checker = _Checker(data, rules_of(schema))
    checker.check()
    return checker.problems


def repeated_id(name: str, index: int, first: PathLike) -> Problem:
    """Returns the problem of a dialogue whose id occurs in an earlier file too."""
    text = f"is in {first} too; ids are unique in a split"
    # Other problems have a colon here, which would separate subject and verb.
    return Problem(
        REPEATED,
        (index, "dialogue_id"),
        "",
        f"dialogue {shown(name)} {text}",
        "Remove one of the two.",
    )


def is_idle(frame: dict[str, Any]) -> bool:
    """Returns whether a frame has no content: an empty state and no spans."""
    return frame.get("state") == _IDLE and not frame.get("slots")


def _is_strings(value: Any) -> bool:
    return type(value) is list and {*map(type, value)} == _STRINGS


def _hint(name: str, known: Collection[str]) -> str:
    return suggestion(name, known).rstrip(".")


class _Checker:
    """Collects the problems of one file."""

    def __init__(self, data: Any, rules: dict[str, ServiceRules]):
        self._data, self._rules = data, rules
        self._ids: set[str] = set()
        self.problems: list[Problem] = []

    def _add(
        self, rule: str, keys: Keys, field: str, expected: str, got: Any = _MISSING
    ) -> None:
        shown_field = f"field {shown(field)}: " if field else ""
        value = "nothing" if got is _MISSING else shown(got)
        text = f"{shown_field}expected {expected}, got {value}"
        self.problems.append(Problem(rule, keys, place_of(self._data, keys), text))

    def _name(
        self,
        what: str,
        keys: Keys,
        field: str,
        name: Any,
        known: Collection[str],
        *allowed: Collection[str],
    ) -> None:
        """Reports a slot or an intent that the service lacks.

        Args:
            what: "slot" or "intent".
            keys: path of the name in the file.
            field: name of the field for the message.
        """
        if type(name) is not str:
            self._add(WRONG_TYPE, keys, field, f"the name of one {what}", name)
        elif name not in known and not any(name in more for more in allowed):
            expected = f"{what}s of the service ({_hint(name, known)})"
            self._add(f"unknown {what}", keys, field, expected, name)

    def _get(
        self,
        of: dict[str, Any],
        at: Keys,
        key: str,
        kind: type,
        expected: str,
        above: str = "",
        is_filled: bool = False,
    ) -> Any:
        """Returns a field, or reports a wrong type and returns None.

        Args:
            at: path of the object in the file.
            expected: description of the required type for the message.
            above: name of the object for the message, with a dot at its end.
            is_filled: whether the value must not be empty.
        """
        value = of.get(key, _MISSING)
        if type(value) is kind and (value or not is_filled):
            return value
        self._add(WRONG_TYPE, (*at, key), above + key, expected, value)
        return None

    def _is_object(self, value: Any, at: Keys, field: str = "") -> bool:
        if type(value) is not dict:
            self._add(WRONG_TYPE, at, field, "an object", value)
        return type(value) is dict

    def check(self) -> None:
        """Checks the file."""
        if type(self._data) is not list:
            self._add(WRONG_TYPE, (), "", "a list of dialogues", self._data)
            return
        for index, dialogue in enumerate(self._data):
            if self._is_object(dialogue, (index,)):
                self._dialogue((index,), dialogue)

    def _dialogue(self, at: Keys, dialogue: dict[str, Any]) -> None:
        expected = "a non-empty string"
        name = self._get(dialogue, at, "dialogue_id", str, expected, is_filled=True)
        if name in self._ids:
            expected = "an id that no other dialogue has"
            self._add(REPEATED, (*at, "dialogue_id"), "dialogue_id", expected, name)
        self._ids |= {name} - {None}
        services = self._services(dialogue, at)
        expected = "a non-empty list"
        turns = self._get(dialogue, at, "turns", list, expected, is_filled=True)
        for index, turn in enumerate(turns or ()):
            here = (*at, "turns", index)
            if self._is_object(turn, here):
                self._turn(here, turn, services)

    def _services(self, dialogue: dict[str, Any], at: Keys) -> list[str] | None:
        """Returns the services of a dialogue, or None if the field is not a list."""
        services, at = dialogue.get("services", _MISSING), (*at, "services")
        if not _is_strings(services):
            expected = "a non-empty list of strings"
            self._add(WRONG_TYPE, at, "services", expected, services)
            return None
        if len({*services}) != len(services):
            self._add(REPEATED, at, "services", "distinct services", services)
        for index, service in enumerate(services):
            if service not in self._rules:
                hint = _hint(service, self._rules)
                expected = f"services of the split's schema ({hint})"
                keys = (*at, index)
                self._add(UNKNOWN_SERVICE, keys, "services", expected, service)
        return services

    def _turn(self, at: Keys, turn: dict[str, Any], services: list[str] | None) -> None:
        speaker = turn.get("speaker", _MISSING)
        if speaker not in _SPEAKERS:
            keys = (*at, "speaker")
            self._add("speaker", keys, "speaker", "USER or SYSTEM", speaker)
        utterance = self._get(turn, at, "utterance", str, "a string")
        # Spans cannot be checked against a missing utterance.
        length = sys.maxsize if utterance is None else len(utterance)
        seen: list[str] = []
        frames = self._get(turn, at, "frames", list, "a list")
        for index, frame in enumerate(frames or ()):
            here = (*at, "frames", index)
            service = None
            if self._is_object(frame, here):
                service = self._service(here, frame, services)
            if service is None:
                continue
            if service in seen:
                keys = (*here, "service")
                self._add(REPEATED, keys, "service", "one frame a service", service)
            seen.append(service)
            self._frame(here, frame, self._rules[service], length)

    def _service(
        self, at: Keys, frame: dict[str, Any], services: list[str] | None
    ) -> str | None:
        """Returns the service of a frame, or None if the schema lacks the service."""
        service = self._get(frame, at, "service", str, "a string")
        if service is None:
            return None
        known: Collection[str] = self._rules
        expected = "a service of the split's schema"
        if service in known:
            if services is None or service in services or is_idle(frame):
                return service
            known, expected = services, "one of the dialogue's services"
        expected = f"{expected} ({_hint(service, known)})"
        self._add(UNKNOWN_SERVICE, (*at, "service"), "service", expected, service)
        return service if service in self._rules else None

    def _frame(
        self, at: Keys, frame: dict[str, Any], rules: ServiceRules, length: int
    ) -> None:
        """Checks a frame of an utterance with `length` characters."""
        state = frame.get("state", _MISSING)
        if state is not _MISSING and self._is_object(state, (*at, "state"), "state"):
            self._state((*at, "state"), state, rules)
        for keys, span in self._objects(at, frame, "slots"):
            self._span(keys, span, rules, length)
        for keys, action in self._objects(at, frame, "actions"):
            self._action(keys, action, rules)
        call, here = frame.get("service_call", _MISSING), (*at, "service_call")
        if call is not _MISSING and self._is_object(call, here, "service_call"):
            field, method = "service_call.method", call.get("method", _MISSING)
            self._name("intent", (*here, "method"), field, method, rules.intents)
            given, here = call.get("parameters", _MISSING), (*here, "parameters")
            self._values(here, "service_call.parameters", given, rules.slots)
        for keys, result in self._objects(at, frame, "service_results"):
            self._values(keys, "service_results", result, rules.slots)

    def _objects(
        self, at: Keys, frame: dict[str, Any], field: str
    ) -> Iterator[tuple[Keys, dict[str, Any]]]:
        """Yields the path and value of each object in an optional list of a frame."""
        items = frame.get(field, ())
        if items == ():
            return
        if type(items) is not list:
            self._add(WRONG_TYPE, (*at, field), field, "a list", items)
            return
        for index, item in enumerate(items):
            if type(item) is not dict:
                keys = (*at, field, index)
                self._add(WRONG_TYPE, keys, field, "a list of objects", item)
        for index, item in enumerate(items):
            if type(item) is dict:
                yield (*at, field, index), item

    def _state(self, at: Keys, state: dict[str, Any], rules: ServiceRules) -> None:
        active, field = state.get("active_intent", _MISSING), "state.active_intent"
        keys: Keys = (*at, "active_intent")
        self._name("intent", keys, field, active, rules.intents, rules.active_intents)
        expected, above = "a list of slots", "state."
        names = self._get(state, at, "requested_slots", list, expected, above)
        for index, name in enumerate(names or ()):
            keys, field = (*at, "requested_slots", index), "state.requested_slots"
            self._name("slot", keys, field, name, rules.slots)
        expected = "an object from slots to lists of values"
        given = self._get(state, at, "slot_values", dict, expected, above)
        for name, values in (given or {}).items():
            keys, field = (*at, "slot_values", name), "state.slot_values"
            if name not in rules.slots:
                self._name("slot", keys, field, name, rules.slots)
            elif not _is_strings(values):
                expected = "a non-empty list of strings"
                self._add(WRONG_TYPE, keys, f"{field}.{name}", expected, values)

    def _span(
        self, at: Keys, span: dict[str, Any], rules: ServiceRules, length: int
    ) -> None:
        name = span.get("slot", _MISSING)
        self._name("slot", (*at, "slot"), "slots.slot", name, rules.slots)
        start, end = span.get("start"), span.get("exclusive_end")
        if type(start) is int and type(end) is int and 0 <= start < end <= length:
            return
        bound = ""
        if length < sys.maxsize:
            bound = f" <= {length}, the length of the utterance"
        expected = f"0 <= start < exclusive_end{bound}"
        self._add("span outside the text", (*at, "start"), "slots", expected, span)

    def _action(self, at: Keys, action: dict[str, Any], rules: ServiceRules) -> None:
        self._get(action, at, "act", str, "a string", "actions.")
        name, keys = action.get("slot", ""), (*at, "slot")
        self._name("slot", keys, "actions.slot", name, rules.slots, rules.action_slots)
        for key in ("values", "canonical_values"):
            values = action.get(key, [])
            if values != [] and not _is_strings(values):
                expected = "a list of strings"
                self._add(WRONG_TYPE, (*at, key), f"actions.{key}", expected, values)

    def _values(self, at: Keys, field: str, values: Any, slots: frozenset[str]) -> None:
        if type(values) is not dict:
            expected = "an object from slots to values"
            self._add(WRONG_TYPE, at, field, expected, values)
            return
        for name in values:
            self._name("slot", (*at, name), field, name, slots)
        if values and {*map(type, values.values())} != _STRINGS:
            self._add(WRONG_TYPE, at, field, "strings as values", values)
