"""`jaxaug schema import` and `export`."""

import copy
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import NoneType
from typing import Any

from jaxaug.core import json_places
from jaxaug.core.errors import UserError
from jaxaug.core.files import (
    PathLike,
    check_writable,
    parse_json,
    read_json,
    read_text,
    shown,
    write_text,
    write_texts,
)
from jaxaug.core.suggestion import one_of
from jaxaug.data.schema import (
    Intent,
    Schema,
    Service,
    check_schema,
    read_schema,
    refuse,
    service_object,
)
from jaxaug.tools import documents, services, sources
from jaxaug.tools.arguments import FORMATS, Export, Import
from jaxaug.tools.catalogue import Catalogue, Tool
from jaxaug.tools.views import (
    ABSENT,
    MAX_IN_DOCUMENT,
    MAX_PLACES,
    DocumentError,
    Text,
    rewritten,
    same,
)


@dataclass(frozen=True, slots=True)
class Loss:
    """A place that a round trip changes.

    Attributes:
        path: keys from the outermost value inward.
        value: original value; `ABSENT` if the round trip adds a value.
        becomes: value after the round trip; `ABSENT` if the value is dropped.
    """

    path: tuple[str, ...]
    value: Any
    becomes: Any

    def __str__(self) -> str:
        place = "/".join(self.path)
        if self.becomes is ABSENT:
            return f"dropped {place}: {shown(self.value)}"
        if self.value is ABSENT:
            return f"added {place}: {shown(self.becomes)}"
        return f"changed {place}: {shown(self.value)} to {shown(self.becomes)}"

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON object of a loss in a file of losses."""
        values = {"value": self.value, "becomes": self.becomes}
        told = {key: one for key, one in values.items() if one is not ABSENT}
        return {"path": list(self.path), **told}


def differences(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[Loss]:
    """Yields the places where two JSON values differ; the order of keys is ignored."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if not same(before, after):
            yield Loss(path, before, after)
        return
    for key in {**before, **after}:
        left, right = before.get(key, ABSENT), after.get(key, ABSENT)
        yield from differences(left, right, (*path, key))


_FIX = "Name a document that describes tools: `jaxaug schema import --help`."
_FIX_TOOLS = (
    'Write a tool as {"type": "function", "function": {"name", "description", '
    '"parameters"}}, with a complete JSON Schema as parameters.'
)
_SHOWN = 10
# Characters; the published documents of large services have 12 million.
_MOST = 32 << 20
_SCHEMA_KEYS = {"properties", "$defs", "definitions"}


@dataclass(frozen=True, slots=True)
class Imported:
    """A document that was converted to a schema.

    Attributes:
        format: format of the document, one of `FORMATS`.
        schema: services of the document. Slots that no intent has are further texts.
        lost: parts of the document that the schema cannot represent.
        tools: a tool for each intent, in the order of the schema; empty for `sgd`.
        document: JSON value of the document.
        name: name of a tool without a name.
        catalogue: the content of the document; None for `sgd`.
    """

    format: str
    schema: Schema
    lost: Sequence[Loss]
    tools: Sequence[Tool] = ()
    document: Any = None
    name: str = ""
    catalogue: Catalogue | None = None


def read_document(path: PathLike, format: str | None = None) -> Imported:
    """Converts a document that describes tools to a schema.

    Args:
        path: JSON or YAML file, local or gs://; or a live MCP server, `mcp:COMMAND` or
            `mcp:https://...`.
        format: one of `FORMATS`; None detects the format from the content.

    Raises:
        UserError: the file cannot be read or is too large, its format is not
            recognized, or the document breaks the rules of its format. The message
            gives the line if it is known.
    """
    _expect(path, (str, os.PathLike), "a path", "read_document(path)")
    _check_format(format or "sgd")
    if sources.is_server(path):
        text, kind = dumped(sources.tool_list(str(path))), format or "mcp"
        return _converted(parse_json(text, path, _FIX), kind, path, text)
    text = read_text(path, _FIX)
    if len(text) > _MOST:
        raise UserError(
            f"{path}: has {len(text):,} characters, at most {_MOST:,} are read. Divide "
            "the document."
        )
    return _converted(_parsed(text, path), format, path, text)


def _converted(
    document: Any, format: str | None, path: PathLike, text: str
) -> Imported:
    try:
        kind = format or _recognized(document)
        if kind == "sgd":
            schema = read_schema(path)
            lost = differences(_named(document), _by_name(schema))
            return Imported(kind, schema, list(lost), (), document)
        return _imported(document, kind, PurePath(path).stem)
    except DocumentError as error:
        raise _wrong(error, f"{path}{_line(error, text)}") from None


def read_tools(tools: Any, where: str, most: int = MAX_PLACES) -> Imported:
    """Converts a tool list to a schema.

    Args:
        tools: parsed JSON in the form of the chat-completions interface, MCP, or
            Anthropic.
        where: place of the list, for messages.
        most: maximum number of schemas in all tools, references written out.

    Raises:
        UserError: the list breaks the rules of its format. The message gives the keys.
    """
    try:
        return _imported(tools, documents.kind_of(tools) or "openai", where, most)
    except DocumentError as error:
        raise _wrong(error, where + _line(error, ""), _FIX_TOOLS) from None


def _imported(
    document: Any, kind: str, name: str, most: int = MAX_IN_DOCUMENT
) -> Imported:
    catalogue = _read(document, kind, name, most)
    described = {k: str(v[0]) for k, v in catalogue.services.items() if v}
    schema, tools = services.schema_of(catalogue.tools, described)
    plain = services.catalogue_of(schema, kind)
    lost = differences(catalogue.told, plain)
    held = [str(texts[0]) for tool in tools for _, texts in tool.more]
    kept = [
        one for one in lost if one.path[-1] != "description" or one.value not in held
    ]
    return Imported(kind, schema, kept, tools, document, name, catalogue)


def _wrong(error: DocumentError, where: str, fix: str = _FIX) -> UserError:
    told = f"{where}: {error}"
    return UserError(f"{told}{'' if told[-1] in '?.' else '.'} {fix}")


def _read(document: Any, kind: str, name: str, most: int) -> Catalogue:
    if kind == "openapi":
        return documents.read_openapi(document)
    if kind == "json_schema":
        return documents.read_schema(document, name)
    return documents.read_list(document, kind, most)


def _recognized(document: Any) -> str:
    """Returns the format of a document."""
    if isinstance(document, dict) and {"openapi", "swagger"} & {*document}:
        return "openapi"
    if kind := documents.kind_of(document):
        return kind
    if (documents.find_tools(document) or ((), None))[1] == []:
        raise DocumentError("the document has no tools. Name one that describes some")
    if isinstance(document, list) and document and isinstance(document[0], dict):
        if "service_name" in document[0]:
            return "sgd"
    elif isinstance(document, dict) and _SCHEMA_KEYS & {*document}:
        return "json_schema"
    raise DocumentError(
        f"the format is not recognized from {shown(document)}. Give it with --from: "
        + ", ".join(FORMATS)
    )


def _parsed(text: str, path: PathLike) -> Any:
    if sources.is_yaml(path):
        text = sources.as_json(text, path, _FIX)
    return parse_json(text, path, _FIX)


def _line(error: DocumentError, text: str) -> str:
    """Returns the place of an error: `:LINE` if the line is known, else the keys."""
    if error.needle and (offset := text.find(error.needle)) >= 0:
        return f":{text.count(chr(10), 0, offset) + 1}"
    if error.keys and text.lstrip()[:1] in ("{", "["):
        return f":{json_places.places(text, [error.keys])[error.keys][0]}"
    return f": {'/'.join(map(str, error.keys))}" if error.keys else ""


def _by_name(schema: Schema) -> dict[str, Any]:
    return _named([service_object(service) for service in schema.services])


def _named(data: Any) -> dict[str, Any]:
    """Returns the objects of a `schema.json` by name, with sorted sets of slots.

    Two results can be compared place by place.
    """
    return {
        service["service_name"]: service
        | {"slots": {slot["name"]: slot for slot in service["slots"]}}
        | {
            "intents": {
                intent["name"]: intent
                | {
                    key: sorted(intent[key])
                    for key in ("required_slots", "result_slots")
                }
                for intent in service["intents"]
            }
        }
        for service in data
    }


def document_of(
    schema: Schema, format: str, source: Imported | None = None
) -> tuple[Any, list[Loss], list[Loss]]:
    """Returns a document that describes the services of a schema.

    Args:
        schema: schema to convert.
        format: format of the document, one of `FORMATS`.
        source: the import that made the schema, whose descriptions may differ since. In
            its own format the result is its document with other texts; in another
            format the schemas of its arguments are kept. None writes what the schema
            holds.

    Returns:
        The document, the parts of the schema that it cannot represent, and the losses
        of `source` that are not restored in it.

    Raises:
        UserError: the format is unknown, or no intent can be a tool.
    """
    _check_format(format)
    _expect(schema, (Schema,), "a Schema", "document_of(schema, format)")
    _expect(source, (Imported, NoneType), "an Imported", "document_of(..., source)")
    left = list(source.lost) if source else []
    if format == "sgd":
        return [service_object(service) for service in schema.services], [], left
    catalogue, used = services.catalogue_of(schema, format), schema
    try:
        document = _write(catalogue, format)
        again = _imported(document, format, "schema")
        if source is not None and source.tools:
            used = services.without_texts(schema)
            document = _restored(catalogue, schema, format, source)
            after = _imported(copy.deepcopy(document), format, source.name)
            left = _unlike(source, after, format)
    except DocumentError as error:
        raise UserError(
            f"the schema cannot be exported to {format}: {error}."
        ) from None
    return document, [*differences(_by_name(used), _by_name(again.schema))], left


def _restored(
    catalogue: dict[str, Any], schema: Schema, format: str, source: Imported
) -> Any:
    """Returns the document of a schema with what the import knows in addition."""
    document, tools, known = _with_texts(schema, source)
    if format == source.format and len(source.tools) == len(tools):
        if all(known):
            return document
        if format in documents.LISTS and None not in tools:
            # Only tools with other arguments are written anew.
            new = zip(tools, known, catalogue["tools"].values(), strict=True)
            for tool, is_known, plain in new:
                if tool and not is_known:
                    tool.source[documents.LISTS[format]] = plain["parameters"]
            return document
    _restore_parameters(catalogue, document, tools, known, source)
    return _write(catalogue, format)


def _restore_parameters(
    catalogue: dict[str, Any],
    document: Any,
    tools: Sequence[Tool | None],
    known: Sequence[bool],
    source: Imported,
) -> None:
    """Puts the schemas of arguments into the catalogue of a schema."""
    again = _read(document, source.format, source.name, MAX_IN_DOCUMENT)
    rows = zip(catalogue["tools"].values(), tools, known, strict=True)
    for tool, own, is_known in rows:
        if own and is_known:
            tool["parameters"] = again.told["tools"][own.key]["parameters"]


def _with_texts(
    schema: Schema, source: Imported
) -> tuple[Any, list[Tool | None], list[bool]]:
    """Returns a copy of a document with the descriptions of a schema.

    Args:
        schema: schema with other descriptions than the document.
        source: the import.

    Returns:
        The document; and for each intent of the schema the tool of the document, and
        whether it has the same arguments.
    """
    document = copy.deepcopy(source.document)
    own = _imported(document, source.format, source.name)
    found = {(tool.service, tool.intent): tool for tool in own.tools}
    tools: list[Tool | None] = []
    known = []
    new: list[tuple[Text, dict[str, Any] | None, str, str]] = []
    for service in schema.services:
        if service.name in own.schema:
            before = own.schema.service(service.name)
            for text in (own.catalogue.services if own.catalogue else {}).get(
                service.name, ()
            ):
                new.append((text, None, before.description, service.description))
        for intent in service.intents:
            tool = found.get((service.name, intent.name))
            tools.append(tool)
            known.append(tool is not None and _is_same(service, intent, before))
            if tool is None:
                continue
            old = before.intent(intent.name).description
            texts = tool.texts[:1] or (Text(tool.source, "description"),)
            new += [(text, None, old, intent.description) for text in texts]
            has = {slot.name: slot.description for slot in service.slots}
            for argument in (*tool.arguments, *tool.results):
                old = before.slot(argument.slot).description
                home = argument.source
                texts = argument.texts or (Text(home, "description"),)
                now = has.get(argument.slot, old)
                new += [(text, home, old, now) for text in texts]
            for name, texts in tool.more:
                old = before.slot(name).description
                new += [(text, None, old, has.get(name, old)) for text in texts]
    _set_texts(new)
    return document, tools, known


def _set_texts(new: Sequence[tuple[Text, dict[str, Any] | None, str, str]]) -> None:
    """Changes texts of a document.

    A text that several arguments share is changed if all of them agree; otherwise each
    argument gets a separate description.

    Args:
        new: places, the objects of the arguments, former and present descriptions.
    """
    wanted: dict[tuple[int, str], set[str]] = {}
    for text, _, _, now in new:
        wanted.setdefault((id(text.source), text.key), set()).add(now)
    for text, home, old, now in new:
        is_shared = len(wanted[id(text.source), text.key]) > 1
        if is_shared and home is not None and home is not text.source:
            home["description"] = now
        elif now != old:
            text.source[text.key] = now


def _is_same(service: Service, intent: Intent, before: Service) -> bool:
    """Returns whether only descriptions of an intent and its slots have changed."""
    old = before.intent(intent.name)
    if replace(intent, description=old.description) != old:
        return False
    names = (*services.given_slots(intent), *intent.result_slots)
    pairs = ((service.slot(name), before.slot(name)) for name in names)
    return all(replace(a, description=b.description) == b for a, b in pairs)


def _unlike(source: Imported, after: Imported, format: str) -> list[Loss]:
    """Returns the losses of an import that a document does not restore.

    Args:
        source: the import.
        after: import of the document.
        format: format of the document.
    """
    told = after.catalogue.told if after.catalogue else {}
    pairs = zip(source.tools, told.get("tools", ()), strict=False)
    names = {one.key: key for one, key in pairs}
    left = []
    for one in source.lost:
        path = one.path
        if path[0] == "tools" and format != source.format:
            path = (path[0], names.get(path[1], path[1]), *path[2:])
        value: Any = told
        for key in path:
            value = value.get(key, ABSENT) if isinstance(value, dict) else ABSENT
        if not same(_without_texts(value), _without_texts(one.value)):
            left.append(one)
    return left


def _without_texts(value: Any) -> Any:
    """Returns a JSON value without the descriptions inside, which may differ."""
    texts = ("description", "summary")
    return rewritten(
        value,
        lambda made: {
            k: v for k, v in made.items() if k not in texts or not isinstance(v, str)
        },
    )


def _check_format(format: Any) -> None:
    if format not in FORMATS:
        raise UserError(f"unknown format {shown(format)}: {one_of(format, FORMATS)}")


def _expect(value: Any, kinds: tuple[type, ...], what: str, where: str) -> None:
    """Raises `UserError` if an argument of a public function has another type."""
    if not isinstance(value, kinds):
        raise UserError(
            f"{where}: expected {what}, got {shown(value)}. See "
            "`help(jaxaug.tools)`, or give what `read_document` returns."
        )


def tools_of(found: Imported, schema: Schema) -> list[dict[str, Any]]:
    """Returns the tools of a document as the chat-completions interface takes them.

    Args:
        found: the imported document.
        schema: its schema, which may have other descriptions.

    Raises:
        UserError: see `document_of`.
    """
    _expect(found, (Imported,), "an Imported", "tools_of(found, schema)")
    _expect(schema, (Schema,), "a Schema", "tools_of(found, schema)")
    catalogue = services.catalogue_of(schema, "openai")
    if found.tools:
        document, tools, known = _with_texts(schema, found)
        _restore_parameters(catalogue, document, tools, known, found)
    return _write(catalogue, "openai")


def _write(catalogue: dict[str, Any], kind: str) -> Any:
    if kind == "openapi":
        return documents.write_openapi(catalogue)
    if kind == "json_schema":
        return documents.write_schema(catalogue)
    return documents.write_list(catalogue, kind)


def _tell(what: str, lost: Sequence[Loss], hint: str = "") -> None:
    """Prints the number of losses of each keyword, and the first losses."""
    if not lost:
        return
    counts = Counter(one.path[-1] for one in lost).most_common(_SHOWN)
    listed = ", ".join(f"{name[:40]} {count:,}" for name, count in counts)
    print(f"{len(lost):,} {what}: {listed}")
    for one in lost[:_SHOWN]:
        print(f"  {one}")
    if len(lost) > _SHOWN:
        print(f"  ... and {len(lost) - _SHOWN:,} more{hint}")


def _check_distinct(*paths: str | None) -> None:
    """Raises `UserError` if an output would overwrite the input or another output."""
    given = [os.path.realpath(os.path.expanduser(path)) for path in paths if path]
    for path in given:
        if given.count(path) > 1:
            raise UserError(
                f"{path} is named twice, and one file would overwrite the other. Give "
                "input, --out and --losses names of their own."
            )


def run_import(arguments: Import) -> int:
    """Runs `jaxaug schema import`."""
    _check_distinct(arguments.file, arguments.out, arguments.losses)
    check_writable(arguments.out)
    if arguments.losses:
        check_writable(arguments.losses, "--losses")
    found = read_document(arguments.file, arguments.format)
    data = [service_object(service) for service in found.schema.services]
    _, problems = check_schema(data, 1)
    assert not problems, problems
    record = {
        "format": found.format,
        "name": found.name,
        "names": services.names_of(found.schema),
        "losses": [one.as_json() for one in found.lost],
        "document": found.document,
    }
    texts: dict[PathLike, str] = {arguments.out: dumped(data)}
    if arguments.losses:
        texts[arguments.losses] = dumped(record)
    write_texts(texts)
    intents = sum(len(service.intents) for service in found.schema.services)
    slots = sum(len(service.slots) for service in found.schema.services)
    counts = {"service": len(data), "intent": intents, "slot": slots}
    told = ", ".join(f"{n:,} {one}{'s' * (n != 1)}" for one, n in counts.items())
    print(f"{found.format}: {told}; wrote {arguments.out}")
    hint = "" if arguments.losses else " (--losses FILE lists all)"
    _tell("places that schema.json does not hold", found.lost, hint)
    return 0


def run_export(arguments: Export) -> int:
    """Runs `jaxaug schema export`."""
    _check_distinct(arguments.schema, arguments.out, arguments.losses)
    check_writable(arguments.out)
    schema = read_schema(arguments.schema)
    source = None
    told = ""
    if arguments.losses:
        source, own = _source(arguments.losses), schema
        schema = services.with_names(own, services.names_of(source.schema))
        names = zip(_all_names(own), _all_names(schema), strict=True)
        renamed = sum(one != other for one, other in names)
    document, dropped, left = document_of(schema, arguments.format, source)
    if source:
        told = (
            f"; restored: losses {len(source.lost) - len(left):,} of "
            f"{len(source.lost):,}, names {renamed:,}"
        )
    write_text(arguments.out, written(document, arguments.out))
    print(f"wrote {arguments.out}{told}")
    _tell("losses that were not restored", left)
    _tell(
        f"places of {arguments.schema} that {arguments.format} does not hold", dropped
    )
    return 0


def _source(path: PathLike) -> Imported:
    """Reads a file of losses."""
    fix = "Import the document again with --losses."
    data = read_json(path, fix)
    known = data if isinstance(data, dict) else {}
    kind, name = known.get("format"), known.get("name")
    if kind not in FORMATS or not isinstance(name, str) or "document" not in known:
        raise UserError(
            f"{path}: is no file of losses, expected one that `jaxaug schema import "
            f"--losses` writes. {fix}"
        )
    if kind == "sgd":
        schema, problems = check_schema(data["document"], 1)
        refuse(problems, path)
        return Imported(kind, schema, (), (), data["document"], name)
    try:
        return _imported(data["document"], kind, name)
    except DocumentError as error:
        raise UserError(f"{path}: {error}. {fix}") from None


def _all_names(schema: Schema) -> list[str]:
    return [n for one in services.names_of(schema) for part in one for n in part]


def dumped(value: Any) -> str:
    """Returns a document as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def written(value: Any, path: PathLike) -> str:
    """Returns a document as the text of a file: YAML or indented JSON, by its name."""
    return sources.dumped(value) if sources.is_yaml(path) else dumped(value)
