"""Dialogues of the Schema-Guided Dialogue data (SGD) and of its variants (SGD-X).

Source: Rastogi et al., "Towards Scalable Multi-domain Conversational Agents: The
Schema-Guided Dialogue Dataset", 2020; SGD-X: Lee et al., 2022. Dialogue files are
checked against the schema before they become records. For variants, checked dialogues
are renamed while they are read.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from etils import epath

from jaxaug.core.cache_folder import fix_for
from jaxaug.core.errors import UserError
from jaxaug.core.files import FETCH_AGAIN, PathLike, read_json
from jaxaug.data import dialogue as quick
from jaxaug.data import folders
from jaxaug.data.check import check_dialogues, repeated_id
from jaxaug.data.dialogue import Dialogue, Frame, State, Turn, renamed
from jaxaug.data.rename import Renaming, renaming
from jaxaug.data.schema import Schema, Service, read_schema, refuse

__all__ = [
    "Dialogue",
    "Frame",
    "State",
    "Turn",
    "dialogue_files",
    "read_dialogue_file",
    "read_dialogue_json",
    "read_dialogues",
    "read_every_schema",
    "read_schema_of",
    "renaming_of",
]


def read_schema_of(
    data_dir: PathLike,
    split: str,
    variant: str | None = None,
    variants_dir: PathLike | None = None,
) -> Schema:
    """Returns the schema of a split, original or variant.

    Args:
        data_dir: folder in the layout of the SGD repository.
        split: "train", "dev" or "test".
        variant: "v1", "v2", ...; None means the original.
        variants_dir: folder of the variants; None means `data_dir/sgd_x/data`.

    Raises:
        UserError: a file is missing or invalid; see `read_schema`.
    """
    if variant is None:
        return read_schema(folders.schema_path(data_dir, split))
    variants_dir = variants_dir or folders.sgdx_folder(data_dir)
    return read_schema(folders.variant_schema_path(variants_dir, variant, split))


def read_every_schema(data_dir: PathLike) -> Schema:
    """Returns all services of a data folder, each from the first split that has it.

    Raises:
        UserError: see `read_schema`.
    """
    services: dict[str, Service] = {}
    for split in folders.SPLITS:
        path = epath.Path(data_dir) / split / "schema.json"
        if path.exists():
            for service in read_schema(path).services:
                services.setdefault(service.name, service)
    return Schema(tuple(services.values()))


def renaming_of(
    data_dir: PathLike,
    split: str,
    variant: str | None,
    variants_dir: PathLike | None = None,
) -> Renaming | None:
    """Returns the map from the original names of a split to the names of a variant.

    The result is None if `variant` is None.

    Raises:
        UserError: a schema is missing or invalid, or the schemas do not match by
            position.
    """
    if variant is None:
        return None
    variants_dir = variants_dir or folders.sgdx_folder(data_dir)
    return renaming(
        read_schema_of(data_dir, split),
        read_schema_of(data_dir, split, variant, variants_dir),
        str(folders.variant_schema_path(variants_dir, variant, split)),
    )


def dialogue_files(data_dir: PathLike, split: str) -> list[epath.Path]:
    """Returns the dialogue files of a split in order; see `folders.dialogue_paths`."""
    return folders.dialogue_paths(data_dir, split)


def read_dialogues(
    data_dir: PathLike,
    split: str,
    variant: str | None = None,
    variants_dir: PathLike | None = None,
) -> Iterator[Dialogue]:
    """Returns an iterator over the dialogues of a split, renamed if a variant is given.

    See `read_schema_of` for the arguments. Folders and schemas are checked immediately,
    each dialogue file when it is reached.

    Raises:
        UserError: a file is missing or invalid, or a dialogue id occurs twice.
    """
    schema = read_schema_of(data_dir, split)
    names = renaming_of(data_dir, split, variant, variants_dir)
    return _read_files(dialogue_files(data_dir, split), schema, names)


def _read_files(
    paths: list[epath.Path], schema: Schema, names: Renaming | None
) -> Iterator[Dialogue]:
    file_of: dict[str, epath.Path] = {}
    for path in paths:
        for index, dialogue in enumerate(read_dialogue_file(path, schema, names)):
            first = file_of.setdefault(dialogue.dialogue_id, path)
            if first is not path:
                refuse([repeated_id(dialogue.dialogue_id, index, first)], path)
            yield dialogue


def read_dialogue_file(
    path: PathLike, schema: Schema, rename: Renaming | None = None
) -> Iterator[Dialogue]:
    """Yields the dialogues of one file, which is the unit of parallel work.

    Each dialogue is decoded when it is requested. Errors are raised then, or earlier.

    Args:
        schema: original schema of the split, whose names the file uses.
        rename: new names from `renaming_of`; None keeps the names.

    Raises:
        UserError: the file is missing, is not JSON in UTF-8, or breaks a rule of
            `check_dialogues`. The message gives file, dialogue, turn, frame, and field.
    """
    for dialogue in _read_dialogues(path, schema):
        yield dialogue if rename is None else renamed(dialogue, rename)


def _read_dialogues(path: PathLike, schema: Schema) -> Iterator[Dialogue]:
    """Yields dialogues of the fast reader, or of the checked reader if it fails."""
    count = 0
    try:
        for dialogue in quick.read(path, schema):
            yield dialogue
            count += 1
    except (
        UserError,
        UnicodeDecodeError,
        RecursionError,
        msgspec.DecodeError,
        quick.Rejected,
    ):
        found = msgspec.convert(read_dialogue_json(path, schema), list[Dialogue])
        yield from found[count:]


def read_dialogue_json(path: PathLike, schema: Schema) -> list[dict[str, Any]]:
    """Returns the checked JSON objects of a dialogue file; see `read_dialogue_file`."""
    data = read_json(path, fix_for(path, FETCH_AGAIN))
    check_dialogues(data, schema, str(path))
    return data
