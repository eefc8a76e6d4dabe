"""OpenAPI 3 documents: each operation is an intent, each tag a service.

`read` gives a catalogue (see `services`), `write` the document of one. In the
catalogue, `extra` of a tool holds its path, its method, and shells: parts of the
operation without their schemas. A property has the keyword `x-in` if its place is not
the usual one.
"""

import copy
from typing import Any

from jaxaug.core.json_places import Keys
from jaxaug.schemas.references import (
    DocumentError,
    Resolver,
    checked,
    fit,
    with_own_names,
    without,
)
from jaxaug.schemas.slots import is_object, required_names

_READING = ("get", "head", "options", "trace")
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_JSON = "application/json"
_WHOLE = "whole"  # The place of an argument for a whole body that is not an object.
_HEAD = {"openapi": "3.1.0", "info": {"title": "API", "version": "1.0.0"}}
_ANSWER = {"description": "success"}
_OBJECT = ("type", "properties", "required")


def read(document: Any) -> dict[str, Any]:
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
    resolver = Resolver(document)
    tools: dict[str, Any] = {}
    extra: dict[str, Any] = without(document, "paths", "tags")
    paths = checked(document.get("paths", {}), dict, "paths", ("paths",))
    for path, item in paths.items():
        keys: Keys = ("paths", path)
        item = checked(resolver.target(item), dict, f"path {path!r}", keys)
        shared = _parameters(item, keys, resolver)
        for method in filter(item.__contains__, _METHODS):
            place = (*keys, method)
            operation = checked(item[method], dict, f"{method} {path}", place)
            given = shared | _parameters(operation, place, resolver)
            made = _Reading(path, method, resolver).tool(operation, given, place)
            tools[fit(made["name"], tools)] = made
        if rest := without(item, *_METHODS, "parameters"):
            extra.setdefault("x-paths", {})[path] = rest
    services: dict[str, str] = {}
    tags = checked(document.get("tags", []), list, "tags", ("tags",))
    for index, tag in enumerate(tags):
        tag = checked(tag, dict, f"tag #{index}", ("tags", index))
        name = fit(str(tag.get("name")), services)
        services[name] = str(tag.get("description") or "")
        if rest := without(tag, "name", "description"):
            extra.setdefault("x-tags", {})[name] = rest
    return {"services": services, "extra": extra, "tools": tools}


def _parameters(item: dict[str, Any], keys: Keys, resolver: Resolver) -> dict[Any, Any]:
    """Returns the parameters of a path or an operation by (name, place)."""
    found = {}
    keys = (*keys, "parameters")
    for index, one in enumerate(
        checked(item.get("parameters", []), list, "parameters", keys)
    ):
        place = (*keys, index)
        one = checked(resolver.target(one), dict, f"parameter #{index}", place)
        name = checked(one.get("name"), str, f"the name of parameter #{index}", place)
        found[name, str(one.get("in"))] = one
    return found


def _usual_place(method: str) -> str:
    return "query" if method in (*_READING, "delete") else "body"


class _Reading:
    """Builds the tool of one operation."""

    def __init__(self, path: str, method: str, resolver: Resolver):
        self._resolver = resolver
        self._usual = _usual_place(method)
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        self._around: dict[str, Any] = {}
        self._extra: dict[str, Any] = {"path": path, "method": method}

    def tool(
        self, operation: dict[str, Any], given: dict[Any, Any], keys: Keys
    ) -> dict[str, Any]:
        """Returns the catalogue entry of an operation with the parameters `given`."""
        extra = self._extra
        name = operation.get("operationId")
        if not isinstance(name, str):
            path = "".join(c if c.isalnum() else " " for c in extra["path"])
            name, extra["unnamed"] = "_".join([extra["method"], *path.split()]), True
        text_field = "summary"
        if operation.get("description") and not operation.get("summary"):
            text_field = extra["described_by"] = "description"
        tool = {"name": name, "description": str(operation.get(text_field) or "")}
        tags = operation.get("tags")
        if isinstance(tags, list) and tags and isinstance(tags[0], str):
            tool["service"] = fit(tags[0], {})
            extra |= {"more_tags": tags[1:]} if tags[1:] else {}
        for (own_name, _), item in given.items():
            self._parameter(own_name, item)
        if "requestBody" in operation:
            place = (*keys, "requestBody")
            body = self._resolver.target(operation["requestBody"])
            self._body(checked(body, dict, "requestBody", place), place)
        result = self._result(operation.get("responses"))
        used = (
            "operationId",
            text_field,
            "tags",
            "parameters",
            "requestBody",
            "responses",
        )
        if rest := without(operation, *used):
            extra["operation"] = rest
        required = {"required": self._required} if self._required else {}
        properties = {"type": "object", "properties": self._properties}
        return {
            **tool,
            "parameters": {**properties, **required, **self._around},
            **({"result": result} if result else {}),
            "is_transactional": extra["method"] not in _READING,
            "extra": extra,
        }

    def _add(self, name: str, schema: dict[str, Any], place: str, needed: bool) -> None:
        key = fit(name, self._properties, dots=False)
        own = {"x-name": name} if key != name else {}
        mark = {"x-in": place} if place != self._usual else {}
        self._properties[key] = own | schema | mark
        self._required += [key] if needed else []

    def _parameter(self, name: str, item: dict[str, Any]) -> None:
        schema = self._resolver.schema(item.get("schema", {}))
        rest = without(item, "name", "in", "description", "schema")
        if item.get("required") is True:
            del rest["required"]
        if "description" in item:
            both = "description" in schema
            rest |= {"schema": {"description": schema["description"]}} if both else {}
            schema["description"] = item["description"]
        schema |= {"x-parameter": rest} if rest else {}
        place = str(item.get("in"))
        self._add(name, schema, place, item.get("required") is True)

    def _body(self, body: dict[str, Any], keys: Keys) -> None:
        shell = copy.deepcopy(body)
        media = _media(shell, keys)
        schema = self._resolver.schema(media.pop("schema", {}))
        needed = body.get("required") is True
        if is_object(schema):
            given = required_names(schema)
            for name, value in schema["properties"].items():
                self._add(name, value, "body", needed and name in given)
            # The arguments of an optional body are optional, even its required fields.
            self._around = without(schema, *_OBJECT)
            self._around |= {"x-required": given} if given and not needed else {}
            needed = needed and bool(given)
        else:
            self._add("body", schema, _WHOLE, needed)
        if shell != _body_shell(needed):
            self._extra["body"] = shell

    def _result(self, responses: Any) -> dict[str, Any] | None:
        """Returns the schema of a successful answer if it is an object, else None."""
        if responses == {"200": _ANSWER} or not isinstance(responses, dict):
            return None
        shells = {key: self._resolver.target(value) for key, value in responses.items()}
        for status, response in shells.items():
            content = response.get("content") if isinstance(response, dict) else None
            inside = content.get(_JSON) if isinstance(content, dict) else None
            if not str(status).startswith("2") or not isinstance(inside, dict):
                continue
            schema = self._resolver.schema(inside.get("schema", {}))
            if is_object(schema):
                shells[status] = copy.deepcopy(response)
                del shells[status]["content"][_JSON]["schema"]
                if shells != _answer_shell():
                    self._extra["responses"] = shells
                    self._extra["answer"] = str(status)
                return schema
        self._extra["responses"] = shells
        return None


def _media(shell: dict[str, Any], keys: Keys) -> dict[str, Any]:
    """Returns the media type object with the schema, preferably for JSON."""
    content = checked(shell.setdefault("content", {}), dict, "content", keys)
    key = next((key for key in (_JSON, *content) if key in content), _JSON)
    return checked(content.setdefault(key, {}), dict, key, keys)


def _body_shell(needed: bool) -> dict[str, Any]:
    return {**({"required": True} if needed else {}), "content": {_JSON: {}}}


def _answer_shell() -> dict[str, Any]:
    return {"200": {**_ANSWER, "content": {_JSON: {}}}}


def write(catalogue: dict[str, Any]) -> dict[str, Any]:
    """Returns the document of a catalogue; inverts `read`."""
    extra = dict(catalogue["extra"])
    rest_of_tags, rest_of_paths = extra.pop("x-tags", {}), extra.pop("x-paths", {})
    tags = [
        {"name": name}
        | ({"description": description} if description else {})
        | rest_of_tags.get(name, {})
        for name, description in catalogue["services"].items()
    ]
    paths: dict[str, Any] = {}
    for tool in catalogue["tools"].values():
        usual = "/".join(["", *filter(None, [tool.get("service")]), tool["name"]])
        method = "post" if tool["is_transactional"] else "get"
        method = tool["extra"].get("method", method)
        path = tool["extra"].get("path", usual)
        paths.setdefault(path, {})[method] = _operation(tool, _usual_place(method))
    for path, rest in rest_of_paths.items():
        paths[path] = rest | paths.get(path, {})
    return {**_HEAD, **extra, **({"tags": tags} if tags else {}), "paths": paths}


def _operation(tool: dict[str, Any], usual: str) -> dict[str, Any]:
    extra = tool["extra"]
    made: dict[str, Any] = {} if extra.get("unnamed") else {"operationId": tool["name"]}
    if "service" in tool:
        made["tags"] = [tool["service"], *extra.get("more_tags", [])]
    if tool["description"]:
        made[extra.get("described_by", "summary")] = tool["description"]
    needed = tool["parameters"].get("required", ())
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    whole: tuple[bool, ...] = ()
    parameters = []
    for key, argument in tool["parameters"]["properties"].items():
        place = argument.get("x-in", usual)
        if place == _WHOLE:
            schema, whole = without(argument, "x-in"), (key in needed,)
        elif place == "body":
            schema["properties"][key] = without(argument, "x-in")
        else:
            parameters.append(_parameter(key, argument, place, key in needed))
    made |= {"parameters": parameters} if parameters else {}
    around = without(tool["parameters"], *_OBJECT)
    if whole or schema["properties"] or around or "body" in extra:
        given = [] if whole else [key for key in schema["properties"] if key in needed]
        body = copy.deepcopy(extra.get("body")) or _body_shell(any(whole or given))
        given = around.pop("x-required", given)
        schema |= around | ({"required": given} if given else {})
        _media(body, ())["schema"] = with_own_names(schema)
        made["requestBody"] = body
    shells = copy.deepcopy(extra.get("responses", {"200": _ANSWER}))
    if "result" in tool:
        shells = shells if "answer" in extra else _answer_shell()
        content = shells[extra.get("answer", "200")]["content"]
        content[_JSON]["schema"] = with_own_names(tool["result"])
    return made | {"responses": shells} | extra.get("operation", {})


def _parameter(
    key: str, argument: dict[str, Any], place: str, needed: bool
) -> dict[str, Any]:
    rest = argument.get("x-parameter", {})
    schema = without(argument, "description", "x-in", "x-parameter", "x-name")
    schema = with_own_names(schema) | rest.get("schema", {})
    made = {"name": argument.get("x-name", key), "in": place}
    made |= (
        {"description": argument["description"]} if "description" in argument else {}
    )
    made |= {"required": True} if needed else {}
    return {**rest, **made, **({"schema": schema} if schema else {})}
