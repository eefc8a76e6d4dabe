"""Schemas of the Schema-Guided Dialogue data: services, their slots and intents.

Layout of `schema.json` (Rastogi et al., 2020): a list of services; slots are given
by name, description, whether they are categorical and their possible values.
Every variant of a schema (SGD-X, generated ones) has the same layout.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jaxaug.core.errors import UserError
from jaxaug.core.files import FETCH_AGAIN, PathLike, read_json, shown
from jaxaug.core.suggestion import suggestion


@dataclass(frozen=True, slots=True)
class Slot:
    """One argument of a service. `possible_values` of a free slot is mostly empty."""

    name: str
    description: str
    is_categorical: bool
    possible_values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that a service can do. `optional_slots` holds (slot, default) pairs."""

    name: str
    description: str
    is_transactional: bool
    required_slots: tuple[str, ...]
    optional_slots: tuple[tuple[str, str], ...]
    result_slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """One service; slots and intents keep the order of the file."""

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
        """The slot of that name; raises `UserError` where there is none."""
        return _find(self._slots, name, f"slot of service {shown(self.name)}")

    def intent(self, name: str) -> Intent:
        """The intent of that name; raises `UserError` where there is none."""
        return _find(self._intents, name, f"intent of service {shown(self.name)}")


@dataclass(frozen=True, slots=True)
class Schema:
    """All services of a split, in the order of the file."""

    services: tuple[Service, ...]
    _services: Mapping[str, Service] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_services", {s.name: s for s in self.services})

    def service(self, name: str) -> Service:
        """The service of that name; raises `UserError` where there is none."""
        return _find(self._services, name, "service of the schema")

    def __contains__(self, name: object) -> bool:
        """Whether the schema has a service of that name."""
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
    data = read_json(path, FETCH_AGAIN)
    if not isinstance(data, list) or not data:
        raise UserError(
            f"{path}: expected a non-empty list of services, got {shown(data)}. {FETCH_AGAIN}"
        )
    services = [
        _read_service(_Object(item, f"{path}: service #{index}", "service_name"))
        for index, item in enumerate(data)
    ]
    _distinct((s.name for s in services), f"{path}: service")
    return Schema(tuple(services))


def _read_service(service: "_Object") -> Service:
    name = service.name
    slots = [
        _read_slot(_Object(item, f"{service.where}, slot #{index}", "name"))
        for index, item in enumerate(service.items("slots", dict))
    ]
    _distinct((s.name for s in slots), f"{service.where}: slot")
    known = {slot.name for slot in slots}
    intents = [
        _read_intent(_Object(item, f"{service.where}, intent #{index}", "name"), known)
        for index, item in enumerate(service.items("intents", dict))
    ]
    _distinct((i.name for i in intents), f"{service.where}: intent")
    return Service(name, service.get("description", str), tuple(slots), tuple(intents))


def _read_slot(slot: "_Object") -> Slot:
    is_categorical = slot.get("is_categorical", bool)
    values = tuple(slot.items("possible_values", str))
    if is_categorical and not values:
        raise slot.error(
            "possible_values", "at least one value, as the slot is categorical", []
        )
    _distinct(values, f"{slot.where}: possible value")
    return Slot(slot.name, slot.get("description", str), is_categorical, values)


def _read_intent(intent: "_Object", known: set[str]) -> Intent:
    required = intent.items("required_slots", str)
    optional = intent.get("optional_slots", dict)
    result = intent.items("result_slots", str)
    for default in optional.values():
        if not isinstance(default, str):
            raise intent.error("optional_slots", "strings as defaults", optional)
    for key, names in (
        ("required_slots", required),
        ("optional_slots", optional),
        ("result_slots", result),
    ):
        for name in names:
            if name not in known:
                hint = suggestion(name, known).rstrip(".")
                raise intent.error(key, f"slots of the service ({hint})", name)
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
    """A JSON object with its place in the file; checks the fields it hands out."""

    def __init__(self, data: Any, where: str, name_field: str):
        self.data, self.where = data, where
        if not isinstance(data, dict):
            raise UserError(
                f"{where}: expected an object, got {shown(data)}. {FETCH_AGAIN}"
            )
        self.name: str = self.get(name_field, str)
        if not self.name.strip():
            raise self.error(name_field, "a name", self.name)
        # From here on messages give the name instead of the position.
        self.where = f"{where.rpartition('#')[0]}{shown(self.name)}"

    def get(self, key: str, kind: type) -> Any:
        try:
            value = self.data[key]
        except KeyError:
            raise UserError(
                f"{self.where}: field {key!r} is missing, expected {_TYPES[kind]}. "
                f"{FETCH_AGAIN}"
            ) from None
        if type(value) is not kind:
            raise self.error(key, _TYPES[kind], value)
        return value

    def items(self, key: str, kind: type) -> list[Any]:
        values: list[Any] = self.get(key, list)
        for value in values:
            if type(value) is not kind:
                raise self.error(key, f"a list, each item {_TYPES[kind]}", value)
        return values

    def error(self, key: str, expected: str, got: Any) -> UserError:
        return UserError(
            f"{self.where}: field {key!r}: expected {expected}, got {shown(got)}. "
            f"{FETCH_AGAIN}"
        )


def _distinct(names: Iterable[str], what: str) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise UserError(
                f"{what} {shown(name)} occurs twice, expected distinct names. Rename or "
                "remove one of the two."
            )
        seen.add(name)
