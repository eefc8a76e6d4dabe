"""The context of a description in its schema that rewording depends on."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jaxaug.data.schema import Schema, Service

_WORD = re.compile(r"[^\W\d_]+")


@dataclasses.dataclass(frozen=True)
class Context:
    """The context of a description in its schema.

    Attributes:
        kind: "slot", "intent", or "service".
        siblings: words of the other slots or intents of the service, in lower case.
        service: words that name and describe the service, in lower case.
        is_flag: whether the slot is true or false.
        is_input: whether users give the slot's value; False for results of a call.
    """

    kind: str = "slot"
    siblings: frozenset[str] = frozenset()
    service: frozenset[str] = frozenset()
    is_flag: bool = False
    is_input: bool = True

    def to_json(self) -> dict[str, Any]:
        """Returns the context as JSON values, sorted."""
        return {
            "kind": self.kind,
            "siblings": sorted(self.siblings),
            "service": sorted(self.service),
            "is_flag": self.is_flag,
            "is_input": self.is_input,
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Context":
        """Inverts `to_json`."""
        words = {name: frozenset(values[name]) for name in ("siblings", "service")}
        return cls(**{**values, **words})


def contexts(schema: Schema) -> dict[str, list[Context]]:
    """Returns the contexts of each text of a schema, in the schema's order."""
    found: dict[str, list[Context]] = {}
    for service in schema.services:
        for text, context in _contexts(service):
            if context not in found.setdefault(text, []):
                found[text].append(context)
    return found


def _contexts(service: Service) -> Iterator[tuple[str, Context]]:
    about = _words(re.sub(r"(?<=[a-z])(?=[A-Z])|_|\d", " ", service.name))
    about |= _words(service.description)
    yield service.description, Context("service", service=about)
    given = {
        name
        for intent in service.intents
        for name in (
            *intent.required_slots,
            *(slot for slot, _ in intent.optional_slots),
        )
    }
    results = {name for intent in service.intents for name in intent.result_slots}
    for kind, items in (("slot", service.slots), ("intent", service.intents)):
        for item in items:
            others = [one for one in items if one is not item]
            values = {v.lower() for v in getattr(item, "possible_values", ())}
            yield (
                item.description,
                Context(
                    kind,
                    frozenset().union(*(_words(one.description) for one in others)),
                    about,
                    bool(values) and values <= {"true", "false", "yes", "no"},
                    item.name in given or item.name not in results,
                ),
            )


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))
