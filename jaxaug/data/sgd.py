"""Dialogues of the Schema-Guided Dialogue data (SGD) and of its variants (SGD-X).

Source: Rastogi et al., "Towards Scalable Multi-domain Conversational Agents: The
Schema-Guided Dialogue Dataset", 2020; SGD-X: Lee et al., 2022. Everything that a
dialogue file says is checked against the schema before a record is made of it;
variants are made by renaming checked dialogues while they are read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from etils import epath

from jaxaug.core.cache_folder import fix_for
from jaxaug.core.files import FETCH_AGAIN, PathLike, read_json
from jaxaug.data import folders
from jaxaug.data.check import check_dialogues, repeated_id
from jaxaug.data.problem import refuse
from jaxaug.data.rename import Renaming, rename_dialogue, renaming
from jaxaug.data.schema import Schema, read_schema


@dataclass(frozen=True, slots=True)
class State:
    """What the user wants of one service after a turn.

    `active_intent` is an intent's name or "NONE"; `slot_values` maps a slot to its
    annotated values (at least one: different wordings of the same value).
    """

    active_intent: str
    requested_slots: tuple[str, ...]
    slot_values: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Frame:
    """Annotation of one service in one turn; system turns have no state.

    `raw` is the frame's JSON object with the same names (actions, spans, service
    call and results included); read it, do not change it.
    """

    service: str
    state: State | None
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance with its frames, at most one a service."""

    speaker: Literal["USER", "SYSTEM"]
    utterance: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue; its id is unique in the split."""

    dialogue_id: str
    services: tuple[str, ...]
    turns: tuple[Turn, ...]


def read_schema_of(
    data_dir: PathLike,
    split: str,
    variant: str | None = None,
    variants_dir: PathLike | None = None,
) -> Schema:
    """The schema of a split, original or variant.

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
    """From the original names of a split to those of a variant; None for None.

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
    """The dialogue files of a split in reading order; see `folders.dialogue_paths`."""
    return folders.dialogue_paths(data_dir, split)


def read_dialogues(
    data_dir: PathLike,
    split: str,
    variant: str | None = None,
    variants_dir: PathLike | None = None,
) -> Iterator[Dialogue]:
    """Reads a split file by file, renamed to a variant if one is named.

    The arguments are those of `read_schema_of`. Folders and schemas are checked at
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
) -> list[Dialogue]:
    """Reads one dialogue file: the unit of parallel work.

    Args:
      path: the file, local or gs://.
      schema: the original schema of the split, whose names the file uses.
      rename: from `renaming_of`; the dialogues come back with the new names.

    Raises:
      UserError: the file is missing, is not JSON in UTF-8 or breaks a rule of
        `check_dialogues`; the message gives file, dialogue, turn, frame and field.
    """
    dialogues = read_dialogue_json(path, schema)
    if rename is not None:
        for dialogue in dialogues:
            rename_dialogue(dialogue, rename)
    return [_dialogue(dialogue) for dialogue in dialogues]


def read_dialogue_json(path: PathLike, schema: Schema) -> list[dict[str, Any]]:
    """The checked JSON objects of one dialogue file; see `read_dialogue_file`."""
    data = read_json(path, fix_for(path, FETCH_AGAIN))
    check_dialogues(data, schema, str(path))
    return data


def _dialogue(data: Mapping[str, Any]) -> Dialogue:
    turns = tuple(
        Turn(
            turn["speaker"],
            turn["utterance"],
            tuple([_frame(frame) for frame in turn["frames"]]),
        )
        for turn in data["turns"]
    )
    return Dialogue(data["dialogue_id"], tuple(data["services"]), turns)


def _frame(data: Mapping[str, Any]) -> Frame:
    state = data.get("state")
    if state is None:
        return Frame(data["service"], None, data)
    values = {name: tuple(items) for name, items in state["slot_values"].items()}
    return Frame(
        data["service"],
        State(state["active_intent"], tuple(state["requested_slots"]), values),
        data,
    )
