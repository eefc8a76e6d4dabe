"""Predictions in DSTC8 format, the input of the official evaluator.

They are a folder of JSON files. Each file is a list of dialogues with `dialogue_id`,
`services`, and `turns`. The frames of a user turn have `service` and `state`
(`active_intent`, `requested_slots`, `slot_values`: slot -> list of values).
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from etils import epath

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import (
    PathLike,
    reach,
    read_bytes,
    read_json,
    shown,
    write_text,
)
from jaxaug.core.suggestion import suggestion
from jaxaug.data.sgd import Dialogue, State
from jaxaug.metrics.benchmark import Benchmark, FrameKey, scored_frames
from jaxaug.metrics.collector import collector_paused
from jaxaug.metrics.matching import FIX, DialogueReader, Match, Span
from jaxaug.metrics.slot_scores import Reference, StateLike

# The official evaluator leaves this file in the folder that it has scored.
_OFFICIAL_OUTPUT = "dialogues_and_metrics.json"
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(slots=True)
class Predictions:
    """Predicted states with their references, frame by frame.

    Attributes:
        references: annotated frames of all predicted dialogues, in their order.
        states: predicted state of each frame.
        spans: annotated and predicted spans of each frame (see `frame_scores`); None if
            no prediction tags spans.
        unpredicted: ids of annotated dialogues without a prediction; as in the official
            program they are not scored.
        ignored: kind of ignored item -> count.
    """

    references: list[Reference] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    spans: tuple[list[tuple[Span, ...]], list[tuple[Span, ...] | None]] | None = None
    unpredicted: list[str] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)


def write_predictions(
    path: PathLike,
    dialogues: Iterable[Dialogue],
    states: Mapping[FrameKey, StateLike],
) -> list[str]:
    """Writes one DSTC8 file, under a temporary name first.

    A dialogue is left out if one of its frames has no state, because the official
    evaluator refuses it.

    Args:
        path: JSON file, for instance `PRED/original/dialogues.json`.
        dialogues: annotated dialogues with utterances, services, and frames.
        states: (dialogue id, turn, service) -> predicted state.

    Returns:
        Ids of the dialogues left out although some of their frames have a state.
    """
    lines, partial = [], []
    for dialogue in dialogues:
        keys = [
            (dialogue.dialogue_id, index, frame.service)
            for index, turn in enumerate(dialogue.turns)
            for frame, _ in scored_frames(turn)
        ]
        if all(key in states for key in keys):
            lines.append(json.dumps(_dialogue_object(dialogue, states)))
        elif any(key in states for key in keys):
            partial.append(dialogue.dialogue_id)
    write_text(path, "[\n" + ",\n".join(lines) + "\n]\n")
    return partial


def _dialogue_object(
    dialogue: Dialogue, states: Mapping[FrameKey, StateLike]
) -> dict[str, Any]:
    turns = []
    for index, turn in enumerate(dialogue.turns):
        frames = [
            {
                "service": frame.service,
                "state": _state_object(
                    states[dialogue.dialogue_id, index, frame.service]
                ),
            }
            for frame, _ in scored_frames(turn)
        ]
        turns.append(
            {"speaker": turn.speaker, "utterance": turn.utterance, "frames": frames}
        )
    return {
        "dialogue_id": dialogue.dialogue_id,
        "services": list(dialogue.services),
        "turns": turns,
    }


def _state_object(state: StateLike) -> dict[str, Any]:
    # A slot without values is not filled; the official program would fail on it.
    return {
        "active_intent": state.active_intent,
        "requested_slots": list(state.requested_slots),
        "slot_values": {s: list(v) for s, v in state.slot_values.items() if v},
    }


@collector_paused()
def read_predictions(folder: PathLike, benchmark: Benchmark) -> Predictions:
    """Reads and checks a folder of predictions.

    Frames and turns that the references lack are ignored and counted. `schema.json` and
    the official evaluator's own output are ignored as well.

    Raises:
        UserError: the folder is missing or has no predictions; a file is not JSON of
            the format; or a dialogue is unknown, repeated, incomplete, or differs from
            the reference in services, speakers, or utterances. The message gives file,
            dialogue, turn, and field.
    """
    found: dict[str, tuple[epath.Path, list[Match]]] = {}
    result = Predictions()
    place = reach(folder, "Name the folder of the JSON files with --predictions.")
    free = {
        service.name: frozenset(s.name for s in service.slots if not s.is_categorical)
        for service in benchmark.schema.services
    }
    for path in _prediction_files(place, result.ignored):
        for item in _dialogue_items(path):
            dialogue_id = _dialogue_id(item, path)
            if dialogue_id not in benchmark.dialogues:
                raise UserError(
                    f"{path}: prediction for unknown dialogue {shown(dialogue_id)}: "
                    f"the split has no such dialogue; "
                    f"{suggestion(dialogue_id, benchmark.dialogues)} "
                    "Check --split and --data_dir."
                )
            if dialogue_id in found:
                raise UserError(
                    f"{path}: dialogue {shown(dialogue_id)} is predicted twice, first "
                    f"in {found[dialogue_id][0]}. Keep one of the two."
                )
            dialogue = benchmark.dialogues[dialogue_id]
            reader = DialogueReader(item, dialogue, path, result.ignored)
            found[dialogue_id] = path, list(reader.frames(free))
    if not found:
        raise UserError(
            f"prediction folder {folder}: its files hold no dialogue. Write "
            "predictions in DSTC8 format (a list of dialogues per file)."
        )
    result.unpredicted = [name for name in benchmark.dialogues if name not in found]
    matches = [
        one for name in benchmark.dialogues if name in found for one in found[name][1]
    ]
    result.references = [one.reference for one in matches]
    result.states = [one.state for one in matches]
    predicted = [one.predicted for one in matches]
    if any(spans is not None for spans in predicted):
        result.spans = [one.annotated for one in matches], predicted
    return result


def _prediction_files(folder: epath.Path, ignored: Counter[str]) -> list[epath.Path]:
    if not folder.is_dir():
        problem = (
            "is a file, expected a folder" if folder.exists() else "does not exist"
        )
        raise UserError(
            f"prediction folder {folder} {problem}. Name the folder that holds the "
            "JSON files with --predictions."
        )
    paths = sorted(folder.glob("*.json"), key=lambda path: path.name)
    chosen = [p for p in paths if p.name not in (_OFFICIAL_OUTPUT, "schema.json")]
    if not chosen:
        raise UserError(
            f"prediction folder {folder} holds no predictions (*.json). Write them in "
            "DSTC8 format, or name another folder with --predictions."
        )
    if len(chosen) < len(paths):
        ignored["files that hold no predictions"] += len(paths) - len(chosen)
    return chosen


def _dialogue_items(path: epath.Path) -> Iterator[Any]:
    """Yields the dialogues of a file; of a list, one at a time is in memory."""
    try:
        for raw in _LIST.decode(read_bytes(path, FIX)):
            yield json_reader.decoded(bytes(raw))
        return
    except (msgspec.DecodeError, json_reader.JsonError, RecursionError):
        data = read_json(path, FIX)  # Names the place of the mistake, if it is one.
    # The official program accepts {dialogue id: dialogue} too.
    if isinstance(data, dict):
        data = list(data.values())
    if not isinstance(data, list):
        raise UserError(
            f"{path}: expected a list of dialogues, got {shown(data)}. {FIX}"
        )
    yield from data


def _dialogue_id(item: Any, path: epath.Path) -> str:
    if not isinstance(item, dict) or not isinstance(item.get("dialogue_id"), str):
        raise UserError(
            f"{path}: expected a dialogue with a 'dialogue_id', got {shown(item)}. "
            f"{FIX}"
        )
    return item["dialogue_id"]


def warn(predictions: Predictions, unknown_slots: int, where: str) -> dict[str, int]:
    """Warns on stderr about everything that was not scored.

    Args:
        predictions: predictions with their references.
        unknown_slots: number of predicted slots that the schema lacks.
        where: beginning of each warning.

    Returns:
        Kind of ignored item -> count. Dialogues without a prediction are not in it.
    """
    counts = dict(predictions.ignored)
    if unknown_slots:
        counts["slots that the schema lacks"] = unknown_slots
    for what, count in counts.items():
        print(f"jaxaug: warning: {where}: ignored {count} {what}", file=sys.stderr)
    missing = predictions.unpredicted
    if missing:
        total = len({r.dialogue_id for r in predictions.references}) + len(missing)
        print(
            f"jaxaug: warning: {where}: {len(missing)} of {total} dialogues have no "
            f"prediction (first: {missing[0]!r}) and are not scored, as in the "
            f"official program",
            file=sys.stderr,
        )
    return counts
