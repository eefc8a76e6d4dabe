"""OpenAPI 3 documents: each operation is an intent, each tag a service."""

from typing import Any

from jaxaug.core.json_places import Keys
from jaxaug.tools.catalogue import (
    Catalogue,
    Tool,
    add,
    distinct,
    fit,
    results_of,
    words,
)
from jaxaug.tools.views import (
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

_READING = ("get", "head", "options", "trace")
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_JSON = "application/json"
_HEAD = {"openapi": "3.1.0", "info": {"title": "API", "version": "1.0.0"}}
# Keywords of a body whose properties become arguments, next to the parameters.
_OBJECT = ("type", "properties", "required", "allOf", "$ref")
_ANSWER = {"description": "success"}


def read(document: Any) -> Catalogue:
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
    extra = without(document, "openapi", "paths", "tags", "components")
    catalogue = Catalogue([], {}, {"services": {}, "extra": extra, "tools": {}})
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


def write(catalogue: dict[str, Any]) -> dict[str, Any]:
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
