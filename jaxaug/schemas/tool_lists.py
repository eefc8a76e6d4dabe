"""Tool lists of language models (MCP, OpenAI, Anthropic) and single JSON Schemas.

`read_*` functions return a catalogue (see `services`); `write_*` functions return the
document of a catalogue.
"""

from dataclasses import dataclass
from typing import Any

from jaxaug.core.json_places import Keys
from jaxaug.formats.json_tools import function_tool
from jaxaug.schemas.references import (
    DocumentError,
    Resolver,
    checked,
    fit,
    with_own_names,
)
from jaxaug.schemas.slots import is_object

# Paths of the list of tools in a document; () is a bare list.
_PLACES: tuple[Keys, ...] = ((), ("tools",), ("result", "tools"))


@dataclass(frozen=True, slots=True)
class ToolList:
    """The form of a kind of tool list.

    Attributes:
        arguments: name of the field with the schema of the arguments.
        at: default path of the tools in a document.
    """

    arguments: str
    at: Keys


LISTS = {
    "mcp": ToolList("inputSchema", ("tools",)),
    "openai": ToolList("parameters", ()),
    "anthropic": ToolList("input_schema", ()),
}


def find_tools(document: Any) -> tuple[Keys, list[Any]] | None:
    """Returns the path and the value of the list of tools, or None without a list."""
    for keys in _PLACES:
        found = document
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, list):
            return keys, found
    return None


def kind_of(document: Any) -> str | None:
    """Returns the kind of the tool list in a document, or None if it is unknown."""
    for tool in (find_tools(document) or ((), []))[1]:
        if isinstance(tool, dict):
            for kind, how in LISTS.items():
                if how.arguments in tool or (kind == "openai" and "function" in tool):
                    return kind
    return None


def read_list(document: Any, kind: str) -> dict[str, Any]:
    """Returns the catalogue of a tool list.

    Raises:
        DocumentError: a tool lacks its name, or a field has the wrong type.
    """
    found = find_tools(document)
    if found is None:
        raise DocumentError(f"expected a list of tools in the format {kind}")
    at, items = found
    extra: dict[str, Any] = {} if at == LISTS[kind].at else {"at": list(at)}
    around = document
    for key in at[:-1]:
        around = around[key]
        extra["around"] = {k: v for k, v in document.items() if k != key}
    if at:
        rest = {k: v for k, v in around.items() if k != at[-1]}
        extra |= {"rest": rest} if rest else {}
    tools: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for index, item in enumerate(items):
        keys = (*at, index)
        checked(item, dict, f"tool #{index}", keys)
        how = LISTS[kind].arguments
        if kind != "mcp" and item.get("type", "function") not in ("function", "custom"):
            others[str(index)] = item  # A tool that the host of the model runs.
        elif kind == "openai" and "function" in item:
            inner = checked(
                item["function"], dict, f"tool #{index}", (*keys, "function")
            )
            rest = {k: v for k, v in item.items() if k not in ("type", "function")}
            tool = _tool(inner, how, (*keys, "function"), tools)
            tool["extra"] |= {"outside": rest} if rest else {}
        else:
            is_flat = kind == "openai" and item.get("type") == "function"
            tool = _tool(item, how, keys, tools)
            if is_flat:
                tool["extra"]["flat"] = tool["extra"].pop("type") == "function"
            elif kind == "openai":
                tool["extra"]["bare"] = True
        if kind == "mcp":
            _read_mcp(tool, item)
    extra |= {"others": others} if others else {}
    return {"services": {}, "extra": extra, "tools": tools}


def _tool(
    item: dict[str, Any], arguments: str, keys: Keys, tools: dict[str, Any]
) -> dict[str, Any]:
    name = checked(item.get("name"), str, "the name of a tool", (*keys, "name"))
    description = item.get("description") or ""
    checked(description, str, f"the description of {name!r}", (*keys, "description"))
    schema = item.get(arguments)
    schema = {} if schema is None else schema
    checked(schema, dict, f"{arguments} of {name!r}", (*keys, arguments))
    known = ("name", "description", arguments)
    tool: dict[str, Any] = {
        "name": name,
        "description": description,
        "parameters": Resolver(schema).schema(schema),
        "is_transactional": True,  # Default for formats without this field.
        "extra": {key: value for key, value in item.items() if key not in known},
    }
    tools[fit(name, tools)] = tool
    return tool


def _read_mcp(tool: dict[str, Any], item: dict[str, Any]) -> None:
    """Adds fields that only MCP has: whether a tool is read-only, and its result."""
    notes = item.get("annotations")
    if isinstance(notes, dict) and notes.get("readOnlyHint") is True:
        tool["is_transactional"] = False
        tool["extra"].pop("annotations")
        rest = {key: value for key, value in notes.items() if key != "readOnlyHint"}
        tool["extra"] |= {"annotations": rest} if rest else {}
    schema = item.get("outputSchema")
    if isinstance(schema, dict):
        result = Resolver(schema).schema(schema)
        if is_object(result):
            tool["result"] = result
            del tool["extra"]["outputSchema"]


def write_list(catalogue: dict[str, Any], kind: str) -> Any:
    """Returns the tool list of a catalogue; inverts `read_list`."""
    how, extra = LISTS[kind], catalogue["extra"]
    items = [_written(tool, kind) for tool in catalogue["tools"].values()]
    for index, item in extra.get("others", {}).items():
        items.insert(int(index), item)
    document: Any = items
    at = extra.get("at", how.at)
    if at:
        document = extra.get("rest", {}) | {at[-1]: items}
    for key in at[:-1]:
        document = extra["around"] | {key: document}
    return document


def _written(tool: dict[str, Any], kind: str) -> dict[str, Any]:
    name, extra = tool["name"], dict(tool["extra"])
    parameters = with_own_names(tool["parameters"])
    if kind == "openai":
        outside = {"type": "function", **extra.pop("outside", {})}
        flat, bare = extra.pop("flat", False), extra.pop("bare", False)
        function = (
            function_tool(name, tool["description"], parameters)["function"] | extra
        )
        made = function if bare else {"type": "function", **function}
        made = made if flat or bare else outside | {"function": function}
    else:
        made = {"name": name, "description": tool["description"]}
        made |= {LISTS[kind].arguments: parameters} | extra
        function = made
    if not function["description"]:
        del function["description"]
        made.pop("description", None)
    if kind == "mcp":
        if "result" in tool:
            made["outputSchema"] = with_own_names(tool["result"])
        if not tool["is_transactional"]:
            made["annotations"] = {"readOnlyHint": True, **extra.get("annotations", {})}
    return made


def read_schema(document: Any, name: str) -> dict[str, Any]:
    """Returns the catalogue of a JSON Schema: an object, or `$defs` of several.

    Args:
        document: the schema.
        name: name of the tool if the schema has no title.

    Raises:
        DocumentError: the schema has no object with properties.
    """
    checked(document, dict, "a JSON Schema", ())
    resolver = Resolver(document)
    several = next((key for key in ("$defs", "definitions") if key in document), "")
    if "properties" in document or "$ref" in document or not several:
        title = checked(document.get("title", name), str, "title", ("title",))
        found = {title: resolver.schema(document)}
        extra: dict[str, Any] = {} if "title" in document else {"untitled": True}
    else:
        inside = checked(document[several], dict, several, (several,))
        found = {key: resolver.schema(value) for key, value in inside.items()}
        extra = {"rest": {k: v for k, v in document.items() if k != several}}
        extra["several"] = several
    catalogue: dict[str, Any] = {"services": {}, "extra": extra, "tools": {}}
    objects = {k: v for k, v in found.items() if isinstance(v.get("properties"), dict)}
    if not objects:
        raise DocumentError(
            "the schema has no object with properties. Give one whose properties are "
            "the arguments"
        )
    for key, schema in objects.items():
        known = ("description", "title") if "several" not in extra else ("description",)
        description = schema.get("description", "")
        catalogue["tools"][fit(str(key), catalogue["tools"])] = {
            "name": str(key),
            "description": description if isinstance(description, str) else "",
            "parameters": {k: v for k, v in schema.items() if k not in known},
            "is_transactional": True,  # Default for formats without this field.
            "extra": {},
        }
    others = {key: value for key, value in found.items() if key not in objects}
    extra |= {"others": others} if others else {}
    return catalogue


def write_schema(catalogue: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON Schema of a catalogue; several tools become `$defs`."""
    extra = catalogue["extra"]
    made = {}
    for tool in catalogue["tools"].values():
        described = {"description": tool["description"]} if tool["description"] else {}
        made[tool["name"]] = described | with_own_names(tool["parameters"])
    if len(made) == 1 and "several" not in extra:
        [(name, schema)] = made.items()
        return schema if extra.get("untitled") else {"title": name, **schema}
    made |= extra.get("others", {})
    return {**extra.get("rest", {}), extra.get("several", "$defs"): made}
