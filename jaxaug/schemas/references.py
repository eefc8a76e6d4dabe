"""Resolves the references of JSON Schemas, so that they can be flattened."""

from collections.abc import Mapping
from typing import Any

from jaxaug.core.files import shown
from jaxaug.core.json_places import Keys
from jaxaug.core.suggestion import suggestion

MAX_PLACES = 20_000
"""Maximum number of nested schemas in the arguments of a tool."""
MAX_DEPTH = 50
"""Maximum nesting depth of references and objects."""

# Keywords whose values are schemas, lists of schemas, and objects of schemas.
_INSIDE = ("items", "not", "additionalProperties", "contains")
_LISTS = ("oneOf", "anyOf", "prefixItems")


class DocumentError(Exception):
    """A document that cannot be imported.

    Attributes:
        keys: path of the error in the document.
        needle: text at the error, if the path is unknown.
    """

    def __init__(self, message: str, keys: Keys = (), needle: str = ""):
        super().__init__(message)
        self.keys, self.needle = keys, needle


def checked(
    value: Any, kind: type[dict] | type[list] | type[str], what: str, keys: Keys
) -> Any:
    """Returns the value; raises `DocumentError` if it has another type."""
    if type(value) is not kind:
        names = {"dict": "an object", "list": "a list", "str": "a string"}
        name = names[kind.__name__]
        raise DocumentError(f"{what}: expected {name}, got {shown(value)}", keys)
    return value


def distinct(name: str, taken: Mapping[str, Any]) -> str:
    """Returns a name, with the suffix `_2`, `_3`, ... if it is taken."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def fit(name: str, taken: Mapping[str, Any], dots: bool = True) -> str:
    """Returns a valid name for an SGD schema: a single line, not blank, not taken.

    Each invalid character becomes `_`, and a blank name becomes `unnamed`. A taken name
    gets a suffix; see `distinct`.

    Args:
        name: name in the document.
        taken: names in use.
        dots: whether dots are valid; in names of slots they express nesting.
    """
    kept = "".join(c if c.isprintable() and (dots or c != ".") else "_" for c in name)
    return distinct(kept if kept.strip() else "unnamed", taken)


class Resolver:
    """Replaces the references within a document by their targets.

    A reference to a schema that contains it stays unchanged. `allOf` of objects becomes
    one object. A property whose name is not valid for a slot is renamed; the keyword
    `x-name` keeps the original name.
    """

    def __init__(self, document: Any):
        self._document = document
        self._left = 0

    def schema(self, schema: Any) -> dict[str, Any]:
        """Returns a schema without references, except to itself.

        Raises:
            DocumentError: a reference has no target or leads to another file, or the
                result has more than `MAX_PLACES` schemas.
        """
        self._left = MAX_PLACES
        return self._written(schema, ())

    def target(self, value: Any) -> Any:
        """Returns the target of a reference; other values are returned unchanged.

        Raises:
            DocumentError: for the reasons of `schema`, or the references form a cycle.
        """
        seen: list[str] = []
        while isinstance(value, dict) and isinstance(value.get("$ref"), str):
            ref = value["$ref"]
            if ref in seen:
                raise DocumentError(
                    f"$ref {shown(ref)} leads back to itself. Define its target",
                    needle=ref,
                )
            seen.append(ref)
            value = self._find(ref)
        return value

    def _find(self, ref: str) -> Any:
        if not ref.startswith("#"):
            raise DocumentError(
                f"$ref {shown(ref)} leads out of the file. Bundle the document into "
                "one file first",
                needle=ref,
            )
        found = self._document
        for part in ref[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~").replace("%20", " ")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                known = found if isinstance(found, dict) else ()
                raise DocumentError(
                    f"$ref {shown(ref)} has no target: {shown(key)} is missing; "
                    f"{suggestion(key, known)}",
                    needle=ref,
                )
        return found

    def _written(self, schema: Any, within: tuple[str, ...]) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0 or len(within) > MAX_DEPTH:
            raise DocumentError(
                f"a schema has more than {MAX_PLACES:,} parts or {MAX_DEPTH} levels "
                "once its references are written out. Simplify it, or leave the tool "
                "out",
                needle=next(filter(None, within), ""),
            )
        if not isinstance(schema, dict):
            return {}
        ref = schema.get("$ref")
        if isinstance(ref, str):
            if ref in within:
                return dict(schema)
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            found = self._written(self._find(ref), (*within, ref))
            return found | self._written(rest, within) if rest else found
        made = dict(schema)
        given = made.get("required")  # True in drafts of JSON Schema before the fourth.
        for name in given if isinstance(given, list) else ():
            checked(name, str, "an item of required", ())
        for key in _INSIDE:
            if isinstance(made.get(key), dict):
                made[key] = self._written(made[key], within)
        for key in (*_LISTS, "allOf"):
            if isinstance(made.get(key), list):
                made[key] = [self._written(item, within) for item in made[key]]
        if isinstance(made.get("properties"), dict):
            self._properties(made, within)
        return _merged(made)

    def _properties(self, made: dict[str, Any], within: tuple[str, ...]) -> None:
        names: dict[str, str] = {}
        properties: dict[str, Any] = {}
        for name, value in made["properties"].items():
            key = fit(name, properties, dots=False)
            properties[key] = self._written(value, (*within, ""))
            if key != name:
                properties[key]["x-name"] = name
            names[name] = key
        made["properties"] = properties
        if isinstance(made.get("required"), list):
            made["required"] = [names.get(name, name) for name in made["required"]]


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema merged with the objects of its `allOf`."""
    parts = schema.get("allOf")
    if not isinstance(parts, list) or any("$ref" in part for part in parts):
        return schema
    made: dict[str, Any] = {}
    for part in (*parts, {k: v for k, v in schema.items() if k != "allOf"}):
        for key, value in part.items():
            old = made.get(key)
            if (
                key == "properties"
                and isinstance(old, dict)
                and isinstance(value, dict)
            ):
                value = old | value
            elif (
                key == "required" and isinstance(old, list) and isinstance(value, list)
            ):
                value = list(dict.fromkeys([*old, *value]))
            made[key] = value
    return made


def with_own_names(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a schema whose properties have their original names, from `x-name`."""
    made = {key: value for key, value in schema.items() if key != "x-name"}
    for key in _INSIDE:
        if isinstance(made.get(key), dict):
            made[key] = with_own_names(made[key])
    for key in (*_LISTS, "allOf"):
        if isinstance(made.get(key), list):
            made[key] = [with_own_names(item) for item in made[key]]
    if isinstance(made.get("properties"), dict):
        names = {k: v.get("x-name", k) for k, v in made["properties"].items()}
        made["properties"] = {
            names[key]: with_own_names(value)
            for key, value in made["properties"].items()
        }
        if isinstance(made.get("required"), list):
            made["required"] = [names.get(name, name) for name in made["required"]]
    return made


def without(value: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Returns a copy of an object without some of its keys."""
    return {key: item for key, item in value.items() if key not in keys}
