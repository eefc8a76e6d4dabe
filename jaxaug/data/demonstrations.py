"""Example dialogues, one per service, that show a tracker the meaning of the slots.

"Show, Don't Tell" (Gupta et al., 2022) prompts with such a dialogue instead of
descriptions. The authors wrote their dialogues by hand. Here they come from a file of
the user, or a rule selects them from the data (`choose`).
"""

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from etils import epath

from jaxaug.core.digests import file_digest
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_json, shown, write_text
from jaxaug.data import folders, sgd
from jaxaug.data.arguments import Demonstrations

FILE_VARIABLE = "JAXAUG_DEMONSTRATIONS"

_FIX = (
    "Each demonstration has service, turns (speaker and utterance), slot_values (slot "
    "-> value) and active_intent; `jaxaug data demonstrations` writes a file to start "
    "from."
)


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A dialogue about one service with the state at its end.

    Attributes:
        service: name of the service in the original schema.
        turns: (USER or SYSTEM, utterance) pairs.
        slot_values: (slot, value) pairs, one per filled slot.
        active_intent: name of an intent, or "NONE".
        split: split that contains the dialogue; empty if it is not from the data
            folder.
        dialogue_id: id of the dialogue in that split; empty if `split` is.
    """

    service: str
    turns: tuple[tuple[str, str], ...]
    slot_values: tuple[tuple[str, str], ...]
    active_intent: str
    split: str = ""
    dialogue_id: str = ""


def of_folder(data_dir: PathLike, split: str) -> tuple[Demonstration, ...]:
    """Returns the demonstration of each service of a split.

    Demonstrations come from the file `$JAXAUG_DEMONSTRATIONS`. For services that the
    file lacks, and without a file, `choose` selects them.

    Raises:
        UserError: the data or the file are invalid.
    """
    given = of_variable()
    chosen = choose(data_dir, split)
    return tuple((chosen | given)[name] for name in sorted(chosen | given))


def sources(data_dir: PathLike, split: str) -> list[epath.Path]:
    """Returns the files that determine the result of `of_folder`."""
    files = _files(data_dir, split)
    given = os.environ.get(FILE_VARIABLE)
    return [*files, epath.Path(given)] if given else files


def choose(data_dir: PathLike, split: str) -> dict[str, Demonstration]:
    """Returns a map from the services of a split to selected demonstrations.

    The rule prefers dialogues of train, then of dev (for dev and test), then of test
    (for test). Ties are broken in favor of dialogues about the service alone, then of
    the most slots filled in one turn, the fewest turns up to it, and the smallest id.

    A demonstration begins with the first turn about the service and ends with the turn
    that fills the last slot. A service that no user asks for is shown with a turn that
    leaves its state empty. If a value has several spellings, the demonstration has the
    first one that occurs in the dialogue. A service without a frame in these splits has
    no demonstration.
    """
    digests = tuple(map(file_digest, _files(data_dir, split)))
    return dict(_choose(os.fspath(data_dir), split, digests))


def _splits(data_dir: PathLike, split: str) -> list[str]:
    """Returns the split and the existing splits that precede it."""
    before = folders.SPLITS[: folders.SPLITS.index(split)]
    there = [n for n in before if (epath.Path(data_dir) / n / "schema.json").exists()]
    return [*there, split]


def _files(data_dir: PathLike, split: str) -> list[epath.Path]:
    """Returns the files of the split and of the splits that precede it."""
    return [
        path
        for name in _splits(data_dir, split)
        for path in (
            folders.schema_path(data_dir, name),
            *folders.dialogue_paths(data_dir, name),
        )
    ]


@functools.lru_cache(maxsize=8)
def _choose(
    data_dir: str, split: str, digests: tuple[str, ...]
) -> Mapping[str, Demonstration]:
    del digests  # The digests are part of the cache key, since files may change.
    wanted = {s.name for s in sgd.read_schema_of(data_dir, split).services}
    best: dict[str, tuple[tuple, Demonstration]] = {}
    for number, name in enumerate(_splits(data_dir, split)):
        for dialogue in sgd.read_dialogues(data_dir, name):
            there = {f.service for turn in dialogue.turns for f in turn.frames}
            for service in there & wanted:
                candidate = _candidate(dialogue, service, number, name)
                known = best.get(service)
                if candidate and (known is None or candidate[0] < known[0]):
                    best[service] = candidate
    return {service: demonstration for service, (_, demonstration) in best.items()}


def _candidate(
    dialogue: sgd.Dialogue, service: str, number: int, split: str
) -> tuple[tuple, Demonstration] | None:
    """Returns the sort key of a candidate, and the candidate; see `choose`."""
    states = [
        (index, frame.state)
        for index, turn in enumerate(dialogue.turns)
        for frame in (turn.frames if turn.speaker == "USER" else ())
        if frame.service == service and frame.state is not None
    ]
    if not states:
        return None
    # In MultiWOZ, turns before the first mention of a service have frames of it too.
    about = [(i, s) for i, s in states if s.slot_values or s.active_intent != "NONE"]
    first, _ = (about or states)[0]
    last, state = max(about or states[:1], key=lambda item: len(item[1].slot_values))
    turns = tuple((t.speaker, t.utterance) for t in dialogue.turns[first : last + 1])
    text = "\n".join(utterance for _, utterance in turns).lower()
    values = tuple(
        (name, next((v for v in spellings if v.lower() in text), spellings[0]))
        for name, spellings in state.slot_values.items()
    )
    alone = tuple(dialogue.services) == (service,)
    order = (
        *(not about, number, not alone),
        *(-len(values), len(turns), dialogue.dialogue_id),
    )
    return order, Demonstration(
        service, turns, values, state.active_intent, split, dialogue.dialogue_id
    )


def of_variable() -> dict[str, Demonstration]:
    """Returns the demonstrations of `$JAXAUG_DEMONSTRATIONS` by service, or none."""
    path = os.environ.get(FILE_VARIABLE)
    return read(path) if path else {}


def read(path: PathLike) -> dict[str, Demonstration]:
    """Returns the demonstrations of a file by service; inverts `write`.

    Raises:
        UserError: the file is missing, is not JSON, has a wrong field, or has two
            demonstrations of one service.
    """
    data = read_json(path, _FIX)
    if not isinstance(data, list):
        raise UserError(f"{path}: expected a list of demonstrations. {_FIX}")
    found: dict[str, Demonstration] = {}
    for index, item in enumerate(data):
        try:
            one = _of_object(item)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{path}: demonstration #{index}: {error}. {_FIX}"
            ) from None
        if one.service in found:
            raise UserError(
                f"{path}: service {shown(one.service)} has two demonstrations. Remove "
                "one of them."
            )
        found[one.service] = one
    return found


def _of_object(item: Any) -> Demonstration:
    if not isinstance(item, dict):
        raise TypeError(f"expected an object, got {shown(item)}")
    turns = _field(item, "turns", list)
    if not turns:
        raise ValueError("field 'turns': expected at least one turn, got none")
    values = _field(item, "slot_values", dict)
    for slot, value in values.items():
        if not isinstance(value, str) or not value.strip():
            raise ValueError(
                f"field 'slot_values': expected one text for {shown(slot)}, got "
                f"{shown(value)}"
            )
    return Demonstration(
        _field(item, "service", str),
        tuple(map(_turn, turns)),
        tuple(values.items()),
        _field(item, "active_intent", str),
        _field(item, "split", str, ""),
        _field(item, "dialogue_id", str, ""),
    )


def _turn(turn: Any) -> tuple[str, str]:
    if not isinstance(turn, dict) or turn.get("speaker") not in ("USER", "SYSTEM"):
        raise ValueError(
            f"field 'turns': expected objects whose speaker is USER or SYSTEM, got "
            f"{shown(turn)}"
        )
    return turn["speaker"], _field(turn, "utterance", str)


def _field(item: dict[str, Any], name: str, kind: type, default: Any = None) -> Any:
    value = item.get(name, default)
    if not isinstance(value, kind):
        words: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}
        got = shown(value) if name in item else "nothing"
        raise TypeError(f"field {name!r}: expected {words[kind]}, got {got}")
    return value


def write(path: PathLike, demonstrations: Mapping[str, Demonstration]) -> None:
    """Writes a file for `read`; the file appears under its name when it is complete."""
    items = [
        {
            "service": one.service,
            "turns": [{"speaker": who, "utterance": said} for who, said in one.turns],
            "slot_values": dict(one.slot_values),
            "active_intent": one.active_intent,
            "split": one.split,
            "dialogue_id": one.dialogue_id,
        }
        for _, one in sorted(demonstrations.items())
    ]
    write_text(path, json.dumps(items, indent=2, ensure_ascii=False) + "\n")


def run(arguments: Demonstrations) -> int:
    """Runs `jaxaug data demonstrations`: writes the selected ones of all splits."""
    folder = folders.resolve_data_dir(arguments.data_dir)
    found: dict[str, Demonstration] = {}
    for split in reversed(folders.SPLITS):
        if (folder / split / "schema.json").exists():
            found |= choose(folder, split)
    write(arguments.out, found)
    for one in found.values():
        print(
            f"{one.service}: {one.split} {one.dialogue_id}, {len(one.turns)} turns, "
            f"{len(one.slot_values)} slots"
        )
    print(f"written: {arguments.out}. Use it with ${FILE_VARIABLE}.")
    return 0
