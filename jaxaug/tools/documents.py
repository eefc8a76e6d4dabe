"""Tool lists of language models, single JSON Schemas, and OpenAPI 3 documents.

`read_*` functions return a catalogue (see `services`); `write_*` functions return the
document of a catalogue. An operation of OpenAPI is an intent, and a tag a service.
"""

from collections.abc import Sequence
from typing import Any

from jaxaug.core.json_places import Keys
from jaxaug.formats.json_tools import function_tool
from jaxaug.tools.catalogue import (
    Argument,
    Catalogue,
    Tool,
    add,
    distinct,
    fit,
    results_of,
    words,
)
from jaxaug.tools.views import (
    MAX_IN_DOCUMENT,
    Document,
    DocumentError,
    Joined,
    Node,
    Part,
    Text,
    checked,
    lifted,
    without,
)

# Paths of the list of tools in a document; () is a bare list.
_PLACES: tuple[Keys, ...] = ((), ("tools",), ("result", "tools"))


LISTS = {"mcp": "inputSchema", "openai": "parameters", "anthropic": "input_schema"}
"""Maps a kind of tool list to the field with the schema of the arguments."""


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
            for kind, field in LISTS.items():
                if field in tool or (kind == "openai" and "function" in tool):
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
    catalogue = Catalogue()
    extra = catalogue.told["extra"]
    around = document
    for key in at:
        extra |= without(around, str(key))
        around = around[key]
    budget = [most, most]
    for index, item in enumerate(items):
        keys = (*at, index)
        checked(item, dict, f"tool #{index}", keys)
        rest: dict[str, Any] = {}
        if is_hosted(item, kind):
            extra[f"tool #{index}"] = item
            continue
        if kind == "openai" and "function" in item:
            keys, rest = (*keys, "function"), without(item, "type", "function")
            item = checked(item["function"], dict, f"tool #{index}", keys)
        _add_tool(catalogue, item, LISTS[kind], keys, budget, rest)
    return catalogue


def is_hosted(item: dict[str, Any], kind: str) -> bool:
    """Returns whether a tool runs at the host of the model, without a schema."""
    kinds = ("function", "custom")
    return kind != "mcp" and (item.get("type") or "function") not in kinds


def _add_tool(
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
    if arguments == LISTS["mcp"]:
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
    tool = Tool(name, "", "", texts, (), tuple(results), not is_read_only, (), item)
    add(catalogue, tool, document, node, told)


def write_list(catalogue: dict[str, Any], kind: str) -> Any:
    """Returns the tool list of a catalogue; see `services.catalogue_of`."""
    items = [_written(tool, kind) for tool in catalogue["tools"].values()]
    return {"tools": items} if kind == "mcp" else items


def _written(tool: dict[str, Any], kind: str) -> dict[str, Any]:
    name, parameters = tool["name"], tool["parameters"]
    if kind == "openai":
        made = function_tool(name, tool["description"], parameters)
        inner = made["function"]
    else:
        made = inner = {"name": name, "description": tool["description"]}
        made[LISTS[kind]] = parameters
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
    catalogue = Catalogue()
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


_READING = ("get", "head", "options", "trace")
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_JSON = "application/json"
_HEAD = {"openapi": "3.1.0", "info": {"title": "API", "version": "1.0.0"}}
# Keywords of a body whose properties become arguments, next to the parameters.
_OBJECT = ("type", "properties", "required", "allOf", "$ref")
_ANSWER = {"description": "success"}


def read_openapi(document: Any) -> Catalogue:
    """Returns the catalogue of a document.

    Raises:
        DocumentError: the document is not OpenAPI 3, or a part has the wrong type.
    """
    checked(document, dict, "an OpenAPI document", ())
    version = document.get("openapi", document.get("swagger"))
    if not str(version).startswith("3"):
        raise DocumentError(
            f"the version of the OpenAPI document is {version!r}, expected 3. Convert "
            "it to OpenAPI 3"
        )
    whole = Document(document)
    catalogue = Catalogue()
    extra = catalogue.told["extra"]
    extra |= without(document, "openapi", "paths", "tags", "components")
    paths = checked(document.get("paths", {}), dict, "paths", ("paths",))
    for path, item in paths.items():
        if path.startswith("x-"):
            extra[path] = item
            continue
        keys: Keys = ("paths", path)
        item = checked(whole.target(item), dict, f"path {path!r}", keys)
        shared = _parameters(item, keys, whole)
        for method in filter(item.__contains__, _METHODS):
            place = (*keys, method)
            operation = checked(item[method], dict, f"{method} {path}", place)
            given = shared | _parameters(operation, place, whole)
            _tool(catalogue, whole, path, method, operation, given)
        if rest := without(item, *_METHODS, "parameters"):
            extra[path] = rest
    tags = checked(document.get("tags", []), list, "tags", ("tags",))
    services = catalogue.told["services"]
    for index, tag in enumerate(tags):
        tag = checked(tag, dict, f"tag #{index}", ("tags", index))
        name = fit(str(tag.get("name")), services)
        described = isinstance(tag.get("description"), str) and tag["description"]
        services[name] = described or ""
        catalogue.services[name] = (Text(tag, "description"),) if described else ()
        if rest := without(tag, "name", "description"):
            extra[f"tag {name}"] = rest
    return catalogue


def _parameters(item: dict[str, Any], keys: Keys, whole: Document) -> dict[Any, Any]:
    """Returns the parameters of a path or an operation by (name, place)."""
    found = {}
    keys = (*keys, "parameters")
    for index, one in enumerate(
        checked(item.get("parameters", []), list, "parameters", keys)
    ):
        place = (*keys, index)
        one = checked(whole.target(one), dict, f"parameter #{index}", place)
        name = checked(one.get("name"), str, f"the name of parameter #{index}", place)
        found[name, str(one.get("in"))] = one
    return found


def _tool(
    catalogue: Catalogue,
    whole: Document,
    path: str,
    method: str,
    operation: dict[str, Any],
    given: dict[Any, Any],
) -> None:
    """Adds the tool of an operation with the parameters `given`."""
    keys: Keys = ("paths", path, method)
    whole.start()
    extra: dict[str, Any] = {"path": path, "method": method}
    name = operation.get("operationId")
    if not isinstance(name, str):
        spaced = "".join(c if c.isalnum() else " " for c in path)
        name = "_".join([method, *spaced.split()])
    properties: dict[str, Any] = {}
    required: list[str] = []
    for (own_name, place), item in given.items():
        key = distinct(own_name, properties)
        schema = item.get("schema", {})
        if "content" in item:
            schema = _media(item, keys).get("schema", {})
        view = Part({"description": item.get("description")}, None, item)
        parts = [view] if isinstance(item.get("description"), str) else []
        properties[key] = Joined((*parts, Part(schema, None, schema)))
        required += [key] if item.get("required") is True else []
        rest = without(item, "name", "description", "schema", "required")
        extra.setdefault("parameters", {})[f"{own_name} {place}"] = rest
    whole.hidden = "readOnly"
    texts = _texts(operation, name)
    within: tuple[frozenset[int], ...] = ()
    around: tuple[Part, ...] = ()
    if "requestBody" in operation:
        place = (*keys, "requestBody")
        body = checked(
            whole.target(operation["requestBody"]), dict, "requestBody", place
        )
        schema = _media(body, place).get("schema", {})
        node = whole.node(schema)
        needed = body.get("required") is True
        texts += [Text(body, "description")] if _is_text(body, "description") else []
        extra["body"] = without(body, "description") | {
            "content": [*body.get("content", ())]
        }
        inside = whole.properties(node)
        names = whole.required(node) if needed else ()
        for own_name, one in inside.items():
            key = distinct(own_name, properties)
            properties[key] = False if one.is_never else Joined(one.parts)
            required += [key] if own_name in names else []
        if inside:
            within = node.within
            around = tuple(
                part._replace(schema=without(part.schema, *_OBJECT))
                for part in node.parts
            )
        else:
            key = distinct("body", properties)
            properties[key] = Joined(node.parts)
            required += [key] if needed else []
    schema = {"type": "object", "properties": properties}
    schema |= {"required": required} if required else {}
    root = Node((*whole.node(schema).parts, *around), within, 0, False, False)
    told: dict[str, Any] = {"extra": extra}
    tags = operation.get("tags")
    service = ""
    if isinstance(tags, list) and tags and isinstance(tags[0], str):
        told["service"] = service = fit(tags[0], {})
    results = _results(whole, operation.get("responses"), told)
    extra |= without(
        operation,
        "operationId",
        "summary",
        "description",
        "parameters",
        "requestBody",
        "tags",
    )
    whole.hidden = "readOnly"
    is_transactional = method not in _READING
    tool = Tool(
        name, service, "", tuple(texts), (), results, is_transactional, (), operation
    )
    add(catalogue, tool, whole, root, told)


def _is_text(item: dict[str, Any], key: str) -> bool:
    return isinstance(item.get(key), str) and bool(item[key].strip())


def _texts(operation: dict[str, Any], name: str) -> list[Text]:
    """Returns the description and the summary; not a summary made of the name."""
    found = [
        Text(operation, key)
        for key in ("description", "summary")
        if _is_text(operation, key)
    ]
    if len(found) == 2 and words(name).startswith(words(operation["summary"])):
        del found[1]
    return found


def _results(whole: Document, responses: Any, told: dict[str, Any]) -> Any:
    """Returns the fields of a successful answer if it is an object."""
    whole.hidden = "writeOnly"
    for status, response in responses.items() if isinstance(responses, dict) else ():
        response = whole.target(response) if str(status).startswith("2") else None
        content = response.get("content") if isinstance(response, dict) else None
        inside = content.get(_JSON) if isinstance(content, dict) else None
        if isinstance(inside, dict):
            node = whole.node(inside.get("schema", {}))
            if found := results_of(whole, node):
                told["result"] = whole.shallow(node)
                return tuple(found)
    return ()


def _media(holder: dict[str, Any], keys: Keys) -> dict[str, Any]:
    """Returns the media type object with the schema, preferably for JSON."""
    content = checked(holder.get("content", {}), dict, "content", keys)
    key = next((key for key in (_JSON, *content) if key in content), _JSON)
    return checked(content.get(key, {}), dict, key, keys)


def write_openapi(catalogue: dict[str, Any]) -> dict[str, Any]:
    """Returns the document of a catalogue; see `services.catalogue_of`."""
    tags = [
        {"name": name} | ({"description": description} if description else {})
        for name, description in catalogue["services"].items()
    ]
    paths: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for tool in catalogue["tools"].values():
        parameters = lifted(tool["parameters"], "#/components/schemas/", definitions)
        tool = tool | {"parameters": parameters}
        path = "/".join(["", *filter(None, [tool.get("service")]), tool["name"]])
        method = "post" if tool["is_transactional"] else "get"
        paths.setdefault(path, {})[method] = _operation(tool, method)
    made = {**_HEAD, **({"tags": tags} if tags else {}), "paths": paths}
    return made | ({"components": {"schemas": definitions}} if definitions else {})


def _operation(tool: dict[str, Any], method: str) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": tool["name"]}
    if "service" in tool:
        made["tags"] = [tool["service"]]
    if tool["description"]:
        made["summary"] = tool["description"]
    schema = tool["parameters"]
    properties, required = schema.get("properties", {}), schema.get("required", ())
    if method == "get" and properties:
        made["parameters"] = [
            {"name": key, "in": "query"}
            | ({"description": one["description"]} if "description" in one else {})
            | ({"required": True} if key in required else {})
            | {"schema": without(one, "description")}
            for key, one in properties.items()
            if one is not False  # No value is valid.
        ]
    elif properties:
        needed = {"required": True} if required else {}
        made["requestBody"] = needed | {"content": {_JSON: {"schema": schema}}}
    answer: dict[str, Any] = dict(_ANSWER)
    if "result" in tool:
        answer["content"] = {_JSON: {"schema": tool["result"]}}
    return made | {"responses": {"200": answer}}
