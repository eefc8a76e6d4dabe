"""The services of MiniSGD and their wordings, read from `schemas/*.json`.

There is one file per service. It has the names and descriptions of intents and slots in
the original schema and in the evaluation variants v1..v5, whose average distance from
the original increases. Train services also have the variants aug1..aug5 for training.
All descriptions are hand-written. The names of a variant consist of words of its
descriptions.
"""

import functools
import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxaug_papers.minisgd.concepts import CONCEPTS, OPENERS, Concept

# Several slots of one service share a list (origin and destination, first and last
# day). A tracker cannot distinguish them by the value, so it must read descriptions.
VALUES: dict[str, tuple[str, ...]] = {
    "cities": (
        "Paris", "Rome", "Berlin", "Madrid", "London", "Boston", "Chicago", "Denver",
        "Oslo", "Tokyo", "New York", "San Diego",
    ),
    "places": (
        "airport", "station", "harbor", "museum", "stadium", "mall", "library",
        "market",
    ),
    "dates": (
        "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
        "March 3", "June 5",
    ),
    "times": ("9 am", "10 am", "noon", "2 pm", "4 pm", "6 pm", "8 pm", "midnight"),
    "names": (
        "Alice", "Bruno", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Irene",
        "Jonas",
    ),
    "titles": (
        "Silent River", "Red Moon", "Night Bird", "Cold Summer", "Lost Island",
        "Blue Horses",
    ),
    "amounts": ("20 dollars", "50 dollars", "80 dollars", "100 dollars", "200 dollars"),
}  # fmt: skip

ORIGINAL = "original"
VARIANTS = tuple(f"v{number}" for number in range(1, 6))
AUGMENTED = tuple(f"aug{number}" for number in range(1, 6))
FLAG = ("True", "False")

Wordings = Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SlotSpec:
    """A slot: its meaning, its values, and label -> (name, description).

    `before` names a slot whose value must be later in the value list; it may be empty.
    """

    name: str
    concept: Concept
    values: tuple[str, ...]
    is_categorical: bool
    before: str
    wordings: Wordings

    @property
    def is_flag(self) -> bool:
        return self.values == FLAG


@dataclass(frozen=True, slots=True)
class IntentSpec:
    """An intent: label -> (name, description), and slots by their original names.

    `openers` are the phrases with which users begin the intent.
    """

    name: str
    is_transactional: bool
    required: tuple[str, ...]
    optional: tuple[str, ...]
    wordings: Wordings
    openers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service, its splits, and label -> description.

    `weight` is its relative frequency in train, or 0 if it is not in train. Services
    with several slots of one value list have a higher weight.
    """

    name: str
    splits: tuple[str, ...]
    weight: int
    descriptions: Mapping[str, str]
    intents: tuple[IntentSpec, ...]
    slots: tuple[SlotSpec, ...]

    def slot(self, name: str) -> SlotSpec:
        return next(slot for slot in self.slots if slot.name == name)

    def intent(self, name: str) -> IntentSpec:
        return next(intent for intent in self.intents if intent.name == name)


@functools.cache
def services() -> tuple[ServiceSpec, ...]:
    """Returns all services, sorted by name."""
    folder = importlib.resources.files(__package__) / "schemas"
    files = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".json")),
        key=lambda entry: entry.name,
    )
    return tuple(_service(json.loads(file.read_text("utf-8"))) for file in files)


def services_of(split: str) -> tuple[ServiceSpec, ...]:
    """Returns the services that occur in a split."""
    return tuple(spec for spec in services() if split in spec.splits)


def unseen_services(split: str) -> tuple[ServiceSpec, ...]:
    """Returns the services of a split that are not in train."""
    return tuple(spec for spec in services_of(split) if "train" not in spec.splits)


def _service(raw: dict[str, Any]) -> ServiceSpec:
    return ServiceSpec(
        name=raw["service"],
        splits=tuple(raw["splits"]),
        weight=raw.get("weight", 0),
        descriptions=raw["description"],
        intents=tuple(
            IntentSpec(
                name=intent["wordings"][ORIGINAL][0],
                is_transactional=intent["transactional"],
                required=tuple(intent["required"]),
                optional=tuple(intent["optional"]),
                wordings=_wordings(intent),
                openers=OPENERS[raw["service"], intent["wordings"][ORIGINAL][0]],
            )
            for intent in raw["intents"]
        ),
        slots=tuple(
            SlotSpec(
                name=slot["wordings"][ORIGINAL][0],
                concept=CONCEPTS[slot["concept"]],
                values=tuple(slot.get("options") or VALUES[slot["values"]]),
                is_categorical="options" in slot,
                before=slot.get("before", ""),
                wordings=_wordings(slot),
            )
            for slot in raw["slots"]
        ),
    )


def _wordings(raw: dict[str, Any]) -> Wordings:
    return {label: (name, text) for label, (name, text) in raw["wordings"].items()}


def schema_json(split: str, label: str = ORIGINAL) -> list[dict[str, Any]]:
    """Returns the schema of a split in SGD layout.

    Args:
        label: "original", "v1".."v5", or "aug1".."aug5" (train only). As in SGD-X, the
            service names of a variant have its digit, and the order is the original.
    """
    return [service_json(spec, label) for spec in services_of(split)]


def service_json(spec: ServiceSpec, label: str) -> dict[str, Any]:
    """Returns a service of a schema in SGD layout."""

    def named(slots: tuple[str, ...]) -> list[str]:
        return [spec.slot(slot).wordings[label][0] for slot in slots]

    every_slot = tuple(slot.name for slot in spec.slots)
    digit = "" if label == ORIGINAL else label[-1]
    return {
        "service_name": spec.name + digit,
        "description": spec.descriptions[label],
        "slots": [
            {
                "name": slot.wordings[label][0],
                "description": slot.wordings[label][1],
                "is_categorical": slot.is_categorical,
                "possible_values": list(slot.values) if slot.is_categorical else [],
            }
            for slot in spec.slots
        ],
        "intents": [
            {
                "name": intent.wordings[label][0],
                "description": intent.wordings[label][1],
                "is_transactional": intent.is_transactional,
                "required_slots": named(intent.required),
                "optional_slots": dict.fromkeys(named(intent.optional), "dontcare"),
                "result_slots": named(every_slot),
            }
            for intent in spec.intents
        ],
    }
