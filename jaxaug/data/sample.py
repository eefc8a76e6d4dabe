"""`jaxaug data sample`: writes a reproducible sample of a data folder."""

import collections
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etils import epath
from jaxaug_base.files import new_folder

from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import (
    PathLike,
    reach,
    read_bytes,
    read_json,
    write_bytes,
    write_text,
)
from jaxaug.data import folders, sgd
from jaxaug.data.arguments import Sample

LIST = "sample.json"
_FIX = "Name a list that `jaxaug data sample` wrote (sample.json of its folder)."


def run(arguments: Sample) -> int:
    """Runs `jaxaug data sample`."""
    source = folders.resolve_data_dir(arguments.dir)
    if arguments.list is not None:
        chosen = read_list(arguments.list)
    else:
        wanted = _wanted(arguments.frames or [])
        chosen = {
            split: choose(source, split, frames, arguments.seed)
            for split, frames in wanted.items()
        }
    found = write(source, arguments.out, chosen)
    for split, (dialogues, frames, services) in found.items():
        print(f"{split}: {dialogues} dialogues, {frames} frames, {services} services")
    print(f"{arguments.out}: digest of the list {digest_of(chosen)}")
    return 0


def _wanted(words: Sequence[str]) -> dict[str, int]:
    found = {}
    for word in words:
        split, _, number = word.partition("=")
        if split not in folders.SPLITS or not re.fullmatch("[1-9][0-9]{0,8}", number):
            raise UserError(
                f"--frames {word}: write SPLIT=N, with a split of "
                f"{', '.join(folders.SPLITS)} and a number of frames above 0."
            )
        found[split] = int(number)
    if not found:
        raise UserError("nothing to choose: give --frames SPLIT=N, or --list FILE.")
    return found


def choose(source: PathLike, split: str, frames: int, seed: int) -> list[str]:
    """Returns the sorted ids of dialogues with at least `frames` user frames in total.

    Dialogues are drawn at random. Dialogues with a service that no earlier one has are
    taken first, so that the sample has every service of the split.

    Args:
        split: "train", "dev", or "test".
        frames: required number of frames of user turns; a split with fewer is taken
            whole.
    """
    sizes, services = {}, {}
    for dialogue in sgd.read_dialogues(source, split):
        states = [f for turn in dialogue.turns for f in turn.frames if f.state]
        sizes[dialogue.dialogue_id] = len(states)
        services[dialogue.dialogue_id] = {frame.service for frame in states}
    order = sorted(sizes)
    random.Random(f"{seed} {split}").shuffle(order)
    seen: set[str] = set()
    first = []
    for name in order:
        if not services[name] <= seen:
            first.append(name)
            seen |= services[name]
    found: list[str] = []
    total = 0
    for name in dict.fromkeys([*first, *order]):
        if total >= frames and len(found) >= len(first):
            break
        found.append(name)
        total += sizes[name]
    return sorted(found)


def read_list(path: PathLike) -> dict[str, list[str]]:
    """Returns the dialogue ids of each split, from the `sample.json` of `write`.

    Raises:
        UserError: the file is missing or is not such a list.
    """
    data = read_json(path, _FIX)
    splits = data.get("dialogues") if isinstance(data, dict) else None
    if not isinstance(splits, dict) or not all(
        split in folders.SPLITS
        and isinstance(ids, list)
        and all(isinstance(name, str) for name in ids)
        for split, ids in splits.items()
    ):
        raise UserError(f"{path}: is no list of dialogues by split. {_FIX}")
    return splits


def write(
    source: PathLike, out: PathLike, chosen: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, int, int]]:
    """Writes a data folder with the chosen dialogues.

    Splits that `chosen` lacks are copied whole. Dialogues keep their files and order.
    The schemas of splits and variants are copied. The folder appears under its name
    when it is complete. Its `sample.json` is the list of chosen dialogues.

    Returns:
        Split -> number of dialogues, of frames of user turns, and of services.

    Raises:
        UserError: `out` exists, or a chosen dialogue does not exist.
    """
    given = epath.Path(source)
    target = reach(out, "Name a new folder (--out).")
    if target.exists():
        raise UserError(f"{out}: exists. Name a new folder (--out), or delete it.")
    counts = {}
    with new_folder(target) as folder:
        for path in _schemas(given):
            copy = folder.joinpath(*path.relative_to(given).parts)
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(copy, read_bytes(path, _FIX))
        for split in folders.SPLITS:
            if (given / split / "schema.json").exists():
                counts[split] = _write_split(given, folder, split, chosen.get(split))
        listed = {"digest": digest_of(dict(chosen)), "dialogues": dict(chosen)}
        write_text(folder / LIST, json.dumps(listed, indent=1) + "\n")
    return counts


def _schemas(source: epath.Path) -> Iterator[epath.Path]:
    for split in folders.SPLITS:
        if (path := source / split / "schema.json").exists():
            yield path
    for variants in folders.variant_folders(source).values():
        # Folders of $JAXAUG_VARIANTS_DIR stay accessible and need no copy.
        if variants.is_relative_to(source) and variants.is_dir():
            yield from sorted(variants.glob("v*/*/schema.json"))


def _write_split(
    source: epath.Path, folder: epath.Path, split: str, ids: Sequence[str] | None
) -> tuple[int, int, int]:
    schema = sgd.read_schema_of(source, split)
    missing = None if ids is None else set(ids)
    counts: collections.Counter[str] = collections.Counter()
    services: set[str] = set()
    for path in folders.dialogue_paths(source, split):
        dialogues = sgd.read_dialogue_json(path, schema)
        if missing is not None:
            dialogues = [d for d in dialogues if d["dialogue_id"] in missing]
            missing -= {dialogue["dialogue_id"] for dialogue in dialogues}
        if dialogues:
            text = json.dumps(dialogues, indent=1, ensure_ascii=False)
            write_text(folder / split / path.name, text + "\n")
        states = [frame for dialogue in dialogues for frame in _states(dialogue)]
        counts["dialogues"] += len(dialogues)
        counts["frames"] += len(states)
        services.update(frame["service"] for frame in states)
    if missing:
        raise UserError(
            f"{source}: {split} has no dialogue {min(missing)!r} ({len(missing)} of "
            "the list are missing). Name the data from which the list was made."
        )
    return counts["dialogues"], counts["frames"], len(services)


def _states(dialogue: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for turn in dialogue["turns"]:
        if turn["speaker"] == "USER":
            yield from turn["frames"]
