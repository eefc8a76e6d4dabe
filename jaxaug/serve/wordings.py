"""Wordings of a schema that a request can choose or bring."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shown
from jaxaug.core.suggestion import check_keys, suggestion
from jaxaug.data import folders
from jaxaug.data.rename import mismatches
from jaxaug.data.schema import (
    Intent,
    Schema,
    Service,
    Slot,
    check_schema,
    read_schema,
    refuse,
    service_object,
)
from jaxaug.data.sgd import read_every_schema

ORIGINAL = "original"
_SGDX = "sgdx"
_FIX = (
    "Give the name of a wording, an object with `wording` and `edits`, or a list of "
    "services in the layout of schema.json."
)

_PROBLEMS = 10  # of a schema that a request brings

Found = dict[str, Service]
"""Original name of a service -> the service as a wording has it."""
_Text = TypeVar("_Text", Slot, Intent)


class Wordings:
    """The wordings that requests can choose from.

    Attributes:
        original: the schema of the server.
        others: name of a wording -> its services, including `original`. `v1` is a
            variant of SGD-X, and `mine/v1` a variant in the folder variants/mine.
        description: maximum number of characters of a description in a request.
    """

    def __init__(self, original: Schema, others: Mapping[str, Found], description: int):
        own = {service.name: service for service in original.services}
        self.original = original
        self.others = {ORIGINAL: own, **others}
        self.description = description

    def as_json(self) -> list[dict[str, Any]]:
        """Returns name and services of every wording, by the original service names."""
        return [
            {
                "name": name,
                "services": {key: service_object(s) for key, s in found.items()},
            }
            for name, found in self.others.items()
        ]

    def choose(self, wording: Any, services: Any) -> Schema:
        """Returns the schema that a request asks for.

        Args:
            wording: None for the original, the name of a wording, a list of services
                in the layout of SGD, or an object with `wording` and `edits`. `wording`
                is a name. `edits` maps a service to new texts: `description`, and
                `slots` and `intents` by name.
            services: names of services in the original or in the wording; None or empty
                means all.

        Raises:
            UserError: a wording, service, slot, or intent is unknown, a value has
                another type, or a description is too long.
        """
        if isinstance(wording, list):
            found = self._brought(wording)
        else:
            found = self._named(wording)
        if services in (None, []):
            return Schema(tuple(found.values()))
        if not _are_names(services):
            raise UserError(
                f"services: expected a list of names, got {shown(services)}."
            )
        # Each once; a schema has no two services of a name.
        keys = dict.fromkeys(_keys(found, services, "services"))
        return Schema(tuple(found[key] for key in keys))

    def _named(self, wording: Any) -> Found:
        edits: Any = {}
        if isinstance(wording, Mapping):
            only(wording, ("wording", "edits"), "schema")
            edits, wording = wording.get("edits", {}), wording.get("wording")
        name = ORIGINAL if wording is None else wording
        if not isinstance(name, str) or not isinstance(edits, Mapping):
            wrong = edits if isinstance(name, str) else name
            raise UserError(f"schema: got {shown(wrong)}. {_FIX}")
        if name not in self.others:
            raise UserError(
                f"schema: {shown(name)} is no wording; {suggestion(name, self.others)}"
            )
        found = dict(self.others[name])
        keys = _keys(found, edits, "schema: edits")
        for key, texts in zip(keys, edits.values(), strict=True):
            found[key] = self._edited(found[key], texts)
        return found

    def _brought(self, services: list[Any]) -> Found:
        schema, problems = check_schema(services, _PROBLEMS)
        if problems:
            told = "; ".join(
                f"{one.place}: {one.text}" if one.place else one.text
                for one in problems
            )
            raise UserError(f"schema: {told}. Correct the request.")
        self.check(schema)
        return {service.name: service for service in schema.services}

    def check(self, schema: Schema) -> None:
        """Raises `UserError` if a description of a request's schema is too long."""
        for service in schema.services:
            items: list[Service | Slot | Intent] = [service, *service.slots]
            for item in (*items, *service.intents):
                self._text(item.description, f"{service.name}: {item.name}")

    def _edited(self, service: Service, texts: Any) -> Service:
        where = f"schema: edits of {shown(service.name)}"
        texts = only(texts, ("description", "slots", "intents"), where)

        def described(
            items: Sequence[_Text], kind: str, known: Callable[[str], _Text]
        ) -> tuple[_Text, ...]:
            given = only(texts.get(kind, {}), None, f"{where}: {kind}")
            new = {
                known(name).name: self._text(text, f"{where}: {name}")
                for name, text in given.items()
            }
            return tuple(
                replace(item, description=new.get(item.name, item.description))
                for item in items
            )

        return Service(
            service.name,
            self._text(texts.get("description", service.description), where),
            described(service.slots, "slots", service.slot),
            described(service.intents, "intents", service.intent),
        )

    def _text(self, text: Any, where: str) -> str:
        if not isinstance(text, str):
            raise UserError(f"{where}: expected a description, got {shown(text)}.")
        if len(text) > self.description:
            raise UserError(
                f"{where}: a description of {len(text)} characters; at most "
                f"{self.description} are taken. Shorten it."
            )
        return text


def read(
    schema: PathLike | None, data_dir: PathLike | None, description: int
) -> Wordings:
    """Reads the wordings of a schema file, or of a data folder with its variants.

    Args:
        schema: file in the layout of schema.json; None means all schemas of the data
            folder.
        data_dir: folder in the layout of SGD. None means no folder if `schema` is
            given, else the folder of `folders.resolve_data_dir`. With both, a service
            of the file gets the wordings of the folder's service with the same name,
            slots, and intents.
        description: maximum number of characters of a description in a request.

    Raises:
        UserError: a file is missing or wrong, or a variant does not match its original.
    """
    if schema and not data_dir:
        return Wordings(read_schema(schema), {}, description)
    folder = folders.resolve_data_dir(data_dir)
    original = read_schema(schema) if schema else read_every_schema(folder)
    names = {service.name: _names(service) for service in original.services}
    others: dict[str, Found] = {}
    for family, variants in folders.variant_folders(folder).items():
        for variant in folders.variant_names(variants):
            found: Found = {}
            for split in folders.variant_splits(variants, variant):
                path = folders.variant_schema_path(variants, variant, split)
                of_split = read_schema(folders.schema_path(folder, split))
                reworded = read_schema(path)
                refuse(mismatches(of_split, reworded), path)
                for old, new in zip(of_split.services, reworded.services, strict=True):
                    if names.get(old.name) == _names(old):
                        found.setdefault(old.name, new)
            name = variant if family == _SGDX else f"{family}/{variant}"
            if found:
                others[name] = found
    return Wordings(original, others, description)


def only(value: Any, keys: Sequence[str] | None, where: str) -> Mapping[str, Any]:
    """Returns a JSON object of a request after checking its keys.

    Args:
        keys: allowed keys; None allows any.
        where: place of the value, for messages.

    Raises:
        UserError: the value is not an object, or has another key.
    """
    if not isinstance(value, Mapping):
        raise UserError(f"{where}: expected a JSON object, got {shown(value)}.")
    if keys is not None:
        check_keys(value, keys, where)
    return value


def _keys(found: Found, names: Collection[str], where: str) -> list[str]:
    """Returns the original names of services that are named as in any wording."""
    known = {service.name: key for key, service in found.items()}
    known |= {key: key for key in found}
    for name in names:
        if name not in known:
            raise UserError(
                f"{where}: the wording has no service {shown(name)}; "
                f"{suggestion(name, known)}"
            )
    return [known[name] for name in names]


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _names(service: Service) -> list[str]:
    """Returns the slot and intent names, which services with equal variants share."""
    slots = [slot.name for slot in service.slots]
    return slots + [intent.name for intent in service.intents]
