"""The resolved catalogue of a document: its tools, arguments, and texts.

Slots, rewordable texts, expected calls, and answered calls are all made from it. Paths
of arguments have the exact names of the document, so that calls do, too.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from jaxaug.core import json_reader
from jaxaug.formats.json_tools import object_schema
from jaxaug.tools.views import (
    ABSENT,
    Document,
    Node,
    Text,
    checked,
    is_null,
    shared,
    unique,
)

DONTCARE = "dontcare"
"""Value of a slot in SGD that the service chooses."""
FLAG = ("True", "False")
"""Values of a boolean slot in SGD."""
Path = tuple[str | None, ...]
"""Names of properties from the outermost inward; None stands for array items."""

_NUMBER = re.compile(r"[-+]?[0-9]{1,400}(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,4})?")


_KINDS: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
}


@dataclass(frozen=True, slots=True)
class Argument:
    """An innermost argument of a tool, or an array of objects.

    Attributes:
        path: place in the arguments object.
        slot: name of the slot.
        texts: places of its descriptions in the document; the first one decides.
        types: names of the JSON types that are valid; empty if any is. "null" is left
            out, see `nullable`.
        values: the valid values, of any JSON type, without null; None if there is no
            such list.
        nullable: whether null is valid.
        required: whether every call needs it, if the objects around it are given.
        needed: whether the objects around it are required, too.
        default: value that the document states; `ABSENT` without one.
        examples: values that the document states as examples.
        items: the items of an array, if the document describes them.
        is_outer: whether further arguments are inside, which is so for arrays of
            objects.
        source: object of the document that takes a description of this argument alone.
    """

    path: Path
    slot: str
    texts: tuple[Text, ...] = ()
    types: tuple[str, ...] = ()
    values: tuple[Any, ...] | None = None
    nullable: bool = False
    required: bool = False
    needed: bool = False
    default: Any = ABSENT
    examples: tuple[Any, ...] = ()
    items: "Argument | None" = None
    is_outer: bool = False
    source: dict[str, Any] = field(default_factory=dict)

    @property
    def description(self) -> str:
        """The description in the document, or the words of the name."""
        return str(self.texts[0]) if self.texts else words(self.slot)

    @property
    def possible_values(self) -> tuple[str, ...]:
        """The possible values in SGD's spelling; empty for a free slot."""
        if self.values is not None:
            return tuple(dict.fromkeys(filter(None, map(spelled, self.values))))
        return FLAG if "boolean" in self.types else ()

    def cast(self, text: str) -> Any:
        """Returns the JSON value of a text, or `ABSENT` if the text has none.

        Listed values match in SGD's spelling, then in any letter case. "dontcare" is
        no value unless it is listed.
        """
        if self.values is not None:
            for fold in (str, str.casefold):
                for value in self.values:
                    if fold(spelled(value) or "") == fold(text):
                        return value
            return ABSENT
        if text == DONTCARE:
            return ABSENT
        may_be_text = "string" in self.types or not _KINDS.keys() & {*self.types}
        value = self._typed(text) if self.types else ABSENT
        # A text such as 007 stays a text where texts are valid.
        if value is not ABSENT and (not may_be_text or spelled(value) == text):
            return value
        return text if may_be_text else ABSENT

    def fits(self, value: Any) -> bool:
        """Returns whether a JSON value has a declared type, or is a listed value."""
        if value is None and self.nullable:
            return True
        if self.values is not None:
            return bool(shared([value], [*self.values]))
        if self.types and not any(
            isinstance(value, kinds) and (isinstance(value, bool) == (kinds is bool))
            for kinds in map(_KINDS.get, self.types)
            if kinds
        ):
            return not _KINDS.keys() & {*self.types}
        if not isinstance(value, list):
            return True
        if self.is_outer:
            return all(isinstance(one, dict) for one in value)
        return self.items is None or all(map(self.items.fits, value))

    def _typed(self, text: str) -> Any:
        bare = text.strip()
        if "boolean" in self.types and bare.casefold() in ("true", "false"):
            return bare.casefold() == "true"
        if {"integer", "number"} & {*self.types} and _NUMBER.fullmatch(bare):
            number = float(bare)
            if re.fullmatch(r"[-+]?[0-9]+", bare):
                return int(bare)
            if number.is_integer() and "number" not in self.types:
                return int(number)
            if math.isfinite(number) and "number" in self.types:
                return number
        for kind, type_ in (("array", list), ("object", dict)):
            if kind in self.types and bare[:1] in "[{":
                try:
                    value = json_reader.decoded(bare)
                except json_reader.JsonError:
                    continue
                if isinstance(value, type_) and self.fits(value):
                    return value
        is_one = "array" in self.types and "string" not in self.types
        if is_one and bare[:1] != "[" and not self.is_outer:
            value = (self.items or Argument((), "")).cast(text)
            return ABSENT if value is ABSENT else [value]
        return ABSENT


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a document.

    Attributes:
        name: name in the document.
        service: name of its service in the schema.
        intent: name of its intent in the schema.
        texts: places of its descriptions in the document; the first one decides.
        arguments: its innermost arguments, and its arrays of objects.
        results: the top-level fields of its result, as far as a slot can hold them.
        is_transactional: whether a call may change something.
        more: further texts about its arguments, such as of objects and items,
            with a name for each.
        source: object of the document that takes a description of the tool.
        key: distinct name in the document.
    """

    name: str
    service: str
    intent: str
    texts: tuple[Text, ...]
    arguments: tuple[Argument, ...]
    results: tuple[Argument, ...] = ()
    is_transactional: bool = True
    more: tuple[tuple[str, tuple[Text, ...]], ...] = ()
    source: dict[str, Any] = field(default_factory=dict)
    key: str = ""

    @property
    def description(self) -> str:
        """The description in the document; may be empty."""
        return str(self.texts[0]) if self.texts else ""

    def arguments_of(self, state: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
        """Returns the arguments object of a call that tells a state.

        Names, nesting, and types come from the document. Slots that the tool does
        not have, values that have no form in the declared type, and "dontcare" are left
        out.

        Args:
            state: maps a slot to its value, or to several wordings of it; the first
                one counts. Several values of an array are its items. A value of an
                array of objects replaces the values of its items.
        """
        made: dict[str, Any] = {}
        whole: list[Path] = []
        for argument in self.arguments:
            if any(argument.path[: len(path)] == path for path in whole):
                continue
            given = state.get(argument.slot, ())
            texts = [given] if isinstance(given, str) else [*given]
            if not texts:
                continue
            value = argument.cast(texts[0])
            if len(texts) > 1 and "array" in argument.types and argument.items:
                cast = [argument.items.cast(text) for text in texts]
                value = [one for one in cast if one is not ABSENT] or ABSENT
            if value is not ABSENT and self._fits_inside(argument, value):
                put_at(made, argument.path, value)
                whole += [argument.path] if argument.is_outer else []
        return made

    def _fits_inside(self, outer: Argument, value: Any) -> bool:
        """Returns whether the arguments in the items of an array have their types."""
        start = (*outer.path, None)
        return not outer.is_outer or all(
            one.fits(found)
            for one in self.arguments
            if one.path[: len(start)] == start
            for item in value
            for found in _values_at(item, one.path[len(start) :])
        )

    def state_of(
        self, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, str | None], list[str]]:
        """Returns the slot values of a call; inverts `arguments_of`.

        Args:
            arguments: arguments object of a call.

        Returns:
            The text of each given slot, None for null, and the dotted names of
            arguments that the tool does not declare.
        """
        by_path = {one.path: one for one in self.arguments}
        slots = {one.slot for one in self.arguments}
        names: dict[Path, set[Any]] = {}
        for path in by_path:
            for number, key in enumerate(path):
                names.setdefault(path[:number], set()).add(key)
        told: dict[str, str | None] = {}
        unknown: list[str] = []

        def tell(given: Mapping[str, Any], path: Path, above: str) -> None:
            for key, value in given.items():
                here, dotted = (*path, key), above + key
                inside = names.get((*here, None), ())
                one = value[0] if isinstance(value, list) and len(value) == 1 else None
                if key not in names.get(path, ()):
                    if dotted in slots:  # A name with dots instead of nested objects.
                        told[dotted] = spelled(value)
                    elif isinstance(value, Mapping) and value:
                        tell(value, here, f"{dotted}.")
                    else:
                        unknown.append(dotted)
                elif inside and isinstance(one, Mapping) and {*one} <= {*inside}:
                    tell(one, (*here, None), f"{dotted}[].")
                elif here in by_path:
                    told[by_path[here].slot] = spelled(value)
                elif isinstance(value, Mapping):
                    tell(value, here, f"{dotted}.")
                elif value is None:
                    inner = [by_path[p] for p in by_path if p[: len(here)] == here]
                    told.update((each.slot, None) for each in inner)
                else:
                    unknown.append(dotted)

        tell(arguments, (), "")
        return told, unknown

    def lacking(self, arguments: Mapping[str, Any]) -> list[Path]:
        """Returns the paths of required arguments that an arguments object lacks."""
        return [
            one.path
            for one in self.arguments
            if one.required
            and any(
                isinstance(outer, Mapping) and one.path[-1] not in outer
                for outer in _values_at(arguments, one.path[:-1])
            )
        ]


@dataclass(slots=True)
class Catalogue:
    """The tools of a document.

    Attributes:
        tools: the tools. Before `services.schema_of`, `service` is the name that the
            document gives to a group of tools, and `intent` a distinct name.
        services: descriptions of the services that the document names.
        told: the content of the document in the form of `services.catalogue_of`, to
            find what a schema does not hold.
    """

    tools: list[Tool] = field(default_factory=list)
    services: dict[str, tuple[Text, ...]] = field(default_factory=dict)
    told: dict[str, Any] = field(
        default_factory=lambda: {"services": {}, "extra": {}, "tools": {}}
    )


def put_at(place: Any, path: Path, value: Any) -> None:
    """Sets a value in nested objects; an array gets one item."""
    for key, following in zip(path, [*path[1:], ABSENT], strict=True):
        empty: Any = [] if following is None else {}
        here = 0 if key is None else key
        if key is None and not place:
            place.append(empty)
        if following is ABSENT:
            place[here] = value
        elif key is not None and type(place.get(key)) is not type(empty):
            place[key] = empty
        place = place[here]


def _values_at(value: Any, path: Path) -> Iterator[Any]:
    """Yields the values at a path; objects without its last name have none."""
    if not path:
        yield value
    elif path[0] is None:
        for one in value if isinstance(value, list) else ():
            yield from _values_at(one, path[1:])
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _values_at(value[path[0]], path[1:])


def spelled(value: Any) -> str | None:
    """Returns a value in SGD's spelling, or None for null; lists become JSON texts."""
    if value is None or isinstance(value, str):
        return value
    return (
        str(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)
    )


def words(name: str) -> str:
    """Returns the words of a name in lower case, to replace a missing description."""
    spaced = [
        f" {c}" if c.isupper() and before.islower() else c
        for before, c in zip(f" {name}", name, strict=False)
    ]
    plain = "".join(c if c.isalnum() else " " for c in "".join(spaced))
    return " ".join(plain.split()).lower() or name


def distinct(name: str, taken: Mapping[str, Any] | set[str]) -> str:
    """Returns a name, with the suffix `_2`, `_3`, ... if it is taken."""
    if name not in taken:
        return name
    # Thousands of equal names take linear time: doubling, then bisection.
    low, high = 1, 2
    while f"{name}_{high}" in taken:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        is_taken = f"{name}_{middle}" in taken
        low, high = (middle, high) if is_taken else (low, middle)
    return f"{name}_{high}"


def fit(name: str, taken: Mapping[str, Any] | set[str], dots: bool = True) -> str:
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


def arguments_of(document: Document, node: Node) -> list[Argument]:
    """Returns the arguments of an object, from the outermost inward."""
    found: dict[str, Argument] = {}
    for one in _arguments(document, node, (), "", True):
        slot = distinct(one.slot, found)
        found[slot] = replace(one, slot=slot)
    return [*found.values()]


def _arguments(
    document: Document, node: Node, path: Path, above: str, needed: bool
) -> Iterator[Argument]:
    required = document.required(node)
    taken: set[str] = set()
    for name, one in document.properties(node).items():
        if one.is_never:
            continue
        key = fit(name, taken, dots=False)
        taken.add(key)
        slot, here = above + key, (*path, name)
        is_required = name in required
        is_needed = needed and is_required
        items = None
        inside: list[Argument] = []
        if not one.is_cut:
            inside = [*_arguments(document, one, here, f"{slot}.", is_needed)]
            items = None if inside else document.items(one)
        is_object = bool(inside)
        if items is not None and not items.is_cut:
            place = (*here, None)
            inside = [*_arguments(document, items, place, f"{slot}[].", is_needed)]
        if not is_object:
            yield _argument(document, one, here, slot, is_required, is_needed, inside)
        yield from inside


def _argument(
    document: Document,
    node: Node,
    path: Path,
    slot: str,
    required: bool,
    needed: bool,
    inside: Sequence[Argument],
) -> Argument:
    for text in (part.schema.get("description") for part in node.parts):
        if text is not None:
            checked(text, str, f"the description of {slot!r}", ())
    types = types_of(document, node)
    values = values_of(document, node)
    nullable = "null" in (types or ()) or node.first("nullable") is True
    if values is not None:
        nullable |= None in values
        values = [one for one in values if one is not None]
    real = [[one for one in b if not is_null(one)] for b in document.branches(node)]
    texts = node.texts()
    if not texts and len(real) == 1 and len(real[0]) == 1:
        texts = real[0][0].texts()
    core = [node, *(b[0] for b in real if len(b) == 1)]
    default = next(
        (d for n in core if (d := n.first("default", ABSENT)) is not ABSENT), ABSENT
    )
    examples = next((e for n in core if isinstance(e := n.first("examples"), list)), ())
    items = document.items(node)
    return Argument(
        path,
        slot,
        tuple(texts[:1]),
        tuple(one for one in types or () if one != "null"),
        None if values is None else tuple(values),
        nullable,
        required,
        needed,
        default,
        tuple(examples),
        _argument(document, items, (*path, None), f"{slot}[]", False, False, ())
        if items is not None and not inside and not items.is_cut
        else None,
        bool(inside),
        node.parts[0].source if node.parts else {},
    )


def results_of(document: Document, node: Node) -> list[Argument]:
    """Returns the fields of an answer that are neither objects nor arrays."""
    found: dict[str, Argument] = {}
    for name, one in document.properties(node).items():
        is_array = not one.is_never and types_of(document, one) == ["array"]
        if not (one.is_never or is_array or one.is_cut or document.is_object(one)):
            slot = fit(name, found, dots=False)
            found[slot] = _argument(document, one, (name,), slot, False, False, ())
    return [*found.values()]


def add(
    catalogue: Catalogue,
    tool: Tool,
    document: Document,
    node: Node,
    told: dict[str, Any],
) -> None:
    """Adds a tool to a catalogue, with the arguments of a schema.

    Args:
        catalogue: the catalogue to change.
        tool: the tool, without arguments.
        document: the document of the node.
        node: schema of the arguments.
        told: fields of the tool in `catalogue.told`.
    """
    given = arguments_of(document, node)
    arguments, more = more_texts(document, node, tool.texts, given)
    taken = catalogue.told["tools"]
    key = fit(tool.name, taken)
    taken[key] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": document.written(node),
        "is_transactional": tool.is_transactional,
        **told,
    }
    found = replace(tool, intent=key, arguments=arguments, more=more, key=key)
    catalogue.tools.append(found)
    for keyword, value in object_schema({}).items():
        taken[key]["parameters"].setdefault(keyword, value)


def more_texts(
    document: Document, node: Node, texts: Sequence[Text], arguments: Sequence[Argument]
) -> tuple[tuple[Argument, ...], tuple[tuple[str, tuple[Text, ...]], ...]]:
    """Finds the descriptions inside of a tool that describe no argument.

    Args:
        document: the document of the node.
        node: schema of the arguments.
        texts: descriptions of the tool itself.
        arguments: the result of `arguments_of` for the node.

    Returns:
        The arguments, whose `texts` also have places with the same text; and the
        further texts, each with the name of its place.
    """
    known = {(id(one.source), one.key) for one in texts}
    known |= {(id(t.source), t.key) for one in arguments for t in one.texts}
    same: dict[str, list[Text]] = {}
    for one in arguments:
        for text in one.texts:
            same.setdefault(str(text), [])
    further: dict[str, tuple[str, list[Text]]] = {}
    own = [("", text) for text in (*texts[1:], *node.texts())]
    for name, text in (*own, *document.inner_texts(node)):
        is_new = (id(text.source), text.key) not in known or text in texts[1:]
        known.add((id(text.source), text.key))
        if is_new and str(text) in same:
            same[str(text)].append(text)
        elif is_new:
            further.setdefault(str(text), (name, []))[1].append(text)
    made = []
    for one in arguments:
        others = same.pop(str(one.texts[0]), ()) if one.texts else ()
        made.append(replace(one, texts=(*one.texts, *others)))
    return tuple(made), tuple((name, tuple(t)) for name, t in further.values())


def types_of(document: Document, node: Node) -> list[str] | None:
    """Returns the JSON types that a schema allows; None if it allows all."""
    found = []
    for part in node.parts:
        value = part.schema.get("type")
        if isinstance(value, str | list):
            names = [value] if isinstance(value, str) else value
            found.append([one for one in names if isinstance(one, str)])

    def both(kept: list[str], other: list[str]) -> list[str]:
        sets = dict.fromkeys(kept), dict.fromkeys(other)
        return [
            one
            for one in sets[0] | sets[1]
            if all(one in s or (one == "integer" and "number" in s) for s in sets)
        ]

    found += _choices(document, node, partial(types_of, document))
    return reduce(both, found[1:], [*dict.fromkeys(found[0])]) if found else None


def values_of(document: Document, node: Node) -> list[Any] | None:
    """Returns the values that a schema lists; None if it lists none."""
    found = []
    for part in node.parts:
        if isinstance(part.schema.get("enum"), list):
            found.append(part.schema["enum"])
        if "const" in part.schema:
            found.append([part.schema["const"]])

    def of(one: Node) -> list[Any] | None:
        return [None] if is_null(one) else values_of(document, one)

    found += _choices(document, node, of)
    return reduce(shared, found) if found else None


def _choices(
    document: Document, node: Node, of: Callable[[Node], list[Any] | None]
) -> Iterator[list[Any]]:
    """Yields what the alternatives of each `anyOf` and `oneOf` allow together."""
    for branches in document.branches(node):
        each = [of(one) for one in branches if not one.is_never]
        if None not in each and any(one != [None] for one in each):
            yield unique([value for one in each for value in one or ()])
