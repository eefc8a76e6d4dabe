"""Dialogue-state metrics, as the official evaluator of Schema-Guided Dialogue has them.

Definitions (Rastogi et al., 2020, section 5, and the program published with it),
each per user frame, then averaged over the frames of a group:

- a categorical slot scores 1 if the first predicted value is the first annotated
  one; a non-categorical slot scores the best fuzzy match of the first predicted
  value against all annotated ones; a slot that only one side fills scores 0, one
  that neither fills scores 1;
- joint goal accuracy is the product over the slots of the frame's service, average
  goal accuracy the mean over the annotated slots; the ``cat`` and ``noncat`` forms
  restrict the slots. A frame without such slots is undefined and left out;
- requested slots and span tags are multisets; precision and recall over an empty
  denominator are 1.

Values are compared as the official program's fuzzywuzzy does. (rapidfuzz's
`default_process`, and thefuzz with it, make an underscore a blank and drop the dot of
U+0130; fuzzywuzzy keeps both.)

Instead of walking every slot of every frame, all distinct (annotated values,
predicted value) pairs are scored once and frames are reduced by array segments.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int
from rapidfuzz import fuzz, process

from jaxaug.data.schema import Schema
from jaxaug.metrics.collector import collector_paused

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
    "U+00FF, putting blanks for what is no letter, digit or underscore, and lower-casing; "
    "with --exact: 1 if equal, else 0",
    "average_goal_accuracy": "mean slot score over the annotated slots of a frame; "
    "frames without any are left out",
    "requested_slots_f1": "multiset F1 per frame; empty against empty is 1",
    "seen service": "a service that the train schema has too",
    "domain": "the part of the service name before the first underscore",
}

# The table that fuzzywuzzy calls "force ASCII": it removes Latin-1 only, so a
# typographic quote (U+2019) is still there to become a blank.
_LATIN_1 = dict.fromkeys(range(128, 256))
_NO_WORD = re.compile(r"\W")


class StateLike(Protocol):
    """What a prediction must offer; `data.sgd.State` and the parsers' results do."""

    @property
    def active_intent(self) -> str: ...
    @property
    def requested_slots(self) -> Sequence[str]: ...
    @property
    def slot_values(self) -> Mapping[str, Sequence[str]]: ...


class Reference(NamedTuple):
    """One annotated user frame."""

    dialogue_id: str
    turn: int  # index in the dialogue's turns
    service: str
    state: StateLike


@dataclass(frozen=True, slots=True)
class FrameScores:
    """Metric values of every frame; NaN where a metric is undefined.

    Attributes:
      values: metric name -> [frames] array.
      service: index into `services` of every frame.
      turn: the same number for all frames of one turn of one dialogue.
      unknown_slots: predicted slots that the service lacks (ignored, as officially).
    """

    services: tuple[str, ...]
    service: Int[np.ndarray, " frames"]
    turn: Int[np.ndarray, " frames"]
    values: Mapping[str, Float[np.ndarray, " frames"]]
    unknown_slots: int

    def __len__(self) -> int:
        return len(self.service)


def normalise(value: str) -> str:
    """The form in which two values are compared.

    >>> normalise("Café, 5 pm!")
    'caf  5 pm'
    """
    return _NO_WORD.sub(" ", value.translate(_LATIN_1)).lower().strip()


def match_values(
    references: Sequence[Sequence[str]], predictions: Sequence[str], exact: bool = False
) -> Float[np.ndarray, " pairs"]:
    """Score in [0, 1] of each predicted value against its alternatives.

    Args:
      references: the annotated values of each pair, at least one per pair.
      predictions: the predicted value of each pair.
      exact: compare strings for equality instead of fuzzily.

    Returns:
      The best score over the alternatives of each pair.
    """
    if not predictions:
        return np.zeros(0)
    if exact:
        pairs = zip(references, predictions, strict=True)
        return np.array([float(value in values) for values, value in pairs])
    known: dict[str, str] = {}

    def normal(value: str) -> str:
        if value not in known:
            known[value] = normalise(value)
        return known[value]

    left = [normal(value) for values in references for value in values]
    right = [
        normal(value)
        for values, value in zip(references, predictions, strict=True)
        for _ in values
    ]
    # float64: in the default float32 a ratio just under .5 would round up.
    ratio = process.cpdist(left, right, scorer=fuzz.token_sort_ratio, dtype=np.float64)
    sizes = np.array([len(values) for values in references])
    starts = np.cumsum(sizes) - sizes
    return np.maximum.reduceat(np.rint(ratio) / 100.0, starts)


@dataclass(slots=True)
class _Entries:
    """The slots that at least one side fills, frame after frame, as flat columns."""

    frame: list[int]
    categorical: list[bool]
    pair: list[int]  # index of the value pair, or one of the two below
    pairs: dict[tuple[bool, Sequence[str], str], int]
    unknown: int = 0


# Entries without a pair: annotated but not predicted, predicted but not annotated.
_MISSED, _SPURIOUS = -2, -1


def _collect(
    references: Sequence[Reference],
    predictions: Sequence[StateLike],
    categorical: Mapping[str, Mapping[str, bool]],
) -> _Entries:
    entries = _Entries([], [], [], {})
    add_frame, add_kind = entries.frame.append, entries.categorical.append
    add_pair, pairs = entries.pair.append, entries.pairs
    for index, (reference, prediction) in enumerate(
        zip(references, predictions, strict=True)
    ):
        kinds = categorical[reference.service]
        annotated, predicted = reference.state.slot_values, prediction.slot_values
        for slot, values in annotated.items():
            add_frame(index)
            add_kind(kinds[slot])
            guess = predicted.get(slot)
            if guess:
                pair = (kinds[slot], values, guess[0])
                add_pair(pairs.setdefault(pair, len(pairs)))
            else:
                add_pair(_MISSED)
        if predicted.keys() <= annotated.keys():
            continue
        for slot, guess in predicted.items():
            if slot not in kinds:
                entries.unknown += 1
            elif guess and slot not in annotated:
                add_frame(index)
                add_kind(kinds[slot])
                add_pair(_SPURIOUS)
    return entries


def _pair_scores(
    pairs: Collection[tuple[bool, Sequence[str], str]], exact: bool
) -> Float[np.ndarray, " pairs"]:
    scores = np.empty(len(pairs))
    free: list[int] = []
    for index, (categorical, values, guess) in enumerate(pairs):
        if categorical:
            scores[index] = values[0] == guess
        else:
            free.append(index)
    ordered = list(pairs)
    scores[free] = match_values(
        [ordered[i][1] for i in free], [ordered[i][2] for i in free], exact
    )
    return scores


def _goal_scores(
    entries: _Entries, has: Bool[np.ndarray, "2 frames"], exact: bool
) -> dict[str, Float[np.ndarray, " frames"]]:
    """Joint and average accuracies; `has` = the service has (cat, noncat) slots."""
    frames = has.shape[1]
    frame = np.array(entries.frame, np.int64)
    pair = np.array(entries.pair, np.int64)
    categorical = np.array(entries.categorical, bool)
    score = np.zeros(len(frame))
    score[pair >= 0] = _pair_scores(entries.pairs, exact)[pair[pair >= 0]]
    annotated = pair != _SPURIOUS
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
    """F1, precision and recall of each predicted multiset; NaN where it is None.

    Equal pairs are scored once: almost all frames request nothing.
    """
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
    """Distinct items in order of appearance, and the number of each item."""
    known: dict = {}
    codes = [known.setdefault(item, len(known)) for item in items]
    return tuple(known), np.array(codes, np.int64)


@collector_paused()
def frame_scores(
    references: Sequence[Reference],
    predictions: Sequence[StateLike],
    schema: Schema,
    exact: bool = False,
    tags: tuple[Sequence[tuple], Sequence[tuple | None]] | None = None,
) -> FrameScores:
    """Every metric of every frame.

    Args:
      references: the annotated frames, in any order.
      predictions: the predicted state of each of them.
      schema: the schema that both sides name their slots by.
      exact: string equality instead of fuzzy match for non-categorical slots.
      tags: annotated and predicted (slot, text) spans of non-categorical slots per
        frame, None where nothing was tagged; adds the slot_tagging metrics.

    Returns:
      A `FrameScores` in the order of `references`.

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
    entries = _collect(references, predictions, kinds)
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
    """Product of the defined values of each turn; turns without any are left out."""
    defined = ~np.isnan(values)
    values, turn = values[defined], turn[defined]
    if not len(turn):
        return values
    order = np.argsort(turn, kind="stable")
    starts = np.flatnonzero(np.diff(turn[order], prepend=-1))
    return np.multiply.reduceat(values[order], starts)


def _groups(
    scores: FrameScores, is_seen: Callable[[str], bool]
) -> dict[str, Int[np.ndarray, " members"]]:
    """Frames of each key of the report, as the official program names them."""
    members: dict[str, list[int]] = {}
    for index, name in enumerate(scores.services):
        seen = SEEN_SERVICES if is_seen(name) else UNSEEN_SERVICES
        # A set: a service without an underscore is its own domain.
        for key in {ALL_SERVICES, seen, name, name.split("_")[0]}:
            members.setdefault(key, []).append(index)
    return {
        key: np.flatnonzero(np.isin(scores.service, indices))
        for key, indices in sorted(members.items())
    }


def aggregate(
    scores: FrameScores,
    seen_services: Collection[str],
    joint_across_turn: bool = False,
) -> dict[str, dict[str, float]]:
    """Means over all, seen and unseen services, each service and each domain.

    Args:
      scores: of `frame_scores`.
      seen_services: services, named as in the scored schema, that training had too.
      joint_across_turn: multiply the joint accuracies over the frames of a turn
        first (the MultiWOZ way) and average over turns.

    Returns:
      group -> metric -> mean. As in the official program, a group without frames
      and a metric that no frame of a group defines have no entry.
    """
    seen = frozenset(seen_services)
    report: dict[str, dict[str, float]] = {}
    for key, frames in _groups(scores, seen.__contains__).items():
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
