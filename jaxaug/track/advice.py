"""Which descriptions of a schema a tracker misreads, and wordings that it reads better."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from jaxaug.augment import rewording
from jaxaug.augment.descriptions import Description
from jaxaug.data.dialogue import Dialogue, Frame, State, Turn
from jaxaug.data.schema import Schema
from jaxaug.formats.records import Parsed
from jaxaug.track import combine, rewordings
from jaxaug.track.rewordings import Choice, Writers
from jaxaug.track.several import Place
from jaxaug.track.tracker import Tracker


@dataclass(frozen=True, slots=True)
class AdviseOptions:
    """Options of `advise`.

    Attributes:
      wordings: wordings of the schema that dialogues are predicted under, the given one
        included.
      candidates: rewordings of each description that are compared, at most.
      seed: of the draw of the wordings.
    """

    wordings: int = 16
    candidates: int = 7
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises `UserError` if an option is out of range."""
        rewordings.check_least(self, wordings=2, candidates=1, seed=0)


@dataclass(frozen=True, slots=True)
class Option:
    """A text that a description may have.

    Attributes:
      text: the text.
      unknown: number of its words that the training schemas do not have twice.
      agreement: share of the answers under this text that equal the consensus, 0 to 1;
        None if no dialogue tells.
      likelihood: mean log-likelihood of the consensus under the wordings with this text;
        None without dialogues.
    """

    text: str
    unknown: int
    agreement: float | None = None
    likelihood: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What is known of one description.

    Attributes:
      item: the description.
      frames: number of frames that tell something about it.
      agreement: share of all answers that equal the consensus; None if `frames` is 0.
      confused: slot -> how often its value was given to this slot.
      options: the description and its rewordings, the best one first.
    """

    item: Description
    frames: int
    agreement: float | None
    confused: Mapping[str, int]
    options: tuple[Option, ...]

    @property
    def given(self) -> Option:
        """The description as it is."""
        return next(one for one in self.options if one.text == self.item.text)


class _Wording(NamedTuple):
    """What a tracker says under one wording.

    Attributes:
      texts: (service, id of a description) -> its text.
      answers: the states.
      likelihoods: of the consensus.
    """

    texts: Mapping[tuple[str, str], str]
    answers: Mapping[Place, Parsed]
    likelihoods: Mapping[Place, float]


def advise(
    tracker: Tracker,
    dialogues: Sequence[Dialogue],
    known: AbstractSet[str],
    options: AdviseOptions,
    writers: Writers = lambda _: None,
) -> list[Advice]:
    """Returns advice about each description of the tracker's schema, in its order.

    Args:
      tracker: with the schema.
      dialogues: unlabeled; empty for advice by familiarity alone.
      known: words of the training schemas, in the singular.
      options: of the search.
      writers: see `Writers`.
    """

    def unknown(text: str) -> int:
        return rewording.unknown_words(text, known)

    found: dict[str, list[Choice]] = {}
    for service in tracker.schema.services:
        found[service.name] = [
            # Of equally familiar rewordings, the first ones of the grammar.
            Choice(item, (own, *sorted(others, key=unknown)[: options.candidates]))
            for item, (own, *others) in rewordings.choices(service)
        ]
    consensus: dict[Place, Parsed] = {}
    wordings: list[_Wording] = []
    if dialogues:
        consensus, wordings = _asked(tracker, dialogues, found, options, writers)
    return [
        _advice(choice, unknown, consensus, wordings)
        for one in found.values()
        for choice in one
    ]


def _asked(
    tracker: Tracker,
    dialogues: Sequence[Dialogue],
    found: Mapping[str, Sequence[Choice]],
    options: AdviseOptions,
    writers: Writers,
) -> tuple[dict[Place, Parsed], list[_Wording]]:
    """The consensus of all wordings, and what each of them says."""
    draws = {
        name: [{}, *rewordings.drawn(one, options.wordings - 1, options.seed)]
        for name, one in found.items()
    }
    abouts = [
        tracker.about(
            rewordings.worded_schema(
                tracker.schema, {name: one[number] for name, one in draws.items()}
            )
        )
        for number in range(options.wordings)
    ]
    answers = [rewordings.states(about, dialogues, writers) for about in abouts]
    consensus = {
        place: combine.vote([one[place] for one in answers]) for place in answers[0]
    }
    told = with_states(dialogues, consensus)
    wordings = []
    for about, states in zip(abouts, answers, strict=True):
        texts = {
            (service.name, item.id): item.text
            for service in about.schema.services
            for item in rewordings.items_of(service)
        }
        wordings.append(_Wording(texts, states, about.log_likelihoods(told)))
    return consensus, wordings


def with_states(
    dialogues: Sequence[Dialogue], states: Mapping[Place, Parsed]
) -> list[Dialogue]:
    """Returns dialogues with other states; all frames have one in `states`."""
    found = []
    for number, one in enumerate(dialogues):
        turns = []
        for index, turn in enumerate(one.turns):
            frames = []
            for frame in turn.frames:
                state = states[number, index, frame.service]
                values = {slot: tuple(v) for slot, v in state.slot_values.items()}
                told = State(state.active_intent, tuple(state.requested_slots), values)
                frames.append(Frame(frame.service, told))
            turns.append(Turn(turn.speaker, turn.utterance, tuple(frames)))
        found.append(Dialogue(one.dialogue_id, one.services, tuple(turns)))
    return found


def _advice(
    choice: Choice,
    unknown: Callable[[str], int],
    consensus: Mapping[Place, Parsed],
    wordings: Sequence[_Wording],
) -> Advice:
    item = choice.item
    agreed: dict[str, list[bool]] = defaultdict(list)
    likely: dict[str, list[float]] = defaultdict(list)
    confused: Counter[str] = Counter()
    frames = 0
    for place, state in consensus.items():
        if place[2] != item.service:
            continue
        # Frames that no answer fills would agree under any wording.
        tells = any(_about(item, one.answers[place]) for one in wordings)
        frames += tells
        for one in wordings:
            text, answer = one.texts[item.service, item.id], one.answers[place]
            likely[text].append(one.likelihoods[place])
            if tells:
                agreed[text].append(_part(item, answer) == _part(item, state))
            if item.kind == "slot":
                confused.update(owners(item.name, answer, state))
    every = [same for found in agreed.values() for same in found]
    options = [
        Option(text, unknown(text), _mean(agreed[text]), _mean(likely[text]))
        for text in choice.texts
    ]
    ranked = tuple(sorted(options, key=rank))
    return Advice(item, frames, _mean(every), dict(confused.most_common()), ranked)


def _about(item: Description, answer: Parsed) -> bool:
    """Whether an answer says something about a description."""
    if item.kind == "intent":
        return answer.active_intent == item.name
    return item.kind == "service" or item.name in answer.slot_values


def _part(item: Description, answer: Parsed) -> object:
    """The part of an answer that a description is about."""
    if item.kind == "slot":
        return combine.folded(answer.slot_values.get(item.name, ()))
    return answer.active_intent if item.kind == "intent" else combine.key(answer)


def owners(slot: str, answer: Parsed, consensus: Parsed) -> list[str]:
    """Returns the slots whose value an answer gives to another slot.

    Args:
      slot: that is looked at.
      answer: may give it a wrong value.
      consensus: tells the values of all slots.
    """
    given = combine.folded(answer.slot_values.get(slot, ()))
    if not given or given == combine.folded(consensus.slot_values.get(slot, ())):
        return []
    return [
        other
        for other, values in consensus.slot_values.items()
        if other != slot and combine.folded(values) == given
    ]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def rank(option: Option) -> tuple[float, ...]:
    """Returns the sort key of an option: by expected accuracy, best first."""
    return option.unknown, -(option.likelihood or 0.0)


def advised(schema: Schema, advice: Sequence[Advice]) -> Schema:
    """Returns the schema with the best option of each description; names stay."""
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    for one in advice:
        texts[one.item.service][one.item.id] = one.options[0].text
    return rewordings.worded_schema(schema, texts)
