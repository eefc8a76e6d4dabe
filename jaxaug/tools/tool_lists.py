"""Tool lists of language models (MCP, OpenAI, Anthropic) and single JSON Schemas.

`read_*` functions return a catalogue (see `services`); `write_*` functions return the
document of a catalogue.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxaug.core.json_places import Keys
from jaxaug.formats.json_tools import function_tool
from jaxaug.tools.catalogue import Argument, Catalogue, Tool, add, results_of
from jaxaug.tools.views import (
    MAX_IN_DOCUMENT,
    Document,
    DocumentError,
    Text,
    checked,
    lifted,
    without,
)

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


def read_list(document: Any, kind: str, most: int = MAX_IN_DOCUMENT) -> Catalogue:
    """Returns the catalogue of a tool list.

    Args:
        document: the list, or an object that contains it.
        kind: one of `LISTS`.
        most: maximum number of schemas in all tools, references written out.

    Raises:
        DocumentError: a tool lacks its name, or a field has the wrong type.
    """
    found = find_tools(document)
    if found is None:
        raise DocumentError(f"expected a list of tools in the format {kind}")
    at, items = found
    catalogue = Catalogue([], {}, {"services": {}, "extra": {}, "tools": {}})
    extra = catalogue.told["extra"]
    around = document
    for key in at:
        extra |= without(around, str(key))
        around = around[key]
    budget = [most, most]
    for index, item in enumerate(items):
        keys = (*at, index)
        checked(item, dict, f"tool #{index}", keys)
        how = LISTS[kind].arguments
        if is_hosted(item, kind):
            extra[f"tool #{index}"] = item
        elif kind == "openai" and "function" in item:
            inner = checked(
                item["function"], dict, f"tool #{index}", (*keys, "function")
            )
            rest = without(item, "type", "function")
            _tool(catalogue, inner, how, (*keys, "function"), budget, rest)
        else:
            _tool(catalogue, item, how, keys, budget, {})
    return catalogue


def is_hosted(item: dict[str, Any], kind: str) -> bool:
    """Returns whether a tool runs at the host of the model, without a schema."""
    kinds = ("function", "custom")
    return kind != "mcp" and (item.get("type") or "function") not in kinds


def _tool(
    catalogue: Catalogue,
    item: dict[str, Any],
    arguments: str,
    keys: Keys,
    budget: list[int],
    rest: dict[str, Any],
) -> None:
    name = checked(item.get("name"), str, "the name of a tool", (*keys, "name"))
    description = item.get("description") or ""
    checked(description, str, f"the description of {name!r}", (*keys, "description"))
    schema = item.get(arguments)
    schema = {} if schema is None else schema
    checked(schema, dict, f"{arguments} of {name!r}", (*keys, arguments))
    known = ["name", "description", arguments]
    told: dict[str, Any] = {"extra": rest}
    results: Sequence[Argument] = ()
    is_read_only = False
    if arguments == LISTS["mcp"].arguments:
        notes, result = item.get("annotations"), item.get("outputSchema")
        if isinstance(notes, dict):
            is_read_only = notes.get("readOnlyHint") is True
            known.append("annotations")
            rest |= {"annotations": n} if (n := without(notes, "readOnlyHint")) else {}
        if isinstance(result, dict):
            document = Document(result, budget)
            node = document.node(result)
            if results := results_of(document, node):
                known.append("outputSchema")
                told["result"] = document.shallow(node)
    rest |= without(item, *known)
    document = Document(schema, budget)
    node = document.node(schema)
    texts = (Text(item, "description"),) if description.strip() else ()
    add(
        catalogue,
        Tool(name, "", "", texts, (), tuple(results), not is_read_only, (), item),
        document,
        node,
        told,
    )


def write_list(catalogue: dict[str, Any], kind: str) -> Any:
    """Returns the tool list of a catalogue; see `services.catalogue_of`."""
    how = LISTS[kind]
    items = [_written(tool, kind) for tool in catalogue["tools"].values()]
    return {how.at[0]: items} if how.at else items


def _written(tool: dict[str, Any], kind: str) -> dict[str, Any]:
    name, parameters = tool["name"], tool["parameters"]
    if kind == "openai":
        made = function_tool(name, tool["description"], parameters)
        inner = made["function"]
    else:
        made = inner = {"name": name, "description": tool["description"]}
        made[LISTS[kind].arguments] = parameters
    if not inner["description"]:
        del inner["description"]
    if kind == "mcp":
        made |= {"outputSchema": tool["result"]} if "result" in tool else {}
        if not tool["is_transactional"]:
            made["annotations"] = {"readOnlyHint": True}
    return made


def read_schema(document: Any, name: str) -> Catalogue:
    """Returns the catalogue of a JSON Schema: an object, or `$defs` of several.

    Args:
        document: the schema.
        name: name of the tool if the schema has no title.

    Raises:
        DocumentError: the schema has no object with properties.
    """
    checked(document, dict, "a JSON Schema", ())
    whole = Document(document)
    several = next((key for key in ("$defs", "definitions") if key in document), "")
    catalogue = Catalogue([], {}, {"services": {}, "extra": {}, "tools": {}})
    extra = catalogue.told["extra"]
    if "properties" in document or "$ref" in document or not several:
        title = checked(document.get("title", name), str, "title", ("title",))
        extra |= {} if "title" in document else {"title": "none"}
        found = {title: document}
    else:
        found = checked(document[several], dict, several, (several,))
        extra |= without(document, several)
    for key, schema in found.items():
        whole.start()
        node = whole.node(schema)
        if not (whole.properties(node) or node.first("properties") == {}):
            extra[str(key)] = schema
            continue
        texts = tuple(node.texts()[:1])
        tool = Tool(str(key), "", "", texts, (), source=schema)
        add(catalogue, tool, whole, node, {"extra": {}})
        told = [*catalogue.told["tools"].values()][-1]["parameters"]
        for known in ("description", *(("title",) if schema is document else ())):
            told.pop(known, None)
    if not catalogue.tools:
        raise DocumentError(
            "the schema has no object with properties. Give one whose properties are "
            "the arguments"
        )
    return catalogue


def write_schema(catalogue: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON Schema of a catalogue; several tools become `$defs`."""
    made = {}
    definitions: dict[str, Any] = dict.fromkeys(catalogue["tools"])
    for tool in catalogue["tools"].values():
        described = {"description": tool["description"]} if tool["description"] else {}
        parameters = tool["parameters"]
        if len(definitions) > 1:
            parameters = lifted(parameters, "#/$defs/", definitions)
        made[tool["name"]] = described | parameters
    if len(made) == 1:
        [(name, schema)] = made.items()
        return {"title": name, **schema}
    return {"$defs": definitions | made}
