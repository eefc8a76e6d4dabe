"""Converts tools of every format to services, intents, and slots, and back.

The intermediate representation is a JSON value, the catalogue:

    {"services": {NAME: DESCRIPTION}, "extra": {...}, "tools": {NAME: {"name",
     "service", "description", "parameters", "result", "is_transactional", "extra"}}}

`extra` holds what the format has and SGD does not; `service` and `result` may be
absent.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxaug.data.schema import Intent, Schema, Service, Slot
from jaxaug.formats.json_tools import object_schema
from jaxaug.schemas import slots
from jaxaug.schemas.references import DocumentError, distinct

MARK = "__"
"""Separator between service and intent in the name of a tool."""
# Formats that restrict the characters and the length of names of tools.
_LIMITED = ("openai", "anthropic")
_FIT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def schema_of(catalogue: dict[str, Any]) -> Schema:
    """Returns the services of a catalogue.

    The service of a tool is its `service`, or else the part of its name before `__`.
    Its tools become intents of one service if arguments with the same name are equal.
    Every other tool becomes a service with one intent.

    Raises:
        DocumentError: the catalogue has no tool.
    """
    tools = catalogue["tools"]
    if not tools:
        raise DocumentError("the document has no tools. Name one that describes some")
    short = {name: _short(name, tool.get("service")) for name, tool in tools.items()}
    times = Counter(short.values())
    groups: dict[tuple[str, bool], list[tuple[str, str, dict]]] = {}
    for name, tool in tools.items():
        if "service" in tool:
            intent = short[name] if times[short[name]] > 1 else name
            group = (tool["service"], True)
        else:
            before = name.rpartition(MARK)[0] if short[name] != name else ""
            before = "" if before in tools else before
            intent, group = short[name], (before or name, bool(before))
        groups.setdefault(group, []).append((name, intent, tool))
    made: dict[str, Service] = {}
    for (group_name, is_shared), members in groups.items():
        found = None
        if is_shared:
            description = catalogue["services"].get(group_name) or slots.words(
                group_name
            )
            intents = [(intent, tool) for _, intent, tool in members]
            found = _service(distinct(group_name, made), description, intents)
        for service in [found] if found else map(_alone, members):
            made[distinct(service.name, made)] = service
    return Schema(tuple(made.values()))


def _short(name: str, service: str | None) -> str:
    """Returns the name of a tool without the name of its service."""
    if service is not None:
        return name.removeprefix(service + MARK) or name
    before, _, after = name.rpartition(MARK)
    return after if before and after else name


def _alone(member: tuple[str, str, dict]) -> Service:
    name, _, tool = member
    service = _service(name, tool["description"], [(name, tool)])
    assert service is not None
    return service


def _service(
    name: str, description: str, tools: Sequence[tuple[str, dict]]
) -> Service | None:
    """Returns a service with an intent per tool, or None if arguments contradict."""
    given: dict[str, Slot] = {}
    results: dict[str, Slot] = {}
    intents = []
    for intent, tool in tools:
        arguments, required, optional = slots.arguments(tool["parameters"])
        for slot in arguments:
            if given.setdefault(slot.name, slot) != slot:
                return None
        result = tool.get("result", {})
        own_results = {
            key: slots.slot(key, value)
            for key, value in result.get("properties", {}).items()
            if not slots.is_object(value) and value.get("type") != "array"
        }
        results = own_results | results
        intents.append(
            Intent(
                intent,
                tool["description"] or slots.words(intent),
                tool["is_transactional"],
                tuple(required),
                tuple(optional.items()),
                tuple(own_results),
            )
        )
    given |= {key: slot for key, slot in results.items() if key not in given}
    description = description or slots.words(name)
    return Service(name, description, tuple(given.values()), tuple(intents))


def catalogue_of(schema: Schema, format: str) -> dict[str, Any]:
    """Returns the catalogue of a schema; inverts `schema_of`.

    Args:
        schema: schema to convert.
        format: one of `FORMATS`. OpenAPI has tags for services. In other formats, the
            name of the service is a prefix of the name of the tool. OpenAI and
            Anthropic restrict names.
    """
    by_service = format == "openapi"
    times = Counter(i.name for service in schema.services for i in service.intents)
    tools: dict[str, Any] = {}
    names: dict[str, str] = {}
    services = {}
    for service in schema.services:
        is_tool = [intent.name for intent in service.intents] == [service.name]
        if by_service and not is_tool:
            services[service.name] = service.description
        for intent in service.intents:
            is_unique = by_service and times[intent.name] == 1
            full = f"{service.name}{MARK}{intent.name}"
            name = distinct(intent.name if is_tool or is_unique else full, tools)
            shown = name
            if format in _LIMITED and not _FIT.fullmatch(name):
                shown = distinct(_UNFIT.sub("_", name)[:60], names)
            names[shown] = name
            tools[name] = {"name": shown} | _tool(service, intent)
            if by_service and not is_tool:
                tools[name]["service"] = service.name
    return {"services": services, "extra": {}, "tools": tools}


def names_of(schema: Schema) -> list[list[list[str]]]:
    """Returns for each service its name, its intent names, and its slot names."""
    return [
        [[one.name], [i.name for i in one.intents], [s.name for s in one.slots]]
        for one in schema.services
    ]


def with_names(schema: Schema, names: Sequence[Sequence[Sequence[str]]]) -> Schema:
    """Returns a schema with other names, matched by position.

    Variants of a schema change names, as in SGD-X, but tools must keep their names. The
    schema is returned unchanged if its number of services, intents, or slots differs.
    """
    here = names_of(schema)
    if [list(map(len, one)) for one in here] != [list(map(len, one)) for one in names]:
        return schema
    made = []
    for service, old, ((name,), intents, own_slots) in zip(
        schema.services, here, names, strict=True
    ):
        new = dict(zip(old[2], own_slots, strict=True))
        renamed = [
            replace(
                intent,
                name=intent_name,
                required_slots=tuple(new[slot] for slot in intent.required_slots),
                optional_slots=tuple(
                    (new[slot], d) for slot, d in intent.optional_slots
                ),
                result_slots=tuple(new[slot] for slot in intent.result_slots),
            )
            for intent, intent_name in zip(service.intents, intents, strict=True)
        ]
        own = tuple(replace(slot, name=new[slot.name]) for slot in service.slots)
        made.append(Service(name, service.description, own, tuple(renamed)))
    return Schema(tuple(made))


def _tool(service: Service, intent: Intent) -> dict[str, Any]:
    optional = dict(intent.optional_slots)
    arguments = {*intent.required_slots, *optional}
    given = [slot for slot in service.slots if slot.name in arguments]
    tool: dict[str, Any] = {
        "description": intent.description,
        "parameters": slots.object_of(given, intent.required_slots, optional),
        "is_transactional": intent.is_transactional,
        "extra": {},
    }
    if intent.result_slots:
        results = slots.object_of(
            [service.slot(name) for name in intent.result_slots], (), {}
        )
        tool["result"] = object_schema(results["properties"])
    return tool
