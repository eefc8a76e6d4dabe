"""Scores of slot values, predicted against annotated.

Values are compared as by fuzzywuzzy in the official program. rapidfuzz's
`default_process`, which thefuzz uses too, turns an underscore into a blank and drops
the dot of U+0130; fuzzywuzzy keeps both.

All distinct (annotated values, predicted value) pairs are scored once, and frames are
reduced by array segments. This avoids a loop over every slot of every frame.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float
from rapidfuzz import fuzz, process

# fuzzywuzzy calls this table "force ASCII". It removes only Latin-1, so a typographic
# quote (U+2019) remains and becomes a blank.
_LATIN_1 = dict.fromkeys(range(128, 256))
_NO_WORD = re.compile(r"\W")


class StateLike(Protocol):
    """Interface of a prediction, such as `data.sgd.State`."""

    @property
    def active_intent(self) -> str: ...
    @property
    def requested_slots(self) -> Sequence[str]: ...
    @property
    def slot_values(self) -> Mapping[str, Sequence[str]]: ...


class Reference(NamedTuple):
    """One annotated user frame."""

    dialogue_id: str
    turn: int  # Index in the dialogue's turns.
    service: str
    state: StateLike


def normalise(value: str) -> str:
    """Returns the form in which two values are compared.

    >>> normalise("Café, 5 pm!")
    'caf  5 pm'
    """
    return _NO_WORD.sub(" ", value.translate(_LATIN_1)).lower().strip()


def match_values(
    references: Sequence[Sequence[str]], predictions: Sequence[str], exact: bool = False
) -> Float[np.ndarray, " pairs"]:
    """Scores each predicted value against its alternatives, in [0, 1].

    Args:
        references: annotated values of each pair, at least one per pair.
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
    # float64, because in the default float32 a ratio just under .5 would round up.
    ratio = process.cpdist(left, right, scorer=fuzz.token_sort_ratio, dtype=np.float64)
    sizes = np.array([len(values) for values in references])
    starts = np.cumsum(sizes) - sizes
    return np.maximum.reduceat(np.rint(ratio) / 100.0, starts)


@dataclass(slots=True)
class Entries:
    """Slots that at least one side fills, frame after frame, as flat columns.

    Attributes:
        pair: index of the value pair, or `MISSED` or `SPURIOUS`.
        pairs: (is categorical, annotated values, first predicted value) -> its index.
        unknown: number of predicted slots that the service lacks; they have no entry.
    """

    frame: list[int]
    slot: list[str]
    categorical: list[bool]
    pair: list[int]
    pairs: dict[tuple[bool, Sequence[str], str], int]
    unknown: int = 0

    def scores(self, exact: bool = False) -> Float[np.ndarray, " entries"]:
        """Returns the score of each entry in [0, 1]; 0 if one side is empty."""
        pair = np.array(self.pair, np.int64)
        found = np.zeros(len(pair))
        found[pair >= 0] = pair_scores(self.pairs, exact)[pair[pair >= 0]]
        return found


# Entries without a pair: annotated but not predicted, and predicted but not annotated.
MISSED, SPURIOUS = -2, -1


def collect(
    references: Sequence[Reference],
    predictions: Sequence[StateLike],
    categorical: Mapping[str, Mapping[str, bool]],
) -> Entries:
    """Collects the slots that either side fills.

    Args:
        categorical: service -> slot -> whether it is categorical.
    """
    entries = Entries([], [], [], [], {})
    add_frame, add_slot = entries.frame.append, entries.slot.append
    add_kind, add_pair = entries.categorical.append, entries.pair.append
    pairs = entries.pairs
    for index, (reference, prediction) in enumerate(
        zip(references, predictions, strict=True)
    ):
        kinds = categorical[reference.service]
        annotated, predicted = reference.state.slot_values, prediction.slot_values
        for slot, values in annotated.items():
            add_frame(index)
            add_slot(slot)
            add_kind(kinds[slot])
            guess = predicted.get(slot)
            if guess:
                pair = (kinds[slot], values, guess[0])
                add_pair(pairs.setdefault(pair, len(pairs)))
            else:
                add_pair(MISSED)
        if predicted.keys() <= annotated.keys():
            continue
        for slot, guess in predicted.items():
            if slot not in kinds:
                entries.unknown += 1
            elif guess and slot not in annotated:
                add_frame(index)
                add_slot(slot)
                add_kind(kinds[slot])
                add_pair(SPURIOUS)
    return entries


def pair_scores(
    pairs: Collection[tuple[bool, Sequence[str], str]], exact: bool
) -> Float[np.ndarray, " pairs"]:
    """Returns the score of each (is categorical, annotated values, predicted value)."""
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
