"""`jaxaug schema import` and `export`."""

import argparse
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
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
)
from jaxaug.core.suggestion import one_of
from jaxaug.data.schema import Schema, check_schema, read_schema, service_object
from jaxaug.schemas import losses, openapi, services, tool_lists, yaml_files
from jaxaug.schemas.arguments import FORMATS
from jaxaug.schemas.losses import Loss
from jaxaug.schemas.references import DocumentError

_FIX = "Name a document that describes tools: `jaxaug schema import --help`."
_SHOWN = 10
_MOST = (
    32 << 20
)  # Characters; the published documents of large services have 12 million.
_SCHEMA_KEYS = {"properties", "$defs", "definitions"}


@dataclass(frozen=True, slots=True)
class Imported:
    """A document that was converted to a schema.

    Attributes:
        format: format of the document, one of `FORMATS`.
        schema: services of the document.
        lost: parts of the document that the schema cannot represent.
    """

    format: str
    schema: Schema
    lost: Sequence[Loss]


def read_document(path: PathLike, format: str | None = None) -> Imported:
    """Converts a document that describes tools to a schema.

    Args:
        path: JSON or YAML file, local or gs://.
        format: one of `FORMATS`; None detects the format from the content.

    Raises:
        UserError: the file cannot be read or is too large, its format is not
            recognized, or the document breaks the rules of its format. The message
            gives the line if it is known.
    """
    text = read_text(path, _FIX)
    if len(text) > _MOST:
        raise UserError(
            f"{path}: has {len(text):,} characters, at most {_MOST:,} are read. Divide "
            "the document."
        )
    document = _parsed(text, path)
    try:
        kind = format or _recognized(document)
        if kind == "sgd":
            schema = read_schema(path)
            lost = losses.differences(_named(document), _by_name(schema))
            return Imported(kind, schema, list(lost))
        return _imported(document, kind, PurePath(path).stem)
    except DocumentError as error:
        raise _wrong(error, f"{path}{_line(error, text)}") from None


def read_tools(tools: Any, where: str) -> Imported:
    """Converts a tool list of the chat-completions interface to a schema.

    Args:
        tools: parsed JSON.
        where: place of the list, for messages.

    Raises:
        UserError: the list breaks the rules of its format. The message gives the keys.
    """
    try:
        return _imported(tools, "openai", where)
    except DocumentError as error:
        raise _wrong(error, where + _line(error, "")) from None


def _imported(document: Any, kind: str, name: str) -> Imported:
    catalogue = _read(document, kind, name)
    schema = services.schema_of(catalogue)
    again = services.catalogue_of(schema, kind)
    return Imported(kind, schema, list(losses.differences(catalogue, again)))


def _wrong(error: DocumentError, where: str) -> UserError:
    told = f"{where}: {error}"
    return UserError(f"{told}{'' if told[-1] in '?.' else '.'} {_FIX}")


def _read(document: Any, kind: str, name: str) -> dict[str, Any]:
    if kind == "openapi":
        return openapi.read(document)
    if kind == "json_schema":
        return tool_lists.read_schema(document, name)
    return tool_lists.read_list(document, kind)


def _recognized(document: Any) -> str:
    """Returns the format of a document."""
    if isinstance(document, dict) and {"openapi", "swagger"} & {*document}:
        return "openapi"
    if kind := tool_lists.kind_of(document):
        return kind
    if (tool_lists.find_tools(document) or ((), None))[1] == []:
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
    if yaml_files.is_yaml(path):
        text = yaml_files.as_json(text, path, _FIX)
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
    schema: Schema, format: str, lost: Sequence[Loss] = ()
) -> tuple[Any, list[Loss], list[Loss]]:
    """Returns a document that describes the services of a schema.

    Args:
        schema: schema to convert.
        format: format of the document, one of `FORMATS`.
        lost: losses of the import that made the schema; they are restored. The default
            restores nothing.

    Returns:
        The document, the parts of the schema that it cannot represent, and the items of
        `lost` that could not be restored.

    Raises:
        UserError: the format is unknown, or no intent can be a tool.
    """
    if format not in FORMATS:
        raise UserError(f"unknown format {shown(format)}: {one_of(format, FORMATS)}")
    if format == "sgd":
        return [service_object(service) for service in schema.services], [], list(lost)
    catalogue = services.catalogue_of(schema, format)
    whole, left = losses.restored(catalogue, lost)
    try:
        plain = _write(catalogue, format)
        again = services.schema_of(_read(plain, format, "schema"))
    except DocumentError as error:
        raise UserError(
            f"the schema cannot be exported to {format}: {error}."
        ) from None
    dropped = losses.differences(_by_name(schema), _by_name(again))
    try:
        document = _write(whole, format) if lost else plain
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"the losses cannot be restored ({type(error).__name__}: {error}). Import "
            "the document again with --losses."
        ) from error
    return document, list(dropped), left


def tools_of(found: Imported, schema: Schema) -> list[dict[str, Any]]:
    """Returns the tools of a document as the chat-completions interface takes them.

    Args:
        found: the imported document.
        schema: its schema, which may have other descriptions.

    Raises:
        UserError: see `document_of`.
    """
    return document_of(schema, "openai", _of_arguments(found.lost, schema))[0]


def _write(catalogue: dict[str, Any], kind: str) -> Any:
    if kind == "openapi":
        return openapi.write(catalogue)
    if kind == "json_schema":
        return tool_lists.write_schema(catalogue)
    return tool_lists.write_list(catalogue, kind)


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


def run_import(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug schema import`."""
    _check_distinct(arguments.file, arguments.out, arguments.losses)
    check_writable(arguments.out)
    if arguments.losses:
        check_writable(arguments.losses, "--losses")
    found = read_document(arguments.file, arguments.format)
    data = [service_object(service) for service in found.schema.services]
    _, problems = check_schema(data, 1)
    assert not problems, problems
    write_text(arguments.out, dumped(data))
    if arguments.losses:
        record = {
            "format": found.format,
            "names": services.names_of(found.schema),
            "losses": [one.as_json() for one in found.lost],
        }
        write_text(arguments.losses, dumped(record))
    intents = sum(len(service.intents) for service in found.schema.services)
    slots = sum(len(service.slots) for service in found.schema.services)
    counts = {"service": len(data), "intent": intents, "slot": slots}
    told = ", ".join(f"{n:,} {one}{'s' * (n != 1)}" for one, n in counts.items())
    print(f"{found.format}: {told}; wrote {arguments.out}")
    hint = "" if arguments.losses else " (--losses FILE lists all)"
    _tell("places that schema.json does not hold", found.lost, hint)
    return 0


def run_export(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug schema export`."""
    _check_distinct(arguments.schema, arguments.out, arguments.losses)
    check_writable(arguments.out)
    schema = read_schema(arguments.schema)
    lost: list[Loss] = []
    told = ""
    if arguments.losses:
        data = read_json(arguments.losses, "Import the document again with --losses.")
        lost = losses.read(data, arguments.losses)
        own, schema = schema, services.with_names(schema, data["names"])
        names = zip(_all_names(own), _all_names(schema), strict=True)
        renamed = sum(one != other for one, other in names)
        if data.get("format") != arguments.format:
            lost = _of_arguments(lost, schema)
    document, dropped, left = document_of(schema, arguments.format, lost)
    if arguments.losses:
        told = (
            f"; restored: losses {len(lost) - len(left):,} of {len(lost):,}, names "
            f"{renamed:,}"
        )
    is_yaml = yaml_files.is_yaml(arguments.out)
    text = yaml_files.dumped(document) if is_yaml else dumped(document)
    write_text(arguments.out, text)
    print(f"wrote {arguments.out}{told}")
    _tell("losses that were not restored, because the schema changed there", left)
    _tell(
        f"places of {arguments.schema} that {arguments.format} does not hold", dropped
    )
    return 0


def _all_names(schema: Schema) -> list[str]:
    return [n for one in services.names_of(schema) for part in one for n in part]


def _of_arguments(lost: Sequence[Loss], schema: Schema) -> list[Loss]:
    """Returns the losses in schemas of arguments, which every format can restore."""
    names: dict[str, str] = {}
    pair = [
        list(services.catalogue_of(schema, by)["tools"]) for by in ("openapi", "mcp")
    ]
    for one, other in (pair, pair[::-1]):
        names |= {a: b for a, b in zip(one, other, strict=True) if a not in other}
    return [
        replace(
            one, path=(one.path[0], names.get(one.path[1], one.path[1]), *one.path[2:])
        )
        for one in lost
        if one.path[2:3] == ("parameters",) and not one.path[-1].startswith("x-")
    ]


def dumped(value: Any) -> str:
    """Returns a document as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
