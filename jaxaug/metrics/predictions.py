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

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, shown, write_text
from jaxaug.core.garbage import paused
from jaxaug.core.suggestion import suggestion
from jaxaug.data.sgd import Dialogue, State
from jaxaug.metrics.benchmark import Benchmark, FrameKey, Wording, scored_frames
from jaxaug.metrics.matching import DialogueReader, Match, Span
from jaxaug.metrics.prediction_files import PredictionFolder
from jaxaug.metrics.slot_scores import Reference, StateLike


@dataclass
class Summary:
    """Missing and unscored parts of a folder of predictions.

    Attributes:
        unpredicted: ids of annotated dialogues without a prediction; as in the official
            program they are not scored.
        ignored: kind of ignored item -> count.
    """

    dialogues: int = 0
    unpredicted: list[str] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)


@dataclass
class Frames:
    """Predicted states with their references; `predicted` is None without tags."""

    references: list[Reference] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    annotated: list[tuple[Span, ...]] = field(default_factory=list)
    predicted: list[tuple[Span, ...] | None] = field(default_factory=list)

    @property
    def spans(self) -> tuple[list, list] | None:
        """Both lists of spans (see `frame_scores`); None if no frame has any tags."""
        if any(spans is not None for spans in self.predicted):
            return self.annotated, self.predicted
        return None

    def add(self, matches: Iterable[Match]) -> None:
        for match in matches:
            self.references.append(match.reference)
            self.states.append(match.state)
            self.annotated.append(match.annotated)
            self.predicted.append(match.predicted)


@dataclass
class Predictions(Frames, Summary):
    """All predictions of a folder, in memory."""


@dataclass
class Block(Frames):
    """The predictions of some dialogues, with dialogue id -> annotated dialogue."""

    dialogues: dict[str, Dialogue] = field(default_factory=dict)


def write_predictions(
    path: PathLike, dialogues: Iterable[Dialogue], states: Mapping[FrameKey, StateLike]
) -> list[str]:
    """Writes one DSTC8 file, under a temporary name first.

    A dialogue is left out if one of its frames has no state, because the official
    evaluator refuses it.

    Args:
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


@paused()
def read_predictions(folder: PathLike, benchmark: Benchmark) -> Predictions:
    """Reads and checks a folder of predictions; see `stream`."""
    result = Predictions()
    for block in stream(folder, benchmark, benchmark.dialogues.values(), result):
        result.references += block.references
        result.states += block.states
        result.annotated += block.annotated
        result.predicted += block.predicted
    return result


def stream(
    folder: PathLike,
    wording: Wording,
    dialogues: Iterable[Dialogue],
    summary: Summary,
    size: int = 128,
) -> Iterator[Block]:
    """Yields the predictions of a folder with their references, some dialogues a block.

    The annotated dialogues determine the order. If the predictions have the same order,
    one block is in memory; otherwise, also the text of predictions that are read too
    early.

    Frames and turns that the references lack are ignored and counted. `schema.json` and
    the official evaluator's own output are ignored as well.

    Args:
        summary: receives what was not scored; complete at the end of the stream.
        size: number of dialogues of a block; the last one may be smaller.

    Raises:
        UserError: the folder is missing or has no predictions; a file is not JSON of
            the format; or a dialogue is unknown, repeated, incomplete, or differs from
            the reference in services, speakers, or utterances. The message gives file,
            dialogue, turn, and field.
    """
    found = PredictionFolder(folder, summary.ignored)
    free = {
        service.name: frozenset(s.name for s in service.slots if not s.is_categorical)
        for service in wording.schema.services
    }
    items, early, known = found.items(), {}, dict.fromkeys(found.file_of, False)
    names, block = [], Block()
    for dialogue in dialogues:
        name = dialogue.dialogue_id
        names.append(name)
        if name not in known:
            summary.unpredicted.append(name)
            continue
        known[name] = True
        while name not in early:
            other, item = next(items)
            early[other] = item
        reader = DialogueReader(
            found.value(name, early.pop(name)),
            dialogue,
            found.file_of[name],
            summary.ignored,
        )
        block.add(reader.frames(free))
        block.dialogues[name] = dialogue
        summary.dialogues += 1
        if len(block.dialogues) == size:
            yield block
            block = Block()
    for name, is_known in known.items():
        if not is_known:
            raise UserError(
                f"{found.file_of[name]}: prediction for unknown dialogue {shown(name)}:"
                f" the split has no such dialogue; {suggestion(name, names)} "
                "Check --split and --data_dir."
            )
    yield block


def warn(summary: Summary, unknown_slots: int, where: str) -> dict[str, int]:
    """Warns on stderr about everything that was not scored.

    Returns:
        Kind of ignored item -> count. Dialogues without a prediction are not in it.
    """
    counts = dict(summary.ignored)
    if unknown_slots:
        counts["slots that the schema lacks"] = unknown_slots
    for what, count in counts.items():
        print(f"jaxaug: warning: {where}: ignored {what}: {count}", file=sys.stderr)
    missing = summary.unpredicted
    if missing:
        total = summary.dialogues + len(missing)
        print(
            f"jaxaug: warning: {where}: {len(missing)} of {total} dialogues have no "
            f"prediction (first: {missing[0]!r}) and are not scored, as in the "
            f"official program",
            file=sys.stderr,
        )
    return counts
