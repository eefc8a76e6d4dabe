"""Reads dialogues without annotation: JSON in the layout of SGD, or plain text.

    USER: i need a table for two
    SYSTEM: in which city?
    USER: in oslo

An empty line ends a dialogue of plain text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import check_pairs, shown
from jaxaug.core.suggestion import check_keys, suggestion
from jaxaug.data.schema import Schema
from jaxaug.data.sgd import Dialogue, Frame, State, Turn
from jaxaug.formats.records import NO_INTENT

# A lazy group would take quadratic time on a long run of blanks.
_LINE = re.compile(r"\s*(USER|SYSTEM)\s*:(.*)", re.IGNORECASE)
_FIX = (
    "Give dialogues in the layout of SGD, a list of objects with `turns` (speaker and "
    "utterance), one such object a line, or lines that begin with USER: or SYSTEM:."
)
UNKNOWN = State(NO_INTENT, (), {})
"""The empty state of a frame to predict."""
# The fields of SGD and of `jaxaug predict`, and `turn_id` of MultiWOZ 2.2.
_DIALOGUE_KEYS = ("dialogue_id", "services", "turns")
_TURN_KEYS = ("speaker", "utterance", "frames", "turn_id")
_FRAME_KEYS = (
    *("service", "slots", "state", "actions", "service_call", "service_results"),
    *("spans", "agreement", "uncertain", "unsaid"),
)


def read_dialogues(text: str, where: str, schema: Schema) -> list[Dialogue]:
    """Returns the dialogues of a text, with an empty frame for each state to predict.
    A user turn gets a frame for each service that it lists. If it lists no service, it
    gets the services of the dialogue, and without those, all services of the schema.

    Args:
        text: JSON, JSON lines, or plain text.
        where: name of the text in messages.
        schema: the schema of the services. If a service of the dialogue is not in the
          schema, its variant is used: the same name and a digit.

    Raises:
        UserError: the text has another format; a field is missing, unknown, or has a
          wrong type; an id or a key occurs twice; or a service is not in the schema.
    """
    known: dict[str, Dialogue] = {}
    for number, (item, place) in enumerate(_objects(text, where)):
        dialogue = of_object(item, place, schema, f"dialogue_{number + 1}")
        if dialogue.dialogue_id in known:
            raise UserError(
                f"{place}: dialogue_id {shown(dialogue.dialogue_id)} occurs twice. "
                "Give each dialogue a unique id, or leave the ids out."
            )
        known[dialogue.dialogue_id] = dialogue
    if not known:
        raise UserError(f"{where}: holds no dialogue. {_FIX}")
    return list(known.values())


def of_object(item: Any, where: str, schema: Schema, name: str) -> Dialogue:
    """Returns one dialogue; see `read_dialogues`. `name` is its default id."""
    check_pairs(item, where, _FIX)
    if isinstance(item, Sequence) and not isinstance(item, str):
        item = {"turns": item}
    if isinstance(item, Mapping):
        check_keys(item, _DIALOGUE_KEYS, where)
    turns = item.get("turns") if isinstance(item, Mapping) else None
    if not isinstance(turns, Sequence) or isinstance(turns, str) or not turns:
        raise UserError(
            f"{where}: expected a dialogue with turns, got {shown(item)}. {_FIX}"
        )
    listed = _names(item.get("services", ()), f"{where}: services")
    services = _services(listed, schema, where) or [s.name for s in schema.services]
    # All turns share these frames: there may be thousands of turns and of services.
    frames = _frames(services)
    return Dialogue(
        str(item.get("dialogue_id", name)),
        tuple(services),
        tuple(
            _turn(turn, f"{where}: turn {index}", schema, frames)
            for index, turn in enumerate(turns)
        ),
    )


def alone(*frames: Frame) -> Dialogue:
    """Returns a dialogue with one empty user turn that has these frames."""
    services = tuple(frame.service for frame in frames)
    return Dialogue("", services, (Turn("USER", "", frames),))


def of_text(text: str, where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields the dialogues of a plain text as objects, with the start line of each."""
    turns: list[dict[str, Any]] = []
    start = 1
    for number, line in enumerate([*_split_lines(text), ""], 1):
        if line.strip():
            if not (match := _LINE.fullmatch(line)):
                raise UserError(
                    f"{where}: line {number}: expected USER: or SYSTEM: and the "
                    f"utterance, got {shown(line)}. {_FIX}"
                )
            if not turns:
                start = number
            turns.append({"speaker": match[1].upper(), "utterance": match[2].strip()})
        elif turns:
            yield {"turns": turns}, f"{where}: line {start}"
            turns = []


def _split_lines(text: str) -> list[str]:
    # `splitlines` would also split at characters that belong to an utterance.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _objects(text: str, where: str) -> Iterable[tuple[Any, str]]:
    if not text.lstrip().startswith(("[", "{")):
        return of_text(text, where)
    try:
        data = json_reader.decoded(text, halves=True)
    except json_reader.JsonError as whole:
        return _lines(text, where, whole)
    items = data if isinstance(data, list) else [data]
    return [(item, f"{where}: dialogue #{n}") for n, item in enumerate(items)]


def _lines(text: str, where: str, whole: ValueError) -> Iterator[tuple[Any, str]]:
    for number, line in enumerate(_split_lines(text), 1):
        if line.strip():
            try:
                yield json_reader.decoded(line, halves=True), f"{where}: line {number}"
            except json_reader.JsonError as error:
                # If line 1 fails, the file is probably one object instead of JSON
                # lines.
                problem = whole if number == 1 else f"line {number}: {error}"
                raise UserError(f"{where}: is not JSON: {problem}. {_FIX}") from error


def _turn(item: Any, where: str, schema: Schema, frames: tuple[Frame, ...]) -> Turn:
    if isinstance(item, Mapping):
        check_keys(item, _TURN_KEYS, where)
    speaker = str(item.get("speaker", "")).upper() if isinstance(item, Mapping) else ""
    if speaker not in ("USER", "SYSTEM") or not isinstance(item.get("utterance"), str):
        raise UserError(
            f"{where}: expected speaker (USER or SYSTEM) and utterance, got "
            f"{shown(item)}. {_FIX}"
        )
    if speaker == "SYSTEM":
        frames = ()
    elif names := _listed(item.get("frames") or [], where):
        frames = _frames(_services(names, schema, where))
    return Turn(speaker, item["utterance"], frames)  # type: ignore[arg-type]


def _listed(frames: Any, where: str) -> list[str]:
    """Returns the services that a user turn names, as objects or as strings."""
    if not isinstance(frames, list):
        raise UserError(
            f"{where}: frames: expected a list, got {shown(frames)}. {_FIX}"
        )
    for frame in frames:
        if isinstance(frame, Mapping):
            check_keys(frame, _FRAME_KEYS, f"{where}: frames")
    listed = [f.get("service") if isinstance(f, Mapping) else f for f in frames]
    return _names(listed, f"{where}: frames")


def _frames(services: Iterable[str]) -> tuple[Frame, ...]:
    """Returns an empty frame for each distinct service."""
    names = dict.fromkeys(services)
    return tuple(Frame(name, UNKNOWN) for name in names)


def _names(value: Any, where: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        value = [None]
    if not all(isinstance(name, str) for name in value):
        raise UserError(f"{where}: expected names of services, got {shown(value)}.")
    return list(value)


def _services(names: Sequence[str], schema: Schema, where: str) -> list[str]:
    found = []
    for name in names:
        if name not in schema:
            variants = [
                name + digit for digit in "0123456789" if name + digit in schema
            ]
            if len(variants) != 1:
                known = [service.name for service in schema.services]
                raise UserError(
                    f"{where}: the schema has no service {shown(name)}; "
                    f"{suggestion(name, known)} Name the schema with --schema."
                )
            name = variants[0]
        found.append(name)
    return found
