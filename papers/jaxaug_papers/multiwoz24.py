"""Converts MultiWOZ 2.4 from its published layout to a data folder of jaxaug.

MultiWOZ 2.4 (Ye et al., 2022) corrects the annotation of the dev and test splits of
MultiWOZ 2.1, and has its layout: `data.json` maps names to dialogues, and two lists
name the dialogues of dev and test. The `metadata` of a turn of the system is the state
after the turn of the user before it. There are no intents and no schema, so the
converter uses the schema of MultiWOZ 2.2, and each intent is NONE.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import read_json, read_text
from jaxaug.data.datasets import DataSet
from jaxaug_papers.multiwoz import Report, Writer

_FIX = (
    "Name the folder MULTIWOZ2.4 of the archive data/MULTIWOZ2.4.zip in the repository "
    "smartyfh/MultiWOZ2.4, with a copy of data/MultiWOZ_2.2/schema.json of the "
    "repository budzianowski/multiwoz in it."
)
_LISTS = {"dev": "valListFile.json", "test": "testListFile.json"}
_EMPTY = {"", "not mentioned", "none"}
_DONT_CARE = {"dont care", "don't care", "do not care"}
_PER_FILE = 512


def convert(source: Path, out: Path, mentioned_only: bool = False) -> Report:
    """Writes MultiWOZ 2.4 in the layout that jaxaug reads.

    Frames are written as for MultiWOZ 2.2. Slots get the names of its schema: `leaveAt`
    of a taxi is `taxi-leaveat`, `people` in `book` of a hotel is `hotel-bookpeople`.

    Args:
        source: folder with `data.json`, `valListFile.json`, `testListFile.json`, and
            the `schema.json` of MultiWOZ 2.2.

    Raises:
        UserError: a file is missing or does not have the layout of MultiWOZ 2.4.
    """
    writer = Writer.of(source / "schema.json", out, mentioned_only, _FIX)
    path = source / "data.json"
    data = read_json(path, _FIX)
    if not isinstance(data, dict):
        raise UserError(f"{path}: has no object of dialogues. {_FIX}")
    names = {split: _listed(source / name, data) for split, name in _LISTS.items()}
    names["train"] = [
        name for name in data if not any(name in found for found in names.values())
    ]
    for split, found in names.items():
        for start in range(0, len(found), _PER_FILE):
            some = [
                _dialogue(path, name, data[name], writer)
                for name in found[start : start + _PER_FILE]
            ]
            file = f"dialogues_{start // _PER_FILE + 1:03}.json"
            writer.write(split, file, some)
    return writer.report


def _listed(path: Path, data: Mapping[str, Any]) -> list[str]:
    """Returns the dialogues that a file names, one a line."""
    names = dict.fromkeys(read_text(path, _FIX).split())
    missing = [name for name in names if name not in data]
    if missing or not names:
        what = f"names {missing[0]:.100}" if missing else "names no dialogue"
        raise UserError(f"{path}: {what}; expected names of data.json. {_FIX}")
    return list(names)


def _dialogue(path: Path, name: str, item: Any, writer: Writer) -> dict[str, Any]:
    """Returns a dialogue in the layout of MultiWOZ 2.2."""
    try:
        turns = list(_turns(name, item["log"], writer))
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}: dialogue {name:.100} is not in the layout of MultiWOZ 2.4 "
            f"({type(error).__name__}: {error}). {_FIX}"
        ) from None
    return {"dialogue_id": name, "services": [], "turns": turns}


def _turns(
    name: str, log: list[dict[str, Any]], writer: Writer
) -> Iterator[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    for index, turn in enumerate(log):
        found = {"utterance": turn["text"].strip(), "speaker": "SYSTEM", "frames": []}
        if index % 2 == 0:
            where = f"{name} turn {index}"
            if index + 1 < len(log):
                frames = _frames(log[index + 1]["metadata"], writer, where)
            else:
                change = "a last turn without state repeats the one before"
                writer.report.note(change, where, found["utterance"])
            found |= {"speaker": "USER", "frames": frames}
        yield found


def _frames(
    metadata: Mapping[str, Any], writer: Writer, where: str
) -> list[dict[str, Any]]:
    """Returns the frames of the services with a filled slot."""
    possible = {
        slot.name: slot.possible_values
        for service in writer.schema.services
        for slot in service.slots
        if slot.is_categorical
    }
    frames = []
    for service, parts in metadata.items():
        values: dict[str, list[str]] = {}
        for part, prefix in (("semi", ""), ("book", "book")):
            for key, value in parts[part].items():
                text = value.strip() if key != "booked" else ""
                if text in _EMPTY:
                    continue
                name = f"{service}-{prefix}{key}".lower().replace(" ", "")
                text = "dontcare" if text in _DONT_CARE else text
                if name in possible and text != "dontcare":
                    text = _spelled(text, possible[name], writer.report, where, name)
                values[name] = [text]
        if values:
            frames.append({"service": service, "state": {"slot_values": values}})
    return frames


def _spelled(
    text: str, possible: tuple[str, ...], report: Report, where: str, name: str
) -> str:
    """Returns the possible value that differs in spaces only, else the text."""
    if text in possible:
        return text
    for value in possible:
        if value.replace(" ", "") == text.replace(" ", ""):
            report.note("a value gets the schema's spaces", where, f"{name}={text}")
            return value
    change = "a value that is not in the schema's possible_values is kept"
    report.note(change, where, f"{name}={text}")
    return text


DATA_SET = DataSet(
    url="",
    archive="",
    keep="",
    layout=f"Get it by hand, then use `jaxaug data convert multiwoz24`. {_FIX}",
    note="MultiWOZ 2.4, MIT, in the layout of SGD. Use it with --data_dir.",
    convert=convert,
)
