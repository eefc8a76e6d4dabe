"""Matches predicted dialogues with their references and checks the DSTC8 format."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import shown
from jaxaug.data import dialogue as records
from jaxaug.data.dialogue import Dialogue, State, Turn
from jaxaug.metrics.benchmark import scored_frames
from jaxaug.metrics.slot_scores import Reference

FIX = "Correct the file, or write the predictions again."

_STRING = frozenset({str})

Span = tuple[str, str]  # A tagged span: (slot, text).


def spans_of(
    tags: Iterable[records.Span], utterance: str, free: frozenset[str]
) -> tuple[Span, ...]:
    """Returns the spans of the slots in `free`, as (slot, text)."""
    return tuple(
        (tag.slot, utterance[tag.start : tag.exclusive_end])
        for tag in tags
        if tag.slot in free
    )


class Match(NamedTuple):
    """A predicted frame with its reference; `predicted` is None without any tags."""

    reference: Reference
    state: State
    annotated: tuple[Span, ...]
    predicted: tuple[Span, ...] | None


class DialogueReader:
    """Matches one predicted dialogue with its reference.

    Raises:
        UserError: services, speakers, or utterances differ from the reference, a turn
            or frame is missing, or a field has the wrong type.
    """

    def __init__(
        self,
        item: Mapping[str, Any],
        dialogue: Dialogue,
        path: epath.Path,
        ignored: Counter[str],
    ):
        self._dialogue, self._ignored = dialogue, ignored
        self._where = f"{path}: dialogue {shown(dialogue.dialogue_id)}"
        services, turns = item.get("services"), item.get("turns")
        if not isinstance(services, list) or set(map(str, services)) != set(
            dialogue.services
        ):
            raise UserError(
                f"{self._where}: field 'services': expected "
                f"{sorted(dialogue.services)}, got {shown(services)}. Predictions "
                "name services as the evaluated schema does: check --variant."
            )
        if not isinstance(turns, list):
            raise _wrong(self._where, "turns", "a list", turns)
        self._turns = turns

    def frames(self, free: Mapping[str, frozenset[str]]) -> Iterator[Match]:
        """Yields the matches of the dialogue; `free` are non-categorical slots."""
        dialogue_id, turns = self._dialogue.dialogue_id, self._dialogue.turns
        for index, turn in enumerate(turns):
            wanted = scored_frames(turn)
            if index >= len(self._turns):
                if wanted:
                    raise UserError(
                        f"{self._where}: turn {index} is missing: the reference has "
                        f"{len(turns)} turns, the prediction {len(self._turns)}. "
                        "Predict every user turn."
                    )
                continue
            given = self._frames_by_service(index, turn.speaker, turn.utterance)
            if turn.speaker != "USER":
                continue
            for frame, annotated in wanted:
                if frame.service not in given:
                    raise UserError(
                        f"{self._where}, turn {index}: the frame of service "
                        f"{shown(frame.service)} is missing; the prediction has "
                        f"{shown(sorted(given)) if given else 'no frames'}. Predict a "
                        "state for every frame of a user turn."
                    )
                raw = given.pop(frame.service)
                where = f"{self._where}, turn {index}, service {shown(frame.service)}"
                slots, tags = free[frame.service], raw.get("slots")
                yield Match(
                    Reference(dialogue_id, index, frame.service, annotated),
                    _state(raw.get("state"), where),
                    spans_of(frame.slots, turn.utterance, slots),
                    None
                    if tags is None
                    else spans_of(_spans(tags, where, turn), turn.utterance, slots),
                )
            if given:
                self._ignored["frames that the references lack"] += len(given)
        if surplus := max(0, len(self._turns) - len(turns)):
            self._ignored["turns that the references lack"] += surplus

    def _frames_by_service(
        self, index: int, speaker: str, utterance: str
    ) -> dict[str, dict[str, Any]]:
        turn = self._turns[index]
        where = f"{self._where}, turn {index}"
        if not isinstance(turn, dict):
            raise UserError(f"{where}: expected an object, got {shown(turn)}. {FIX}")
        if turn.get("speaker", speaker) != speaker:
            raise UserError(
                f"{where}: field 'speaker': expected {speaker!r}, got "
                f"{shown(turn['speaker'])}. Keep the turns of the reference."
            )
        if speaker != "USER":
            return {}
        if turn.get("utterance", utterance) != utterance:
            raise UserError(
                f"{where}: field 'utterance': expected {shown(utterance)}, got "
                f"{shown(turn['utterance'])}. Keep the utterances of the reference."
            )
        frames = turn.get("frames")
        if not isinstance(frames, list) or not all(
            isinstance(f, dict) and isinstance(f.get("service"), str) for f in frames
        ):
            raise UserError(
                f"{where}: field 'frames': expected a list of objects with a "
                f"'service', got {shown(frames)}. {FIX}"
            )
        by_service = {frame["service"]: frame for frame in frames}
        if len(by_service) < len(frames):
            raise UserError(
                f"{where}: two frames of one service: "
                f"{[frame['service'] for frame in frames]}. Keep one frame each."
            )
        return by_service


def _state(state: Any, where: str) -> State:
    if not isinstance(state, dict):
        raise _wrong(where, "state", "an object", state)
    intent = state.get("active_intent")
    if not isinstance(intent, str):
        raise _wrong(where, "active_intent", "a string ('NONE' if none)", intent)
    requested = state.get("requested_slots")
    if requested is None or not _is_strings(requested):
        raise _wrong(where, "requested_slots", "a list of strings", requested)
    values = state.get("slot_values")
    if not isinstance(values, dict):
        raise _wrong(where, "slot_values", "an object", values)
    for slot, options in values.items():
        if not options or not _is_strings(options):
            expected = "a non-empty list of strings (leave out slots without a value)"
            raise _wrong(
                f"{where}, slot {shown(slot)}", "slot_values", expected, options
            )
    return State(intent, tuple(requested), {s: tuple(v) for s, v in values.items()})


def _spans(tags: Any, where: str, turn: Turn) -> list[records.Span]:
    """Returns predicted spans; raises `UserError` for one outside the utterance."""
    is_list = isinstance(tags, list) and all(
        isinstance(tag, dict)
        and isinstance(tag.get("slot"), str)
        and type(tag.get("start")) is int
        and type(tag.get("exclusive_end")) is int
        for tag in tags
    )
    if not is_list:
        expected = "a list of objects with slot, start and exclusive_end"
        raise _wrong(where, "slots", expected, tags)
    length = len(turn.utterance)
    for tag in tags:
        if not 0 <= tag["start"] < tag["exclusive_end"] <= length:
            expected = (
                f"0 <= start < exclusive_end <= {length}, the length of the utterance"
            )
            raise _wrong(where, "slots", expected, tag)
    return [records.Span(t["slot"], t["start"], t["exclusive_end"]) for t in tags]


def _is_strings(value: Any) -> bool:
    return type(value) is list and {*map(type, value)} <= _STRING


def _wrong(where: str, key: str, expected: str, got: Any) -> UserError:
    return UserError(
        f"{where}: field {key!r}: expected {expected}, got {shown(got)}. {FIX}"
    )
