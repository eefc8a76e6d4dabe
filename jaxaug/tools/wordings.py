"""Makes cases under further wordings of their tools' descriptions."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import folders
from jaxaug.data.schema import Schema, Service
from jaxaug.tools import Imported, read_document, states, tools_of
from jaxaug.tools.cases import Case, Source, arguments_of
from jaxaug.tools.services import names_of, with_names
from jaxaug.track import rewordings
from jaxaug.track.rewordings import Choice

ORIGINAL, CONTROL = "original", "control"
"""The given wording, and the same wording asked again."""
Wordings = Mapping[str, Sequence[Case]]
"""Maps a wording to its cases, in the same order; the original wording is first."""
Text = tuple[str, str]
"""Identifies a description: (tool, argument), or (tool, "") for the tool itself."""


def of_sources(sources: Sequence[Source], number: int, seed: int) -> Wordings:
    """Returns cases under faithful rewordings by the grammar.

    Args:
        sources: the cases.
        number: number of rewordings.
        seed: seed of the draw.

    Raises:
        UserError: no description has a faithful rewording.
    """
    found: dict[str, list[Case]] = {ORIGINAL: [], CONTROL: []}
    found |= {f"r{n}": [] for n in range(1, number + 1)}
    any_text = False
    for source in sources:
        used = {tool["function"]["name"] for one in source.cases for tool in one.tools}
        draws: list[dict[str, dict[str, str]]] = [{} for _ in range(number)]
        services = list(_used(source, used))
        for service in services:
            choices = [
                Choice(item, own[1:] or own)  # The given text would not be a rewording.
                for item, own in rewordings.choices(service)
                if item.kind != "service"  # A tool has the description of its intent.
            ]
            any_text |= any(one.texts != (one.item.text,) for one in choices)
            drawn = rewordings.drawn(choices, number, seed)
            for draw, texts in zip(draws, drawn, strict=True):
                draw[service.name] = texts
        for name in (ORIGINAL, CONTROL):
            found[name] += source.cases
        for name, draw in zip([*found][2:], draws, strict=True):
            schema = rewordings.worded_schema(Schema(tuple(services)), draw)
            found[name] += with_tools(source, schema)
    if not any_text:
        raise UserError(
            "no description has a faithful rewording by the grammar, so there is "
            "nothing to compare. Give other wordings with --wordings_from TOOLS.json "
            "..."
        )
    return found


def of_files(source: Source, paths: Sequence[PathLike]) -> Wordings:
    """Returns cases under the descriptions of other files with the same tools.

    Raises:
        UserError: a file cannot be read, or has other tools or arguments.
    """
    found = {ORIGINAL: source.cases, CONTROL: source.cases}
    own = source.found.schema
    for path in paths:
        schema = read_document(path).schema
        renamed = with_names(schema, names_of(own))
        if names_of(renamed) != names_of(own):
            raise UserError(
                f"--wordings_from {path}: has other tools or arguments than --schema. "
                "Only descriptions may differ."
            )
        name = epath.Path(path).stem
        if name in found:
            raise UserError(f"--wordings_from {path}: the name {name!r} comes twice.")
        found[name] = with_tools(source, renamed)
    return found


def of_data(
    data_dir: epath.Path, split: str, number: int | None, limit: int | None, seed: int
) -> tuple[Source, Wordings]:
    """Returns the frames of a split as cases, and these cases under all wordings.

    Args:
        data_dir: data folder in the layout of SGD.
        split: "train", "dev" or "test".
        number: number of rewordings by the grammar; None means the variants of SGD-X.
        limit: number of dialogues; None means all.
        seed: seed of the draw.

    Raises:
        UserError: a file is missing or wrong, or `number` is None and the folder has no
            variants.
    """
    source = states.read(data_dir, split, None, limit)
    if number is not None:
        return source, of_sources([source], number, seed)
    _, names = folders.evaluated_variants(data_dir, split)
    if not names:
        raise UserError(
            f"{data_dir}: has no variants of {split}. Give --wordings N for "
            "rewordings by the grammar."
        )
    others = {name: states.read(data_dir, split, name, limit).cases for name in names}
    return source, {ORIGINAL: source.cases, CONTROL: source.cases, **others}


def _names(found: Imported) -> dict[tuple[str, str], str]:
    """Returns the name of the tool of each (service, intent)."""
    pairs = [(s.name, i.name) for s in found.schema.services for i in s.intents]
    tools = tools_of(found, found.schema)
    return dict(zip(pairs, (one["function"]["name"] for one in tools), strict=True))


def _used(source: Source, used: AbstractSet[str]) -> Iterator[Service]:
    """Yields the services with at least one of the used tools."""
    names = _names(source.found)
    for service in source.found.schema.services:
        if any(names[service.name, one.name] in used for one in service.intents):
            yield service


def with_tools(source: Source, schema: Schema) -> list[Case]:
    """Returns the cases of a source with tools described by another schema.

    Args:
        source: the cases.
        schema: other descriptions of the same services, intents, and slots.
    """
    tools = {one["function"]["name"]: one for one in tools_of(source.found, schema)}
    return [
        replace(
            case,
            tools=tuple(tools[tool["function"]["name"]] for tool in case.tools),
        )
        for case in source.cases
    ]


def texts_of(case: Case) -> dict[Text, str]:
    """Returns the descriptions of a case's tools, under the tools' original names."""
    found: dict[Text, str] = {}
    for tool in case.tools:
        name = tool["function"]["name"]
        key = case.names.get(name, name)
        found[key, ""] = tool["function"].get("description", "")
        for argument, schema in arguments_of(tool).items():
            own = case.names.get((name, argument), argument)
            found[key, own] = schema.get("description", "")
    return found


def advised(source: Source, texts: Mapping[Text, str]) -> Schema:
    """Returns the schema of the tools with better descriptions.

    Args:
        source: the tools.
        texts: maps a description to its new text. Other descriptions, and descriptions
            inside an object, do not change.
    """
    names = _names(source.found)
    found: dict[str, dict[str, str]] = {}
    for service in source.found.schema.services:
        tools = [names[service.name, one.name] for one in service.intents]
        found[service.name] = chosen = {}
        for item in rewordings.items_of(service):
            keys = [(tool, item.name) for tool in tools]
            if item.kind == "intent":
                keys = [(names[service.name, item.name], "")]
            for key in keys:
                if item.kind != "service" and key in texts:
                    chosen[item.id] = texts[key]
    return rewordings.worded_schema(source.found.schema, found)
