"""Function calls: the schema as JSON tools and the state as JSON, for chat models.

  [{"type": "function", "function": {"name": "Events_1", "description": "find events",
  "parameters": {"type": "object", "properties": {"city": {"type": "string",
  "description": "city of the event"}, "kind": {"type": "string", "description": "type
  of event", "enum": ["music", "sports"]}}}}}] [user] a match in oslo
  ->   {"name": "Events_1", "arguments": {"city": "oslo", "kind": "sports"}}

The list has the form of OpenAI's interface and of prompts of Qwen and others. At level
`dst` it has one function, the service with all of its slots. At level `dst_intent`
every intent is a function with its own slots and `required` ones. The answer then names
the active intent (NONE for no intent) and has a third field, `requested`. Arguments
follow the order of the prompt; several annotated spellings of a value form an array.
"""

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from jaxaug.core.text import clean
from jaxaug.data.dialogue import State
from jaxaug.data.schema import Schema, Service, Slot
from jaxaug.formats.arguments import JSONText
from jaxaug.formats.records import (
    NO_INTENT,
    FramePrompt,
    FrameRandom,
    Parsed,
    SchemaFormatter,
    WholeFrame,
    clean_value,
    restore_option,
)

# Some models put their calls between these tags.
_TAGS = ("<tool_call>", "</tool_call>")


class JSONOptions(JSONText, WholeFrame):
    """Options of tool prompts."""

    family: ClassVar[str] = "json"
    version: ClassVar[int] = 1

    def formatter(self, schema: Schema) -> "JSONFormatter":
        """Returns a formatter of dialogues under a schema."""
        return JSONFormatter(schema, self)

    def parse(self, text: str, key: str) -> Parsed:
        """See `parse` of this module."""
        return parse(text, key)


class Signature(NamedTuple):
    """Possible content of an answer, in the order of its prompt.

    Attributes:
        names: names of the functions; at level `dst_intent` the last one is NONE.
        slots: name -> possible values as they are answered; empty for a free slot.
        requested: whether the answer has the third field.
    """

    names: tuple[str, ...]
    slots: Mapping[str, tuple[str, ...]]
    requested: bool


def signature(key: str) -> Signature:
    """Returns the signature of an example, given its key."""
    names, slots, answers_intents, lowercase = _read_key(key)
    answered = {
        name: tuple(dict.fromkeys(clean(value, lowercase) for value in options))
        for name, options in slots.items()
    }
    return Signature(tuple(names), answered, answers_intents)


class _Rendering(NamedTuple):
    """A prompt with the data to answer it and to read the answer."""

    prompt: str
    key: str
    slots: Sequence[str]


class _Prompt(FramePrompt[Slot, _Rendering]):
    """A service prepared for rendering in any order."""

    def __init__(self, service: Service, options: JSONOptions):
        self._service, self._options = service, options
        known = {slot.name: slot for slot in service.slots}
        super().__init__(known, service.slots, options.order == "schema")

    def _write(self, slots: Sequence[Slot], rng: FrameRandom | None) -> _Rendering:
        service, options = self._service, self._options
        properties, ordered = {}, {}
        for slot in slots:
            values = list(slot.possible_values) if slot.is_categorical else []
            if rng is not None:
                rng.shuffle(values)
            ordered[slot.name] = values
            properties[slot.name] = self._property(slot, values)
        if options.answers_intents:
            intents = list(service.intents)
            if rng is not None:
                rng.shuffle(intents)
            tools = [
                self._function(
                    intent.name,
                    intent.description,
                    {
                        name: value
                        for name, value in properties.items()
                        if name
                        in {*intent.required_slots, *dict(intent.optional_slots)}
                    },
                    intent.required_slots,
                )
                for intent in intents
            ]
            names = [*(intent.name for intent in intents), NO_INTENT]
        else:
            tools = [self._function(service.name, service.description, properties)]
            names = [service.name]
        key = [names, ordered, options.answers_intents, options.lowercase]
        return _Rendering(dumped(tools), dumped(key), tuple(ordered))

    def _property(self, slot: Slot, values: Iterable[str]) -> dict[str, Any]:
        lowercase = self._options.lowercase
        shown = dict.fromkeys(clean(value, lowercase) for value in values)
        return string_property(clean(slot.description, lowercase), list(shown))

    def _function(
        self,
        name: str,
        description: str,
        properties: Mapping[str, Any],
        required: Sequence[str] = (),
    ) -> dict[str, Any]:
        description = clean(description, self._options.lowercase)
        parameters = object_schema(properties, required)
        return function_tool(name, description, parameters)

    def _target(self, state: State, rendering: _Rendering) -> str:
        options = self._options
        arguments: dict[str, Any] = {}
        for name in rendering.slots:
            values = [
                clean_value(value, options.lowercase)
                for value in state.slot_values.get(name, ())
            ]
            if values:
                arguments[name] = values[0] if len(values) == 1 else values
        if not options.answers_intents:
            return dumped({"name": self._service.name, "arguments": arguments})
        asked = set(state.requested_slots)
        requested = [name for name in rendering.slots if name in asked]
        return dumped(
            {
                "name": state.active_intent,
                "arguments": arguments,
                "requested": requested,
            }
        )


def string_property(description: str, values: Sequence[str]) -> dict[str, Any]:
    """Returns the JSON Schema of a slot; `values` are the possible ones, if any."""
    schema: dict[str, Any] = {"type": "string", "description": description}
    return schema | {"enum": list(values)} if values else schema


def object_schema(
    properties: Mapping[str, Any], required: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the JSON Schema of an object; `required` is left out if it is empty."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {"required": list(required)} if required else schema


def function_tool(
    name: str, description: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns a tool as the chat-completions interface takes it."""
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def dumped(value: Any) -> str:
    """Returns JSON on one line, without escapes for non-ASCII characters."""
    return json.dumps(value, ensure_ascii=False)


class JSONFormatter(SchemaFormatter):
    """Formatter of tool prompts."""

    def prepared(self, service: Service) -> _Prompt:
        """See `SchemaFormatter`."""
        return _Prompt(service, self._options)

    def prompt(self, service: str) -> tuple[str, str]:
        """Returns the tools of a service in schema order, and the key of examples.

        Raises:
            UserError: the schema lacks the service.
        """
        fixed = replace(self._options, order="schema")
        rendering = _Prompt(self._schema.service(service), fixed).fixed
        assert rendering is not None
        return rendering.prompt, rendering.key


@functools.lru_cache(maxsize=4096)
def _read_key(key: str) -> tuple[list[str], dict[str, list[str]], bool, bool]:
    names, slots, answers_intents, lowercase = json.loads(key)
    return names, slots, answers_intents, lowercase


class _Pairs(list[tuple[str, Any]]):
    """An object with its fields in order, including repeated ones."""


def _not_json(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_not_json)


def parse(text: str, key: str) -> Parsed:
    """Parses the answer `text`, given the key of its example.

    It inverts the formatter, except for what the options drop (letter case of values,
    runs of spaces, order of requested slots). Text that is not a JSON object, or is
    incomplete, gives an empty state and counts once. In an object, unusable pieces are
    skipped and counted: unknown or repeated fields and slots, unknown names, and values
    that are empty or not text. Numbers and `true` represent their text, and `null`
    means no value.
    """
    names, slots, answers_intents, _ = _read_key(key)
    for tag in _TAGS:
        text = text.replace(tag, " ")
    start = max(text.find("{"), 0)
    try:
        found, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return Parsed({}, malformed=1)
    if not isinstance(found, _Pairs):
        return Parsed({}, malformed=1)
    malformed = bool(text[:start].strip()) + bool(text[end:].strip())
    fields = {"name": None, "arguments": None}
    if answers_intents:
        fields["requested"] = None
    answer: dict[str, Any] = {}
    for field, value in found:
        if field in fields and field not in answer:
            answer[field] = value
        else:
            malformed += 1
    malformed += answer.get("name") not in names
    slot_values, unusable = _slot_values(answer.get("arguments"), slots)
    intent = NO_INTENT
    requested: tuple[str, ...] = ()
    if answers_intents:
        if answer.get("name") in names:
            intent = answer["name"]
        requested, unread = _requested(answer.get("requested"), slots)
        malformed += unread
    return Parsed(slot_values, intent, requested, malformed + unusable)


def _slot_values(
    arguments: Any, slots: Mapping[str, list[str]]
) -> tuple[dict[str, tuple[str, ...]], int]:
    if not isinstance(arguments, _Pairs):
        return {}, 1
    slot_values: dict[str, tuple[str, ...]] = {}
    malformed = 0
    for name, given in arguments:
        if name not in slots or name in slot_values:
            malformed += 1
            continue
        if given is None:
            continue
        values = []
        is_array = isinstance(given, list) and not isinstance(given, _Pairs)
        for value in given if is_array else [given]:
            read = _text(value)
            if read:
                restored = restore_option(read, slots[name]) if slots[name] else None
                values.append(restored or read)
            else:
                malformed += 1
        if values:
            slot_values[name] = tuple(values)
    return slot_values, malformed


def _text(value: Any) -> str | None:
    """Returns the text of a value, or None if it has no text."""
    if isinstance(value, str):
        return clean(value, False)
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def _requested(
    given: Any, slots: Mapping[str, list[str]]
) -> tuple[tuple[str, ...], int]:
    if not isinstance(given, list) or isinstance(given, _Pairs):
        return (), 1
    known = [name for name in given if isinstance(name, str) and name in slots]
    kept = tuple(dict.fromkeys(known))
    return kept, len(given) - len(kept)
