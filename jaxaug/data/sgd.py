"""Dialogues of the Schema-Guided Dialogue data (SGD) and of its variants (SGD-X).

Source: Rastogi et al., "Towards Scalable Multi-domain Conversational Agents: The
Schema-Guided Dialogue Dataset", 2020; SGD-X: Lee et al., 2022. Everything that a
dialogue file says is checked against the schema before a record is made of it;
variants are made by renaming checked dialogues while they are read.
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
from jaxaug.data.problem import refuse
from jaxaug.data.rename import Renaming, renaming
from jaxaug.data.schema import Schema, read_schema

__all__ = [
    "Dialogue",
    "Frame",
    "State",
    "Turn",
    "dialogue_files",
    "read_dialogue_file",
    "read_dialogue_json",
    "read_dialogues",
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
        variant: "v1", "v2", ...; None is the original.
        variants_dir: where the variants lie; None is `data_dir/sgd_x/data`.

    Raises:
        UserError: a file is missing or wrong; see `read_schema`.
    """
    if variant is None:
        return read_schema(folders.schema_path(data_dir, split))
    variants_dir = variants_dir or folders.sgdx_folder(data_dir)
    return read_schema(folders.variant_schema_path(variants_dir, variant, split))


def renaming_of(
    data_dir: PathLike,
    split: str,
    variant: str | None,
    variants_dir: PathLike | None = None,
) -> Renaming | None:
    """Returns the map from a split's original names to a variant's; None for None.

    Raises:
        UserError: a schema is missing or wrong, or the two do not match by position.
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
    """Returns the dialogue files of a split in reading order; see `folders.dialogue_paths`."""
    return folders.dialogue_paths(data_dir, split)


def read_dialogues(
    data_dir: PathLike,
    split: str,
    variant: str | None = None,
    variants_dir: PathLike | None = None,
) -> Iterator[Dialogue]:
    """Reads a split file by file, renamed to a variant if one is named.

    See `read_schema_of` for the arguments. Folders and schemas are checked at
    once, each dialogue file when its turn comes.

    Raises:
        UserError: a file is missing or wrong, or a dialogue id occurs twice.
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
    """Reads one dialogue file: the unit of parallel work.

    Each dialogue is made when it is asked for; an error is raised then, or before.

    Args:
        path: the file, local or gs://.
        schema: the original schema of the split, whose names the file uses.
        rename: from `renaming_of`; the dialogues come back with the new names.

    Raises:
        UserError: the file is missing, is not JSON in UTF-8 or breaks a rule of
            `check_dialogues`; the message gives file, dialogue, turn, frame and field.
    """
    for dialogue in _read_dialogues(path, schema):
        yield dialogue if rename is None else renamed(dialogue, rename)


def _read_dialogues(path: PathLike, schema: Schema) -> Iterator[Dialogue]:
    """Yields the dialogues of the quick reader; once it gives up, of the checked one."""
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
    """Returns the checked JSON objects of one dialogue file; see `read_dialogue_file`."""
    data = read_json(path, fix_for(path, FETCH_AGAIN))
    check_dialogues(data, schema, str(path))
    return data
