"""Converts tools of every format to services, intents, and slots, and back.

the slot address.city, the slot orders[].number
->  {"properties": {"address": {"type": "object", "properties": {"city": {...}}},
                     "orders": {"type": "array", "items": {...}}}}
"""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from jaxaug.data.schema import Intent, Schema, Service, Slot
from jaxaug.formats.json_tools import object_schema, string_property
from jaxaug.tools.catalogue import (
    DONTCARE,
    FLAG,
    Argument,
    Path,
    Tool,
    distinct,
    fit,
    spelled,
    words,
)
from jaxaug.tools.views import DocumentError


def object_of(
    slots: Sequence[Slot], required: Sequence[str], optional: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the schema of an object with these slots; inverts `arguments`.

    Dotted names become nested objects, and `[]` before a dot an array of objects. A
    dotted name stays if one of its parts is empty or if a prefix is the name of another
    slot.
    """
    made = object_schema({})
    places = paths_of([slot.name for slot in slots])
    for slot in slots:
        place, last = _inside(made, places[slot.name])
        own = _property(slot, optional.get(slot.name))
        old = place["properties"].get(last, {})
        place["properties"][last] = own | {
            key: old[key] for key in ("type", "items") if key in old
        }
    for name in required:
        place = made
        for part in filter(None, places[name]):
            if part not in place.setdefault("required", []):
                place["required"].append(part)
            place = place["properties"][part]
            place = place.get("items", place)
    return made


def paths_of(names: Sequence[str]) -> dict[str, Path]:
    """Returns the place of each slot in the arguments object."""
    known = {*names}
    made: dict[str, Path] = {}
    for name in names:
        parts = name.split(".")
        above = (".".join(parts[:length]) for length in range(1, len(parts)))
        if not all(parts) or any(one in known or one == "[]" for one in above):
            made[name] = (name,)
            continue
        *outer, last = parts
        made[name] = ()
        for part in outer:
            is_array = part.endswith("[]")
            made[name] += (part[:-2], None) if is_array else (part,)
        made[name] += (last,)
    return made


def _inside(place: dict[str, Any], path: Path) -> tuple[dict[str, Any], str]:
    """Returns the schema of the object that holds a slot, and its name there."""
    for part, following in itertools.pairwise(path):
        if part is None:
            continue
        if following is None:
            array = place["properties"].setdefault(part, {})
            if "items" not in array:
                array |= {"type": "array", "items": object_schema({})}
            place = array["items"]
        else:
            place = place["properties"].setdefault(part, object_schema({}))
    return place, str(path[-1])


def _property(slot: Slot, default: str | None) -> dict[str, Any]:
    is_flag = slot.is_categorical and slot.possible_values == FLAG
    schema = string_property(
        slot.description,
        slot.possible_values if slot.is_categorical and not is_flag else (),
    )
    if is_flag:
        schema["type"] = "boolean"
    elif slot.possible_values and not slot.is_categorical:
        schema["examples"] = list(slot.possible_values)
    if default is not None and default != DONTCARE:
        schema["default"] = (
            default == "True" if is_flag and default in FLAG else default
        )
    return schema


_Named = TypeVar("_Named", Service, Intent, Slot)
_TYPE_OF: Mapping[tuple[str, ...], str] = {FLAG: "boolean"}
MARK = "__"
"""Separator between service and intent in the name of a tool."""
# Formats that restrict the characters and the length of names of tools.
_LIMITED = ("openai", "anthropic")
_FIT = re.compile(r"[A-Za-z0-9_-]{1,64}")
UNFIT = re.compile(r"[^A-Za-z0-9_-]")
"""Matches a character that interfaces refuse in the name of a tool."""


def schema_of(
    tools: Sequence[Tool], descriptions: Mapping[str, str]
) -> tuple[Schema, tuple[Tool, ...]]:
    """Returns the services of tools.

    The service of a tool is its `service`, or else the part of its name before `__`.
    Its tools become intents of one service if arguments with the same name are equal.
    Every other tool becomes a service with one intent. Texts that describe no argument
    become slots that no intent has.

    Args:
        tools: the tools, whose `intent` is a distinct name.
        descriptions: descriptions of services by name.

    Returns:
        The schema, and a tool for each intent, in the order of the schema. The names of
        its service, its intent, and its further texts come from the schema.

    Raises:
        DocumentError: there is no tool.
    """
    if not tools:
        raise DocumentError("the document has no tools. Name one that describes some")
    short = {tool.intent: _short(tool.intent, tool.service) for tool in tools}
    times = Counter(short.values())
    groups: dict[tuple[str, bool], list[Tool]] = {}
    for tool in tools:
        name = tool.intent
        if tool.service:
            intent = short[name] if times[short[name]] > 1 else name
            group = (tool.service, True)
        else:
            before = name.rpartition(MARK)[0] if short[name] != name else ""
            before = "" if before in short else before
            intent, group = short[name], (before or name, bool(before))
        renamed = replace(tool, service=name, intent=intent)
        groups.setdefault(group, []).append(renamed)
    made: dict[str, Service] = {}
    found: list[Tool] = []
    for (group_name, is_shared), members in groups.items():
        parts = [
            (group_name, descriptions.get(group_name) or words(group_name), members)
        ]
        if not is_shared or _contradict(members):
            parts = [
                (
                    one.service,
                    one.description or words(one.service),
                    [replace(one, intent=one.service)],
                )
                for one in members
            ]
        for own_name, description, part in parts:
            service, own = _service(distinct(own_name, made), description, part)
            made[service.name] = service
            found += own
    return Schema(tuple(made.values())), tuple(found)


def _short(name: str, service: str) -> str:
    """Returns the name of a tool without the name of its service."""
    if service:
        return name.removeprefix(service + MARK) or name
    before, _, after = name.rpartition(MARK)
    return after if before and after else name


def _contradict(tools: Sequence[Tool]) -> bool:
    """Returns whether two tools have other arguments of the same name."""
    slots = {_slot(one) for tool in tools for one in tool.arguments}
    return len(slots) > len({one.name for one in slots})


def _slot(argument: Argument) -> Slot:
    values = argument.possible_values
    if values:
        return Slot(argument.slot, argument.description, True, values)
    examples = [e for e in argument.examples if not isinstance(e, list | dict)]
    free = tuple(dict.fromkeys(filter(None, map(spelled, examples))))
    return Slot(argument.slot, argument.description, False, free)


def _service(
    name: str, description: str, tools: Sequence[Tool]
) -> tuple[Service, list[Tool]]:
    given = {one.slot: _slot(one) for tool in tools for one in tool.arguments}
    for one in reversed([one for tool in tools for one in tool.results]):
        given.setdefault(one.slot, _slot(one))
    own = []
    for tool in tools:
        more = []
        for place, texts in tool.more:
            slot = Slot("", str(texts[0]), False, ())
            key = base = fit(place or f"{tool.intent}.text", {})
            while key in given and given[key] != replace(slot, name=key):
                key = distinct(base, given)
            given[key] = replace(slot, name=key)
            more.append((key, texts))
        own.append(replace(tool, service=name, more=tuple(more)))
    intents = tuple(
        Intent(
            tool.intent,
            tool.description or words(tool.intent),
            tool.is_transactional,
            tuple(one.slot for one in tool.arguments if _is_required(one, tool)),
            tuple(
                (one.slot, _default(one))
                for one in tool.arguments
                if not _is_required(one, tool)
            ),
            tuple(one.slot for one in tool.results),
        )
        for tool in own
    )
    return Service(name, description, tuple(given.values()), intents), own


def _is_required(argument: Argument, tool: Tool) -> bool:
    """Returns whether a state must have an argument; an array may have its items."""
    inside = (*argument.path, None)
    return argument.needed and not (
        argument.is_outer
        and any(
            one.needed and one.path[: len(inside)] == inside for one in tool.arguments
        )
    )


def _default(argument: Argument) -> str:
    value = argument.default
    is_text = isinstance(value, str | bool | int | float)
    return spelled(value) or "" if is_text else DONTCARE


def tools_of(schema: Schema) -> tuple[Tool, ...]:
    """Returns a tool for each intent of a schema that was made from no document."""
    made = []
    for service in schema.services:
        for intent in service.intents:
            needed = set(intent.required_slots)
            arguments = tuple(
                Argument(
                    path,
                    name,
                    types=(_TYPE_OF.get(service.slot(name).possible_values, "string"),),
                    needed=name in needed,
                    required=name in needed,
                )
                for name, path in paths_of(given_slots(intent)).items()
            )
            made.append(Tool(intent.name, service.name, intent.name, (), arguments))
    return tuple(made)


def given_slots(intent: Intent) -> list[str]:
    """Returns the names of the slots that are arguments of an intent."""
    return [*intent.required_slots, *dict(intent.optional_slots)]


def without_texts(schema: Schema) -> Schema:
    """Returns a schema without the slots that no intent has."""
    made = []
    for service in schema.services:
        used = {n for i in service.intents for n in (*given_slots(i), *i.result_slots)}
        kept = tuple(slot for slot in service.slots if slot.name in used)
        made.append(replace(service, slots=kept))
    return Schema(tuple(made))


def catalogue_of(schema: Schema, format: str) -> dict[str, Any]:
    """Returns the tools of a schema in the form that the writers of documents take.

        {"services": {NAME: DESCRIPTION}, "extra": {}, "tools": {NAME: {"name",
         "service", "description", "parameters", "result", "is_transactional",
         "extra"}}}

    `service` and `result` may be absent.

    Args:
        schema: schema to convert.
        format: one of `FORMATS`. OpenAPI has tags for services. In other formats, the
            name of the service is a prefix of the name of the tool. OpenAI and
            Anthropic restrict names.
    """
    by_service = format == "openapi"
    times = Counter(i.name for service in schema.services for i in service.intents)
    tools: dict[str, Any] = {}
    services = {}
    for service in schema.services:
        is_tool = [intent.name for intent in service.intents] == [service.name]
        if by_service and not is_tool:
            services[service.name] = service.description
        for intent in service.intents:
            is_unique = by_service and times[intent.name] == 1
            full = f"{service.name}{MARK}{intent.name}"
            name = distinct(intent.name if is_tool or is_unique else full, tools)
            tools[name] = {"name": name} | _tool(service, intent)
            if by_service and not is_tool:
                tools[name]["service"] = service.name
    if format in _LIMITED:
        taken = {name for name in tools if _FIT.fullmatch(name)}
        for name in tools.keys() - taken:
            tools[name]["name"] = ""
        for name, tool in tools.items():
            if not tool["name"]:
                tool["name"] = distinct(UNFIT.sub("_", name)[:56] or "_", taken)
                taken.add(tool["name"])
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


def ordered(schema: Schema, like: Schema) -> Schema:
    """Returns a schema with its services, intents, and slots in the order of another.

    A name of both is at the same place afterwards. The schema is returned without its
    services if other names make that impossible.
    """
    services = _sorted(schema.services, like.services)
    if services is None:
        return Schema(())
    made = []
    for service, other in zip(services, like.services, strict=False):
        intents = _sorted(service.intents, other.intents)
        slots = _sorted(service.slots, other.slots)
        if intents is None or slots is None:
            return Schema(())
        made.append(replace(service, intents=intents, slots=slots))
    return Schema((*made, *services[len(made) :]))


def _sorted(
    found: tuple[_Named, ...], like: tuple[_Named, ...]
) -> tuple[_Named, ...] | None:
    """Returns items in the order of others, or None if only some names are equal."""
    named = {one.name: one for one in found}
    names: list[str] = [one.name for one in like]
    if named.keys() == {*names}:
        return tuple(named[name] for name in names)
    places = zip(found, names, strict=False)
    shared = sum(one.name == name for one, name in places)
    return found if shared == len(named.keys() & {*names}) else None


def _tool(service: Service, intent: Intent) -> dict[str, Any]:
    optional = dict(intent.optional_slots)
    given = [slot for slot in service.slots if slot.name in given_slots(intent)]
    tool: dict[str, Any] = {
        "description": intent.description,
        "parameters": object_of(given, intent.required_slots, optional),
        "is_transactional": intent.is_transactional,
        "extra": {},
    }
    if intent.result_slots:
        results = object_of(
            [service.slot(name) for name in intent.result_slots], (), {}
        )
        tool["result"] = object_schema(results["properties"])
    return tool
