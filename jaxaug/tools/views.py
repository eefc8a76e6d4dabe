"""Reads JSON Schemas one level at a time: follows references and merges `allOf`.

A node is a list of parts, which hold together: the schema itself, the targets of its
references, and the members of its `allOf`. Nothing is expanded before it is asked for.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

import referencing
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from jaxaug.core.files import shown
from jaxaug.core.json_places import Keys
from jaxaug.core.suggestion import suggestion

MAX_PLACES = 20_000
"""Maximum number of schemas in the arguments of a tool, references written out."""
MAX_IN_DOCUMENT = 500_000
"""Maximum number of schemas in all tools of a document, references written out."""
MAX_DEPTH = 50
"""Maximum nesting depth of references and objects."""
ABSENT: Any = type(
    "Absent", (), dict.fromkeys(("__repr__", "__reduce__"), lambda _: "ABSENT")
)()
"""Stands for a value that does not exist, such as a missing default."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ONE = (
    *("items", "not", "additionalProperties", "contains", "if", "then", "else"),
    *("propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
_SEVERAL = ("anyOf", "oneOf", "prefixItems")
_LEFT = ("$defs", "definitions", "$anchor", "$dynamicAnchor", "$id")
_ANNOTATIONS = ("description", "title", "default", "examples")
_NAMED = ("properties", "patternProperties", "dependentSchemas")


def _definitions(contents: Any) -> list[Any]:
    """Returns the named schemas of an OpenAPI document, which may have anchors."""
    found = contents.get("components") if isinstance(contents, dict) else None
    found = found.get("schemas") if isinstance(found, dict) else None
    return [*found.values()] if isinstance(found, dict) else []


_specification: Any = referencing.Specification  # Its class hides its arguments.
_OPENAPI = _specification(
    name="OpenAPI",
    id_of=lambda contents: None,
    subresources_of=_definitions,
    anchors_in=lambda specification, contents: [],
    maybe_in_subresource=lambda segments, resolver, subresource: resolver,
)


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


def without(value: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Returns a copy of an object without some of its keys."""
    return {key: item for key, item in value.items() if key not in keys}


class Part(NamedTuple):
    """A schema object of a document.

    Attributes:
        schema: the schema.
        resolver: resolver of its references; None stands for the surrounding one.
        source: object whose texts are changed. It differs from `schema` if that is a
            view of a part of it.
        by: the schema whose reference led here; its own texts come first.
    """

    schema: Any
    resolver: Any
    source: Any
    by: Mapping[str, Any] = {}


class Joined(tuple):
    """Parts that hold together as one schema."""


class Text(NamedTuple):
    """A text of a document, which is `source[key]`."""

    source: dict[str, Any]
    key: str

    def __str__(self) -> str:
        return self.source[self.key]


@dataclass(frozen=True, slots=True)
class Node:
    """A schema with its references followed.

    Attributes:
        parts: the schemas that hold together; the schema itself is first.
        within: identities of the schemas of the node and of each node around it, from
            the outermost inward. Nodes share these sets.
        depth: number of schemas around the node.
        is_cut: whether a reference to a schema around the node was left alone.
        is_never: whether no value is valid: the schema is `false`.
    """

    parts: tuple[Part, ...]
    within: tuple[frozenset[int], ...]
    depth: int
    is_cut: bool
    is_never: bool

    def first(self, key: str, default: Any = None) -> Any:
        """Returns the value of a keyword in the first part that has it."""
        return next((p.schema[key] for p in self.parts if key in p.schema), default)

    def all(self, key: str, kind: type) -> Iterator[tuple[Any, Part]]:
        """Yields the values of a keyword that have the type `kind`, and their parts."""
        for part in self.parts:
            value = part.schema.get(key)
            if type(value) is kind:
                yield value, part

    def texts(self) -> list[Text]:
        """Returns the descriptions of the schema itself; the first one decides."""
        return [
            Text(part.source, "description")
            for value, part in self.all("description", str)
            if value.strip() and part.source.get("description") == value
        ]


class Document:
    """Follows the references of a document.

    Attributes:
        hidden: keyword of properties to leave out: "readOnly" in requests of OpenAPI,
            "writeOnly" in answers, else empty.
    """

    def __init__(self, contents: Any, budget: list[int] | None = None):
        """Takes the JSON value, to which references are relative.

        Args:
            contents: JSON value.
            budget: number of schemas that may be read, which documents share and count
                down, and its value at the beginning. Both are `MAX_IN_DOCUMENT` by
                default.
        """
        specification = DRAFT202012
        if isinstance(contents, dict) and isinstance(contents.get("openapi"), str):
            specification = _OPENAPI
        elif isinstance(contents, dict) and isinstance(contents.get("$schema"), str):
            specification = specification_with(contents["$schema"], DRAFT202012)
        try:
            found = specification.create_resource(contents)
            self._root = referencing.Registry().resolver_with_root(found)
        except (AttributeError, TypeError, ValueError):
            bare = referencing.Specification.OPAQUE.create_resource(contents)
            self._root = referencing.Registry().with_resource("", bare).resolver("")
        self._known: dict[tuple[int, str], tuple[Any, Any]] = {}
        self._budget = budget or [MAX_IN_DOCUMENT] * 2
        self._left = MAX_PLACES
        self.hidden = ""
        self._branches: dict[int, tuple[Node, list[list[Node]]]] = {}

    def start(self) -> None:
        """Starts a tool, whose number of schemas is limited, too."""
        self._left = MAX_PLACES
        self._branches.clear()

    def target(self, value: Any) -> Any:
        """Returns the target of a reference; other values are returned unchanged.

        Raises:
            DocumentError: a reference has no target or leads to another file, or
                references form a cycle.
        """
        resolver, seen = self._root, set()
        while isinstance(value, dict) and isinstance(value.get("$ref"), str):
            ref = value["$ref"]
            if id(value) in seen:
                raise DocumentError(
                    f"$ref {shown(ref)} leads back to itself. Define its target",
                    needle=ref,
                )
            seen.add(id(value))
            value, resolver = self._find(ref, resolver)
        return value

    def node(self, schema: Any, around: Node | None = None, part: Any = None) -> Node:
        """Returns the node of a schema.

        Args:
            schema: schema object, boolean, or `Joined` parts.
            around: the node that contains it; None for the outermost schema.
            part: the part of `around` that contains it.

        Raises:
            DocumentError: see `target`, or the document is too large.
        """
        within = around.within if around else ()
        depth = around.depth + 1 if around else 0
        resolver = part.resolver if part else self._root
        left = [Part(schema, None, schema)]
        if isinstance(schema, Joined):
            left = [*schema[::-1]]
        parts: list[Part] = []
        followed: set[int] = set()
        is_cut = is_never = False
        while left:
            one, own, source, by = left.pop()
            is_never |= one is False
            if not isinstance(one, dict) or id(one) in followed:
                continue
            self._count(depth, one)
            followed.add(id(one))
            scope = own or resolver
            parts.append(Part(one, scope, source, by))
            members = one.get("allOf")
            inside = [
                Part(item, scope, item)
                for item in (members if type(members) is list else ())
            ]
            for key in _REFERENCES:
                if isinstance(one.get(key), str):
                    target, there = self._find(one[key], scope)
                    is_inner = any(id(target) in ids for ids in within)
                    is_cut |= is_inner
                    if not is_inner:
                        inside.append(Part(target, there, target, one))
            left += inside[::-1]
        ids = frozenset(id(one.schema) for one in parts)
        return Node(tuple(parts), (*within, ids), depth, is_cut, is_never)

    def _count(self, depth: int, schema: Mapping[str, Any]) -> None:
        self._left -= 1
        self._budget[0] -= 1
        if depth > MAX_DEPTH:
            found = f"a tool has schemas in more than {MAX_DEPTH} levels"
        elif self._left < 0:
            found = f"a tool has more than {MAX_PLACES:,} schemas"
        elif self._budget[0] < 0:
            found = f"all tools have more than {self._budget[1]:,} schemas"
        else:
            return
        raise DocumentError(
            f"{found}, references written out. Simplify them, or leave tools out",
            needle=next((schema[k] for k in _REFERENCES if k in schema), ""),
        )

    def _find(self, ref: str, resolver: Any) -> tuple[Any, Any]:
        key = id(resolver), ref
        if key not in self._known:
            self._known[key] = self._looked_up(ref, resolver), resolver
        return self._known[key][0]

    def _looked_up(self, ref: str, resolver: Any) -> tuple[Any, Any]:
        try:
            found = resolver.lookup(ref)
        except Unresolvable as error:
            if not ref.startswith("#"):
                raise DocumentError(
                    f"$ref {shown(ref)} leads out of the file. Bundle the document "
                    "into one file first",
                    needle=ref,
                ) from error
            raise self._lacking(ref, resolver) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._lacking(ref, resolver) from error
        return found.contents, found.resolver

    def _lacking(self, ref: str, resolver: Any) -> DocumentError:
        """Returns the error of a reference without a target."""
        place: Any = resolver.lookup("#").contents
        lacking = ref[1:]
        for part in ref[1:].split("/")[1:]:
            lacking = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(place, dict) or lacking not in place:
                break
            place = place[lacking]
        known = place if isinstance(place, dict) else ()
        return DocumentError(
            f"$ref {shown(ref)} has no target: {shown(lacking)} is missing; "
            f"{suggestion(lacking, known)}",
            needle=ref,
        )

    def properties(self, node: Node) -> dict[str, Node]:
        """Returns the properties of an object by name.

        Alternatives (`anyOf`, `oneOf`) that are all objects contribute theirs.
        """
        if node.is_cut:
            return {}
        found = {name: [one] for name, one in self._own_properties(node).items()}
        for branches in self.branches(node):
            real = [one for one in branches if not is_null(one)]
            if all(map(self.is_object, real)):
                for branch in real:
                    for name, one in self.properties(branch).items():
                        found.setdefault(name, []).append(one)
        return {name: self._either(several, node) for name, several in found.items()}

    def is_object(self, node: Node) -> bool:
        """Returns whether a schema names properties, without reading them."""
        if node.is_cut:
            return False
        return any(value for value, _ in node.all("properties", dict)) or any(
            (real := [one for one in branches if not is_null(one)])
            and all(map(self.is_object, real))
            for branches in self.branches(node)
        )

    def _own_properties(self, node: Node) -> dict[str, Node]:
        found: dict[str, list[Node]] = {}
        for inside, part in node.all("properties", dict):
            for name, schema in inside.items():
                found.setdefault(name, []).append(self.node(schema, node, part))
        made = {name: _both(several) for name, several in found.items()}
        hides = self.hidden
        return {
            k: v for k, v in made.items() if not hides or v.first(hides) is not True
        }

    def _either(self, several: list[Node], around: Node) -> Node:
        """Returns the node of a property that alternatives have."""
        kept = [one for one in several if not one.is_never] or several[:1]
        kept = [*{tuple(id(p.schema) for p in one.parts): one for one in kept}.values()]
        if len(kept) == 1:
            return kept[0]
        choices = {"anyOf": [Joined(one.parts) for one in kept]}
        part = Part(choices, self._root, {})
        return Node((part,), around.within, around.depth + 1, False, False)

    def branches(self, node: Node) -> list[list[Node]]:
        """Returns the alternatives of each `anyOf` and `oneOf`."""
        if id(node) not in self._branches:
            found = [
                [self.node(one, node, part) for one in value]
                for key in ("anyOf", "oneOf")
                for value, part in node.all(key, list)
            ]
            self._branches[id(node)] = node, found
        return self._branches[id(node)][1]

    def required(self, node: Node) -> set[str]:
        """Returns the names of the properties that every object must have."""
        names: set[str] = set()
        for value, _ in node.all("required", list):
            for name in value:
                checked(name, str, "an item of required", ())
            names |= {*value}
        for branches in self.branches(node):
            inner = [self.required(one) for one in branches if not one.is_never]
            if inner and not any(map(is_null, branches)):
                names |= set.intersection(*inner)
        return names

    def items(self, node: Node) -> Node | None:
        """Returns the schema of the items of an array, if it has one."""
        for value, part in node.all("items", dict):
            return self.node(value, node, part)
        inside = (self.items(one) for b in self.branches(node) for one in b)
        return next((found for found in inside if found is not None), None)

    def inner_texts(self, node: Node, above: str = "") -> Iterator[tuple[str, Text]]:
        """Yields the descriptions inside a schema, at any depth; not its own ones.

        Args:
            node: the schema.
            above: dotted name of the schema; empty for the outermost one.

        Yields:
            The dotted name of the described place, and the description.
        """
        for part in () if node.is_cut else node.parts:
            for key in (*_ONE, *_SEVERAL, *_NAMED):
                value = part.schema.get(key)
                inside: list[tuple[str, Any]] = []
                if key in _NAMED and isinstance(value, dict):
                    dot = "." if above else ""
                    inside = [(f"{above}{dot}{k}", one) for k, one in value.items()]
                elif key in _SEVERAL and type(value) is list:
                    inside = [(above, one) for one in value]
                elif key in _ONE:
                    inside = [(f"{above}[]" if key == "items" else above, value)]
                for name, schema in inside:
                    if isinstance(schema, dict | Joined):
                        one = self.node(schema, node, part)
                        yield from ((name, text) for text in one.texts())
                        yield from self.inner_texts(one, name)

    def shallow(self, node: Node) -> dict[str, Any]:
        """Returns an object with its properties as they stand in the document."""
        return {
            "type": "object",
            "properties": {
                name: dict(one.parts[0].schema) if one.parts else {}
                for name, one in self.properties(node).items()
            },
        }

    def written(self, node: Node) -> dict[str, Any]:
        """Returns a schema that says the same without references to the document.

        `allOf` is merged where the meaning stays; other members remain. A schema that
        contains itself moves to `$defs`.
        """
        definitions: dict[str, Any] = {}
        names: dict[int, str] = {}

        def defined(target: Any, ref: str) -> str:
            if id(target) not in names:
                base = re.sub(r"\W+", "_", unquote(ref.rpartition("/")[2])).strip("_")
                names[id(target)] = name = _reserved(base or "self", definitions)
                definitions[name] = write(self.node(target))
            return names[id(target)]

        def inside(key: str, value: Any, node: Node, part: Part) -> Any:
            def one(schema: Any) -> Any:
                is_schema = isinstance(schema, dict | Joined)
                return write(self.node(schema, node, part)) if is_schema else schema

            if key in _ONE:
                return one(value)
            if key in _SEVERAL and type(value) is list:
                return [*map(one, value)]
            if key in _NAMED and isinstance(value, dict):
                return {name: one(schema) for name, schema in value.items()}
            return value

        def write(node: Node) -> dict[str, Any]:
            made: dict[str, Any] = {}
            rest: dict[str, Any] = {}
            own = {id(part.schema) for part in node.parts}
            for part in node.parts:
                left: dict[str, Any] = {}
                for key, value in part.schema.items():
                    if key in _REFERENCES and isinstance(value, str):
                        target, _ = self._find(value, part.resolver)
                        if target is False:
                            made["not"] = {}
                        elif isinstance(target, dict) and id(target) not in own:
                            made["$ref"] = f"#/$defs/{defined(target, value)}"
                        continue
                    if key in _LEFT or (key == "allOf" and type(value) is list):
                        continue
                    if key == "properties" and isinstance(value, dict):
                        continue
                    value = inside(key, value, node, part)
                    are_lists = isinstance(value, list) and isinstance(
                        made.get(key), list
                    )
                    if key not in made:
                        made[key] = value
                    elif key == "required" and are_lists:
                        made[key] = list(dict.fromkeys([*made[key], *value]))
                    elif key == "enum" and are_lists:
                        made[key] = shared(made[key], value)
                    elif _identity(value) != _identity(made[key]) and not (
                        key in _ANNOTATIONS and key in part.by
                    ):
                        left[key] = value
                if left:
                    rest.setdefault("allOf", []).append(left)
            if any(True for _ in node.all("properties", dict)):
                made["properties"] = {
                    name: False if one.is_never else write(one)
                    for name, one in self._own_properties(node).items()
                }
                if self.hidden and isinstance(made.get("required"), list):
                    known = made["properties"]
                    made["required"] = [one for one in made["required"] if one in known]
            return made | rest

        made = write(node)
        return made | ({"$defs": definitions} if definitions else {})


def lifted(
    schema: dict[str, Any], prefix: str, definitions: dict[str, Any]
) -> dict[str, Any]:
    """Returns a schema of `Document.written` whose `$defs` stand elsewhere.

    Args:
        schema: the schema.
        prefix: reference to the object of definitions, with a final slash.
        definitions: takes the definitions of the schema, under names that are free.
    """
    names = {name: _reserved(name, definitions) for name in schema.get("$defs", ())}

    def moved(made: dict[str, Any]) -> dict[str, Any]:
        name = str(made.get("$ref")).removeprefix("#/$defs/")
        return made | ({"$ref": prefix + names[name]} if name in names else {})

    for name, own in names.items():
        definitions[own] = rewritten(schema["$defs"][name], moved)
    return rewritten(without(schema, "$defs"), moved)


def _reserved(base: str, definitions: dict[str, Any]) -> str:
    """Adds an empty definition; returns its name, which is free."""
    name = base
    while name in definitions:
        name = f"{base}_{len(definitions)}"
    definitions[name] = {}
    return name


def rewritten(value: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """Returns a JSON value with each object changed, from the innermost outward."""
    if isinstance(value, list):
        return [rewritten(one, change) for one in value]
    if not isinstance(value, dict):
        return value
    return change({key: rewritten(one, change) for key, one in value.items()})


def with_texts(value: Any, change: Callable[[str], str | None]) -> Any:
    """Returns a JSON value with other descriptions, at any depth.

    Args:
        value: tool, or JSON Schema.
        change: function from a description to its new text; None removes it.
    """

    def changed(made: dict[str, Any]) -> dict[str, Any]:
        if isinstance(text := made.get("description"), str):
            made["description"] = change(text)
            if made["description"] is None:
                del made["description"]
        return made

    return rewritten(value, changed)


def shared(values: list[Any], others: list[Any]) -> list[Any]:
    """Returns the JSON values that are also in another list; 1 and true differ."""
    known = {*map(_identity, others)}
    return [one for one in values if _identity(one) in known]


def unique(values: list[Any]) -> list[Any]:
    """Returns JSON values without repetitions."""
    return [*{_identity(one): one for one in values}.values()]


def _identity(value: Any) -> str:
    """Returns a text that equal JSON values share; 1 and 1.0 are equal."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def _both(several: list[Node]) -> Node:
    """Returns the node of the values that are valid for all nodes of an object."""
    if len(several) == 1:
        return several[0]
    parts: dict[int, Part] = {}
    for part in (part for one in several for part in one.parts):
        parts.setdefault(id(part.schema), part)
    return Node(
        tuple(parts.values()),
        (*several[0].within[:-1], frozenset(parts)),
        several[0].depth,
        any(one.is_cut for one in several),
        any(one.is_never for one in several),
    )


def is_null(node: Node) -> bool:
    """Returns whether a schema allows only null."""
    return node.first("type") == "null" or node.first("enum") == [None]


def same(one: Any, two: Any) -> bool:
    """Returns whether two JSON values are equal; the order of keys is ignored.

    1 and 1.0 are equal, but 1 and True, which Python calls equal, are not.
    """
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return isinstance(one, bool) == isinstance(two, bool) and one == two
