"""References of a benchmark: annotated frames, schema, and seen services."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.garbage import paused
from jaxaug.data.schema import Schema
from jaxaug.data.sgd import Dialogue, Frame, State, Turn, read_dialogues, read_schema_of
from jaxaug.metrics.dst import JGA, FrameScores
from jaxaug.metrics.sensitivity import GROUPS, FrameId, GroupScores
from jaxaug.metrics.slot_scores import Reference

# Identifies a frame: (dialogue id, index of the turn, service name in the scored
# schema).
FrameKey = tuple[str, int, str]


@dataclass(frozen=True)
class Wording:
    """One wording of the schema of a split.

    Attributes:
        original_name: service -> its name in the original schema.
        seen: original names of the split's services that are also in the train schema.
    """

    schema: Schema
    original_name: Mapping[str, str]
    seen: frozenset[str]

    @property
    def seen_services(self) -> frozenset[str]:
        """Names of the seen services in the scored schema."""
        return frozenset(
            name for name, old in self.original_name.items() if old in self.seen
        )


@dataclass(frozen=True)
class Benchmark(Wording):
    """One split under one wording of its schema, with its dialogues by id."""

    dialogues: Mapping[str, Dialogue]

    def reference(self, key: FrameKey) -> Reference:
        """Returns the annotated frame of a dialogue, turn, and service.

        Raises:
            UserError: the split has no such frame.
        """
        dialogue_id, turn, service = key
        dialogue = self.dialogues.get(dialogue_id)
        if dialogue and 0 <= turn < len(dialogue.turns):
            for frame, state in scored_frames(dialogue.turns[turn]):
                if frame.service == service:
                    return Reference(dialogue_id, turn, service, state)
        raise UserError(
            f"dialogue {dialogue_id!r}, turn {turn}: the references have no user frame "
            f"of service {service!r}. Predict the split, variant and data folder that "
            "are evaluated."
        )


def scored_frames(turn: Turn) -> list[tuple[Frame, State]]:
    """Returns the scored frames of a turn: user frames that have a state."""
    if turn.speaker != "USER":
        return []
    return [(frame, frame.state) for frame in turn.frames if frame.state is not None]


def references_of(dialogues: Iterable[Dialogue]) -> list[Reference]:
    """Returns all scored frames, dialogue by dialogue."""
    return [
        Reference(dialogue.dialogue_id, index, frame.service, state)
        for dialogue in dialogues
        for index, turn in enumerate(dialogue.turns)
        for frame, state in scored_frames(turn)
    ]


def open_split(
    data_dir: PathLike,
    split: str,
    variant: str | None = None,
    variants_dir: PathLike | None = None,
) -> tuple[Wording, Iterator[Dialogue]]:
    """Returns a wording of a split, and a stream of its dialogues in its names.

    Raises:
        UserError: the data cannot be read; for a dialogue file when it is reached.
    """
    original = read_schema_of(data_dir, split)
    schema = original
    if variant is not None:
        schema = read_schema_of(data_dir, split, variant, variants_dir)
    train = {service.name for service in read_schema_of(data_dir, "train").services}
    dialogues = read_dialogues(data_dir, split, variant, variants_dir)
    # SGD-X variants keep the order of the services.
    names = {
        new.name: old.name
        for old, new in zip(original.services, schema.services, strict=True)
    }
    wording = Wording(schema, names, frozenset(train & set(names.values())))
    return wording, dialogues


@paused()
def load(
    data_dir: PathLike,
    split: str,
    variant: str | None = None,
    variants_dir: PathLike | None = None,
) -> Benchmark:
    """Reads the references of a split, renamed to a variant of its schema.

    Raises:
        UserError: the data cannot be read.
    """
    wording, dialogues = open_split(data_dir, split, variant, variants_dir)
    found = {dialogue.dialogue_id: _scored(dialogue) for dialogue in dialogues}
    return Benchmark(wording.schema, wording.original_name, wording.seen, found)


def _scored(dialogue: Dialogue) -> Dialogue:
    """Returns the dialogue without actions and results, to save memory."""
    turns = [
        Turn(
            turn.speaker,
            turn.utterance,
            tuple([Frame(one.service, one.state, one.slots) for one in turn.frames]),
        )
        for turn in dialogue.turns
    ]
    return Dialogue(dialogue.dialogue_id, dialogue.services, tuple(turns))


def group_scores(
    wording: Wording,
    keys: Iterable[FrameKey],
    scores: FrameScores,
    joint_across_turn: bool = False,
) -> GroupScores:
    """Returns the joint goal accuracy of each frame, for `sensitivity.robustness`.

    `keys` are the frames of `scores` in their order.

    With `joint_across_turn` the accuracies of a turn's frames are multiplied. In the
    groups of seen and unseen services only their frames count. The turn then has an
    empty service name.
    """
    groups: dict[str, dict[FrameId, float]] = {group: {} for group in GROUPS}
    values = scores.values[JGA].tolist()
    for (dialogue_id, turn, name), value in zip(keys, values, strict=True):
        service = wording.original_name[name]
        status = "_seen" if service in wording.seen else "_unseen"
        frame = dialogue_id, turn, "" if joint_across_turn else service
        for group in ("", status):
            if not joint_across_turn:
                groups[group][frame] = value
            elif not math.isnan(value):
                groups[group][frame] = groups[group].get(frame, 1.0) * value
    return groups
