"""Dialogue-state metrics of the official Schema-Guided Dialogue evaluator.

The definitions (Rastogi et al., 2020, section 5, and the published program) apply per
user frame; the values are then averaged over the frames of a group:

- A categorical slot scores 1 if the first predicted value is the first annotated one. A
  non-categorical slot scores the best fuzzy match of the first predicted value with any
  annotated one. A slot that only one side fills scores 0; a slot that neither fills
  scores 1.
- Joint goal accuracy is the product over the slots of the frame's service. Average goal
  accuracy is the mean over the annotated slots. The ``cat`` and ``noncat`` forms
  restrict the slots. A frame without such slots is undefined and left out.
- Requested slots and span tags are multisets; precision and recall over an empty
  denominator are 1.

`slot_scores` compares values.
"""

import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxaug.core.garbage import paused
from jaxaug.data.schema import Schema
from jaxaug.metrics.slot_scores import SPURIOUS, Entries, Reference, StateLike, collect

ALL_SERVICES = "#ALL_SERVICES"
SEEN_SERVICES = "#SEEN_SERVICES"
UNSEEN_SERVICES = "#UNSEEN_SERVICES"
JGA = "joint_goal_accuracy"
_JOINT = (JGA, "joint_cat_accuracy", "joint_noncat_accuracy")
_AVERAGE = ("average_goal_accuracy", "average_cat_accuracy", "average_noncat_accuracy")
_REQUESTED = tuple(f"requested_slots_{x}" for x in ("f1", "precision", "recall"))
_TAGGING = tuple(f"slot_tagging_{x}" for x in ("f1", "precision", "recall"))

DEFINITIONS = {
    "joint_goal_accuracy": "mean over user frames of the product of the slot scores "
    "of the frame's service",
    "slot score": "categorical: 1 if the first predicted value equals the first "
    "annotated one, else 0; non-categorical: the best match of the first predicted "
    "value with any annotated one; filled on one side only: 0; on neither: 1",
    "match": "round(rapidfuzz.fuzz.token_sort_ratio) / 100 after removing U+0080 to "
    "U+00FF, putting blanks for what is no letter, digit or underscore, and "
    "lower-casing; with --exact: 1 if equal, else 0",
    "average_goal_accuracy": "mean slot score over the annotated slots of a frame; "
    "frames without any are left out",
    "requested_slots_f1": "multiset F1 per frame; empty against empty is 1",
    "seen service": "a service that the train schema has too",
    "domain": "the part of the service name before the first underscore",
}


@dataclass(frozen=True, slots=True)
class FrameScores:
    """Metric values of every frame; NaN if a metric is undefined.

    Attributes:
        turn: the same number for all frames of one turn of one dialogue.
        values: metric name -> [frames] array.
        unknown_slots: number of predicted slots that the service lacks (ignored, as
            officially).
    """

    services: tuple[str, ...]
    service: Int[np.ndarray, " frames"]
    turn: Int[np.ndarray, " frames"]
    values: Mapping[str, Float[np.ndarray, " frames"]]
    unknown_slots: int

    def __len__(self) -> int:
        return len(self.service)


def joined(parts: Iterable[FrameScores]) -> FrameScores:
    """Returns the frames of all parts, which must not share a turn.

    A part is not needed after the next one is requested. A metric that a part lacks is
    NaN there.
    """
    known: dict[str, int] = {}
    # They grow in place: a second copy of all values would double the memory.
    service, turn = array.array("q"), array.array("q")
    columns: dict[str, array.array] = {}
    turns = unknown = 0
    for part in parts:
        missing, before = np.full(len(part), np.nan), len(service)
        for name in dict.fromkeys((*columns, *part.values)):
            empty = array.array("d", [np.nan]) * before
            column = columns.setdefault(name, empty)
            column.frombytes(part.values.get(name, missing).tobytes())
        places = [known.setdefault(name, len(known)) for name in part.services]
        service.frombytes(np.array(places, np.int64)[part.service].tobytes())
        turn.frombytes((part.turn + turns).tobytes())
        turns += 1 + part.turn.max(initial=-1)
        unknown += part.unknown_slots
    return FrameScores(
        tuple(known),
        np.frombuffer(service, np.int64),
        np.frombuffer(turn, np.int64),
        {name: np.frombuffer(column) for name, column in columns.items()},
        unknown,
    )


def _goal_scores(
    entries: Entries, has: Bool[np.ndarray, "2 frames"], exact: bool
) -> dict[str, Float[np.ndarray, " frames"]]:
    """Returns joint and average accuracies."""
    frames = has.shape[1]
    frame = np.array(entries.frame, np.int64)
    pair = np.array(entries.pair, np.int64)
    categorical = np.array(entries.categorical, bool)
    score = entries.scores(exact)
    annotated = pair != SPURIOUS
    starts = np.flatnonzero(np.diff(frame, prepend=-1))
    everything = np.ones_like(categorical)
    result = {}
    for joint, average, chosen, exists in (
        (_JOINT[0], _AVERAGE[0], everything, has[0] | has[1]),
        (_JOINT[1], _AVERAGE[1], categorical, has[0]),
        (_JOINT[2], _AVERAGE[2], ~categorical, has[1]),
    ):
        product = np.where(exists, 1.0, np.nan)
        if len(frame):
            factors = np.where(chosen, score, 1.0)
            product[frame[starts]] *= np.multiply.reduceat(factors, starts)
        weight = (annotated & chosen).astype(float)
        total = np.bincount(frame, weight * score, minlength=frames)
        count = np.bincount(frame, weight, minlength=frames)
        result[joint] = product
        result[average] = np.divide(
            total, count, out=np.full(frames, np.nan), where=count > 0
        )
    return result


def _multiset_f1(
    reference: Sequence, prediction: Sequence
) -> tuple[float, float, float]:
    rest = list(reference)
    hits = 0
    for item in prediction:
        if item in rest:
            rest.remove(item)
            hits += 1
    precision = hits / len(prediction) if prediction else 1.0
    recall = hits / len(reference) if reference else 1.0
    both = precision + recall
    return (2 * precision * recall / both if both else 0.0), precision, recall


def multiset_scores(
    references: Sequence[tuple], predictions: Sequence[tuple | None]
) -> Float[np.ndarray, "3 frames"]:
    """Returns F1, precision, and recall of multisets; NaN if it is None."""
    known: dict[tuple, int] = {}
    rows = [
        known.setdefault((reference, prediction), len(known))
        for reference, prediction in zip(references, predictions, strict=True)
    ]
    nothing = (np.nan, np.nan, np.nan)
    table = np.array(
        [nothing if p is None else _multiset_f1(r, p) for r, p in known]
    ).reshape(-1, 3)
    return table[np.array(rows, np.int64)].T


def _identify(items: Sequence) -> tuple[tuple, Int[np.ndarray, " items"]]:
    """Returns distinct items in order of appearance, and the number of each item."""
    known: dict = {}
    codes = [known.setdefault(item, len(known)) for item in items]
    return tuple(known), np.array(codes, np.int64)


@paused()
def frame_scores(
    references: Sequence[Reference],
    predictions: Sequence[StateLike],
    schema: Schema,
    exact: bool = False,
    tags: tuple[Sequence[tuple], Sequence[tuple | None]] | None = None,
) -> FrameScores:
    """Computes every metric of every frame.

    Args:
        exact: string equality instead of fuzzy match for non-categorical slots.
        tags: annotated and predicted (slot, text) spans of non-categorical slots per
            frame, None if nothing was tagged; adds the slot_tagging metrics.

    Raises:
        UserError: a reference names a service that the schema lacks.
    """
    services, service = _identify([reference.service for reference in references])
    kinds = {
        name: {slot.name: slot.is_categorical for slot in schema.service(name).slots}
        for name in services
    }
    has = np.array(
        [[flag in kinds[name].values() for name in services] for flag in (True, False)],
        bool,
    ).reshape(2, -1)[:, service]
    entries = collect(references, predictions, kinds)
    values = _goal_scores(entries, has, exact)
    values["active_intent_accuracy"] = np.array(
        [
            float(reference.state.active_intent == prediction.active_intent)
            for reference, prediction in zip(references, predictions, strict=True)
        ]
    )
    requested = multiset_scores(
        [tuple(reference.state.requested_slots) for reference in references],
        [tuple(prediction.requested_slots) for prediction in predictions],
    )
    values.update(zip(_REQUESTED, requested, strict=True))
    if tags is not None:
        values.update(zip(_TAGGING, multiset_scores(*tags), strict=True))
    _, turn = _identify([(r.dialogue_id, r.turn) for r in references])
    return FrameScores(services, service, turn, values, entries.unknown)


def per_turn_product(
    values: Float[np.ndarray, " frames"], turn: Int[np.ndarray, " frames"]
) -> Float[np.ndarray, " turns"]:
    """Returns the product of the defined values per turn; skips turns without any."""
    defined = ~np.isnan(values)
    values, turn = values[defined], turn[defined]
    if not len(turn):
        return values
    order = np.argsort(turn, kind="stable")
    starts = np.flatnonzero(np.diff(turn[order], prepend=-1))
    return np.multiply.reduceat(values[order], starts)


def _groups(
    scores: FrameScores, is_seen: Callable[[str], bool]
) -> Iterator[tuple[str, Int[np.ndarray, " members"]]]:
    """Yields the frames of each report key, named as in the official program."""
    members: dict[str, list[int]] = {}
    for index, name in enumerate(scores.services):
        seen = SEEN_SERVICES if is_seen(name) else UNSEEN_SERVICES
        # A set, because a service without an underscore is its own domain.
        for key in {ALL_SERVICES, seen, name, name.split("_")[0]}:
            members.setdefault(key, []).append(index)
    for key, indices in sorted(members.items()):
        yield key, np.flatnonzero(np.isin(scores.service, indices))


def aggregate(
    scores: FrameScores, seen_services: Collection[str], joint_across_turn: bool = False
) -> dict[str, dict[str, float]]:
    """Returns means over all, seen, and unseen services, and per service and domain.

    Args:
        seen_services: names, in the scored schema, of services that are also in
            training.
        joint_across_turn: whether to multiply the joint accuracies over the frames of a
            turn first (as in MultiWOZ) and average over turns.

    Returns:
        group -> metric -> mean. As in the official program, a group without frames and
        a metric that is undefined for all frames of a group have no entry.
    """
    seen = frozenset(seen_services)
    report: dict[str, dict[str, float]] = {}
    for key, frames in _groups(scores, seen.__contains__):
        means = {}
        for name, values in scores.values.items():
            chosen = values[frames]
            if joint_across_turn and name in _JOINT:
                chosen = per_turn_product(chosen, scores.turn[frames])
            else:
                chosen = chosen[~np.isnan(chosen)]
            if len(chosen):
                means[name] = float(np.mean(chosen))
        report[key] = means
    return report
