"""Long work that is split over machines, and the merge of its parts.

`--shard K/N` does the K-th of N parts and writes it to a shared or separate folder. A
part ends with a note, `K-of-N.json`, on the work and its results. `--merge` reads the
notes. It reads the results only if they are the N parts of the same work.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, write_text

_NAME = re.compile(r"([1-9][0-9]*)-of-([1-9][0-9]*)\.json")
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the work; `number` counts from 1 to `count`."""

    number: int
    count: int

    @property
    def name(self) -> str:
        """Name of the part, such as `3-of-16`."""
        return f"{self.number}-of-{self.count}"

    def owns(self, block: int) -> bool:
        """Returns whether a block of the work, counted from 0, belongs to this part."""
        return block % self.count == self.number - 1


def parse(text: str) -> Part:
    """Returns the part K/N that `--shard` names, such as `3/16`, with 1 <= K <= N.

    Raises:
        UserError: `text` is not K/N with 1 <= K <= N.
    """
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= _MOST:
        raise UserError(
            f"--shard {text}: give K/N with K from 1 to N, such as 3/16 on the third "
            f"of 16 machines."
        )
    return Part(int(match[1]), int(match[2]))


def folder_of(out: PathLike) -> epath.Path:
    """Returns the folder of the parts of an output: `<out>.parts`."""
    target = epath.Path(out).expanduser()
    return target.parent / f"{target.name}.parts"


def finish(
    folder: PathLike, part: Part, work: Mapping[str, Any], results: Sequence[str]
) -> None:
    """Records that a part is complete; `work` is JSON that is equal for all parts."""
    note = {"work": dict(work), "results": sorted(results)}
    write_text(epath.Path(folder) / f"{part.name}.json", json.dumps(note))


def complete(
    folders: Iterable[PathLike], work: Mapping[str, Any]
) -> list[tuple[epath.Path, Part, list[str]]]:
    """Returns (folder, part, names of its files) for all parts of some work.

    Raises:
        UserError: a folder is missing, a part is missing or duplicated, parts belong to
            another split or other work, or a note is damaged.
    """
    found: dict[int, tuple[epath.Path, Part, list[str]]] = {}
    expected = json.loads(json.dumps(dict(work)))
    for given in folders:
        folder = epath.Path(given).expanduser()
        if not folder.is_dir():
            raise UserError(
                f"--merge {folder}: no such folder. Name those that hold the parts "
                "(`<out>.parts` of each machine)."
            )
        for path in sorted(folder.iterdir(), key=lambda path: path.name):
            match = _NAME.fullmatch(path.name)
            if match is None:
                continue
            part = Part(int(match[1]), int(match[2]))
            results = _results(path, part, expected)
            one = next(iter(found.values()), None)
            if one is not None and one[1].count != part.count:
                raise UserError(
                    f"{path}: is one of {part.count} parts, "
                    f"{one[0] / one[1].name}.json one of {one[1].count}. Remove the "
                    "notes of the split that is not meant."
                )
            if part.number in found and found[part.number][0] != folder:
                raise UserError(
                    f"{path}: part {part.number} lies in {found[part.number][0]}, too. "
                    "Remove one of the two."
                )
            found[part.number] = folder, part, results
    if not found:
        raise UserError(
            f"--merge: no part is complete in {', '.join(map(str, folders))}. Run the "
            "same command with --shard 1/N, ... N/N before."
        )
    count = next(iter(found.values()))[1].count
    missing = [str(n) for n in range(1, count + 1) if n not in found]
    if missing:
        raise UserError(
            f"--merge: of {count} parts {len(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing: "
            f"{', '.join(missing[:20])}. Run the same command with --shard "
            f"{missing[0]}/{count}, or name the folder that holds its part, too."
        )
    return [found[number] for number in sorted(found)]


def _results(path: epath.Path, part: Part, work: Any) -> list[str]:
    """Returns the files of a part, after checking that its note is for this work."""
    fix = f"Remove it and run the same command with --shard {part.number}/{part.count}."
    note = read_json(path, fix)
    if not isinstance(note, dict) or not isinstance(note.get("results"), list):
        raise UserError(f"{path}: is no note of a finished part. {fix}")
    given = note.get("work")
    if given != work:
        names = [
            name
            for name in (given if isinstance(given, dict) else {}) | work
            if not isinstance(given, dict) or given.get(name) != work.get(name)
        ]
        raise UserError(
            f"{path}: is a part of other work ({', '.join(names)} differ). All parts "
            f"and --merge take the same options, input and program. {fix}"
        )
    return [str(name) for name in note["results"]]
