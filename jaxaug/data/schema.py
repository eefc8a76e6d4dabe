"""Schemas of the Schema-Guided Dialogue data: services, their slots and intents.

A `schema.json` (Rastogi et al., 2020) is a list of services. A slot has a name, a
description, a flag for categorical slots, and its possible values. The variants of a
schema (SGD-X or generated) have the same layout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jaxaug.core.cache_folder import fix_for
from jaxaug.core.errors import UserError
from jaxaug.core.files import FETCH_AGAIN, PathLike, read_json, shown
from jaxaug.core.json_places import Keys
from jaxaug.core.suggestion import suggestion

WRONG_TYPE = "wrong type"
REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class Problem:
    """A value that breaks a rule.

    Attributes:
        rule: short name of the rule, such as `unknown slot`.
        keys: path of the value in the JSON of its file.
        place: path in words, such as `dialogue '1_00000', turn 0`; may be empty.
        text: the expected and the actual value.
        fix: sentence with advice for the user.
        is_note: whether readers accept the value, and it may be intended.
    """

    rule: str
    keys: Keys
    place: str
    text: str
    fix: str = FETCH_AGAIN
    is_note: bool = False

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.text}. {self.fix}"


def refuse(problems: list[Problem], path: PathLike) -> None:
    """Raises `UserError` with the first problem, if there is one."""
    if problems:
        raise UserError(f"{path}: {problems[0]}")


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument of a service. Free slots usually have no `possible_values`."""

    name: str
    description: str
    is_categorical: bool
    possible_values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Intent:
    """A capability of a service. `optional_slots` are (slot, default) pairs."""

    name: str
    description: str
    is_transactional: bool
    required_slots: tuple[str, ...]
    optional_slots: tuple[tuple[str, str], ...]
    result_slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """A service; slots and intents keep the order of the file."""

    name: str
    description: str
    slots: tuple[Slot, ...]
    intents: tuple[Intent, ...]
    _slots: Mapping[str, Slot] = field(init=False, repr=False, compare=False)
    _intents: Mapping[str, Intent] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_slots", {s.name: s for s in self.slots})
        object.__setattr__(self, "_intents", {i.name: i for i in self.intents})

    def slot(self, name: str) -> Slot:
        """Returns the slot of that name; raises `UserError` for an unknown name."""
        return _find(self._slots, name, f"slot of service {shown(self.name)}")

    def intent(self, name: str) -> Intent:
        """Returns the intent of that name; raises `UserError` for an unknown name."""
        return _find(self._intents, name, f"intent of service {shown(self.name)}")


@dataclass(frozen=True, slots=True)
class Schema:
    """All services of a split, in the order of the file."""

    services: tuple[Service, ...]
    _services: Mapping[str, Service] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_services", {s.name: s for s in self.services})

    def service(self, name: str) -> Service:
        """Returns the service of that name; raises `UserError` for an unknown name."""
        return _find(self._services, name, "service of the schema")

    def __contains__(self, name: object) -> bool:
        """Returns whether the schema has a service of that name."""
        return name in self._services


_Item = TypeVar("_Item", Slot, Intent, Service)


def _find(items: Mapping[str, _Item], name: str, what: str) -> _Item:
    try:
        return items[name]
    except KeyError:
        raise UserError(
            f"{shown(name)} is no {what}; {suggestion(name, items)}"
        ) from None


def read_schema(path: PathLike) -> Schema:
    """Reads and checks a `schema.json`, local or gs://.

    Raises:
        UserError: the file is missing or is not JSON in UTF-8; a field is missing or
            has the wrong type; a name occurs twice or is empty; an intent names a slot
            that its service lacks; a categorical slot has no values. The message gives
            file, service, slot or intent, field, what was expected and what to do.
    """
    data = read_json(path, fix_for(path, FETCH_AGAIN))
    schema, problems = check_schema(data, 1)
    refuse(problems, path)
    return schema


class _EnoughProblemsError(Exception):
    """Ends a check when the requested number of problems is found."""


class _Problems(list[Problem]):
    """A list of problems that raises `_EnoughProblemsError` at `most` problems."""

    def __init__(self, most: int | None):
        super().__init__()
        self._most = most

    def append(self, problem: Problem) -> None:
        super().append(problem)
        if len(self) == self._most:
            raise _EnoughProblemsError


def check_schema(data: Any, most: int | None = None) -> tuple[Schema, list[Problem]]:
    """Checks the JSON value of a `schema.json` by the rules of `read_schema`.

    Args:
        most: number of problems at which the check stops; None finds all.

    Returns:
        The readable part of the schema (empty if the check stopped), and the problems.
    """
    found = _Problems(most)
    try:
        return _read_services(data, found), found
    except _EnoughProblemsError:
        return Schema(()), found


def _read_services(data: Any, found: list[Problem]) -> Schema:
    if not isinstance(data, list) or not data:
        text = f"expected a non-empty list of services, got {shown(data)}"
        found.append(Problem(WRONG_TYPE, (), "", text))
        return Schema(())
    objects = [
        _Object(found, (index,), item, f"service #{index}")
        for index, item in enumerate(data)
    ]
    services = tuple(_read_service(item) for item in objects)
    names = [(item.name, (*item.keys, "service_name")) for item in objects]
    _distinct(found, names, "", "service")
    return Schema(services)


def service_object(service: Service) -> dict[str, Any]:
    """Returns a service as an object of `schema.json`, with fields in SGD's order."""
    return {
        "service_name": service.name,
        "description": service.description,
        "slots": [
            {
                "name": slot.name,
                "description": slot.description,
                "is_categorical": slot.is_categorical,
                "possible_values": list(slot.possible_values),
            }
            for slot in service.slots
        ],
        "intents": [
            {
                "name": intent.name,
                "description": intent.description,
                "is_transactional": intent.is_transactional,
                "required_slots": list(intent.required_slots),
                "optional_slots": dict(intent.optional_slots),
                "result_slots": list(intent.result_slots),
            }
            for intent in service.intents
        ],
    }


def _read_service(service: "_Object") -> Service:
    slots = [_read_slot(slot) for slot in service.objects("slots", "slot")]
    known = {slot.name for slot in slots}
    intents = service.objects("intents", "intent")
    return Service(
        service.name,
        service.get("description", str),
        tuple(slots),
        tuple(_read_intent(intent, known) for intent in intents),
    )


def _read_slot(slot: "_Object") -> Slot:
    is_categorical = slot.get("is_categorical", bool)
    before = len(slot.found)
    values = tuple(slot.items("possible_values", str))
    if is_categorical and not values and len(slot.found) == before:
        expected = "at least one value, as the slot is categorical"
        slot.wrong("no values", "possible_values", expected, [])
    if len(slot.found) == before:
        keys = (*slot.keys, "possible_values")
        places = [(value, (*keys, index)) for index, value in enumerate(values)]
        _distinct(slot.found, places, slot.where, "possible value")
    return Slot(slot.name, slot.get("description", str), is_categorical, values)


def _read_intent(intent: "_Object", known: set[str]) -> Intent:
    required = intent.items("required_slots", str)
    optional = intent.get("optional_slots", dict)
    result = intent.items("result_slots", str)
    if not {*map(type, optional.values())} <= {str}:
        intent.wrong(WRONG_TYPE, "optional_slots", "strings as defaults", optional)
        optional = {}
    for key, names in (
        ("required_slots", dict(enumerate(required))),
        ("optional_slots", {name: name for name in optional}),
        ("result_slots", dict(enumerate(result))),
    ):
        for last, name in names.items():
            if name not in known:
                hint = suggestion(name, known).rstrip(".")
                expected = f"slots of the service ({hint})"
                intent.wrong("unknown slot", key, expected, name, last)
    return Intent(
        intent.name,
        intent.get("description", str),
        intent.get("is_transactional", bool),
        tuple(required),
        tuple(optional.items()),
        tuple(result),
    )


_TYPES = {str: "a string", bool: "true or false", dict: "an object", list: "a list"}


class _Object:
    """A JSON object with its place in the file; checks each field on access.

    Problems are added to `found`. A wrong field reads as an empty value.
    """

    def __init__(
        self,
        found: list[Problem],
        keys: Keys,
        data: Any,
        where: str,
        name_field: str = "service_name",
    ):
        self.found, self.keys, self.data, self.where = found, keys, data, where
        self.name = f"#{keys[-1]}"  # Used for objects without a name.
        self._is_object = isinstance(data, dict)
        if not self._is_object:
            text = f"expected an object, got {shown(data)}"
            found.append(Problem(WRONG_TYPE, keys, where, text))
            return
        before = len(found)
        name: str = self.get(name_field, str)
        if name.strip():
            self.name = name
            # Later messages give the name instead of the position.
            self.where = f"{where.rpartition('#')[0]}{shown(name)}"
        elif len(found) == before:
            self.wrong("no name", name_field, "a name", name)

    def get(self, key: str, kind: type) -> Any:
        if not self._is_object:
            return kind()
        if key not in self.data:
            text = f"field {key!r} is missing, expected {_TYPES[kind]}"
            problem = Problem("missing field", self.keys, self.where, text)
            self.found.append(problem)
            return kind()
        value = self.data[key]
        if type(value) is not kind:
            self.wrong(WRONG_TYPE, key, _TYPES[kind], value)
            return kind()
        return value

    def items(self, key: str, kind: type) -> list[Any]:
        """Returns the items of a list that have the required type."""
        values: list[Any] = self.get(key, list)
        for index, value in enumerate(values):
            if type(value) is not kind:
                expected = f"a list, each item {_TYPES[kind]}"
                self.wrong(WRONG_TYPE, key, expected, value, index)
        return [value for value in values if type(value) is kind]

    def objects(self, key: str, what: str) -> list["_Object"]:
        """Returns the objects of a list; their field `name` must be distinct."""
        items = self.get(key, list)
        objects = [
            _Object(
                self.found,
                (*self.keys, key, index),
                item,
                f"{self.where}, {what} #{index}",
                "name",
            )
            for index, item in enumerate(items)
        ]
        names = [(item.name, (*item.keys, "name")) for item in objects]
        _distinct(self.found, names, self.where, what)
        return objects

    def wrong(
        self, rule: str, key: str, expected: str, got: Any, *further: str | int
    ) -> None:
        text = f"field {key!r}: expected {expected}, got {shown(got)}"
        keys = (*self.keys, key, *further)
        self.found.append(Problem(rule, keys, self.where, text))


def _distinct(
    found: list[Problem], names: Sequence[tuple[str, Keys]], where: str, what: str
) -> None:
    """Reports repeated names; each name comes with its place."""
    seen = set()
    for name, keys in names:
        if name in seen:
            text = f"{what} {shown(name)} occurs twice, expected distinct names"
            fix = "Rename or remove one of the two."
            found.append(Problem(REPEATED, keys, where, text, fix))
        seen.add(name)
