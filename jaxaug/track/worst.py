"""Faithful wordings of a schema under which a tracker fails most.

The search changes one description at a time. It keeps the wordings under which the
annotated answers are least likely, and is measured on other dialogues.
"""

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxaug.core.errors import UserError
from jaxaug.data.dialogue import Dialogue, Turn
from jaxaug.data.schema import Schema, Service
from jaxaug.formats.records import Parsed
from jaxaug.metrics import benchmark, dst
from jaxaug.metrics.benchmark import Benchmark
from jaxaug.track import combine, rewordings
from jaxaug.track.rewordings import Choice, Texts, Writers
from jaxaug.track.several import Place
from jaxaug.track.tracker import Tracker

ORIGINAL, RANDOM, WORST, SEARCHED = "original", "random", "worst of random", "searched"
Score = Callable[[Texts], float]


@dataclass(frozen=True, slots=True)
class AttackOptions:
    """Options of `attack`.

    Attributes:
      candidates: rewordings of each description that are tried, at most.
      beam: wordings of a service that are kept after each description; 1 is greedy.
      random: number of random rewordings to compare with.
      seed: of the candidates and of the random rewordings.
    """

    candidates: int = 8
    beam: int = 1
    random: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises `UserError` if an option is out of range."""
        rewordings.check_least(self, candidates=1, beam=1, random=1, seed=0)


class Example(NamedTuple):
    """A frame that is right under the given wording and wrong under the searched one.

    Attributes:
      dialogue_id, turn, service: of the frame.
      utterance: of the user.
      slot: with another answer.
      descriptions: of the slot, given and searched.
      annotated: values of the slot.
      answers: given and searched.
    """

    dialogue_id: str
    turn: int
    service: str
    utterance: str
    slot: str
    descriptions: tuple[str, str]
    annotated: tuple[str, ...]
    answers: tuple[tuple[str, ...], tuple[str, ...]]


class Searched(NamedTuple):
    """What the search found about one service.

    Attributes:
      searched: its worst wordings, the worst first.
      random: its random rewordings.
      worst: the worst of these.
      likelihood: mean log-likelihood of the annotated answers on the dialogues of the
        search: given, under `worst`, and under the first of `searched`.
      scored: number of frames that were scored, over all wordings.
    """

    searched: tuple[Texts, ...]
    random: tuple[Texts, ...]
    worst: Texts
    likelihood: tuple[float, float, float]
    scored: int


@dataclass(frozen=True, slots=True)
class Attack:
    """What `attack` found.

    Attributes:
      services: name -> what the search found.
      goals: name of a wording -> frame -> joint goal accuracy, on the other dialogues;
        `random` is the mean of all random rewordings.
      examples: frames that the searched wording makes wrong.
    """

    services: Mapping[str, Searched]
    goals: Mapping[str, Mapping[Place, float]]
    examples: tuple[Example, ...]

    def accuracy(self, name: str, service: str | None = None) -> float | None:
        """Returns the joint goal accuracy under a wording, of all services or of one.

        None if the services have no slots.
        """
        goals = self.goals[name].items()
        values = [
            v for key, v in goals if service in (None, key[2]) and not np.isnan(v)
        ]
        return statistics.fmean(values) if values else None


class _End(NamedTuple):
    """A schema with the states and the goals under it."""

    schema: Schema
    states: Mapping[Place, Parsed]
    goals: Mapping[Place, float]


def attack(
    tracker: Tracker,
    reference: Benchmark,
    dialogues: Sequence[Dialogue],
    options: AttackOptions,
    writers: Writers = lambda _: None,
) -> Attack:
    """Searches the worst wordings of the tracker's schema.

    Args:
      tracker: with the services to attack.
      reference: annotation and schema of the split.
      dialogues: annotated; of those about a service, the first, third, ... are for the
        search, and the others for the scores.
      options: of the search.
      writers: see `Writers`.

    Raises:
      UserError: a service has fewer than two dialogues.
    """
    schema = tracker.schema
    parts = {one.name: _of_service(dialogues, one.name) for one in schema.services}
    found = {
        one.name: _of_one(tracker, one, parts[one.name], options)
        for one in schema.services
    }
    wordings: dict[str, dict[str, Texts]] = {ORIGINAL: {}}
    for number in range(options.random):
        drawn = {name: one.random[number] for name, one in found.items()}
        wordings[f"{RANDOM} {number + 1}"] = drawn
    wordings[WORST] = {name: one.worst for name, one in found.items()}
    wordings[SEARCHED] = {name: one.searched[0] for name, one in found.items()}
    others = [one for part in parts.values() for one in part[1::2]]
    ends = {}
    for name, texts in wordings.items():
        about = tracker.about(rewordings.worded_schema(schema, texts))
        states = rewordings.states(about, others, writers)
        ends[name] = _End(about.schema, states, _goals(reference, others, states))
    goals = {name: ends[name].goals for name in (ORIGINAL, WORST, SEARCHED)}
    every = [one.goals for name, one in ends.items() if name.startswith(f"{RANDOM} ")]
    goals[RANDOM] = {
        place: statistics.fmean(one[place] for one in every)
        for place in goals[ORIGINAL]
    }
    examples = tuple(_examples(others, ends[ORIGINAL], ends[SEARCHED]))
    return Attack(found, goals, examples)


def _of_one(
    tracker: Tracker,
    service: Service,
    dialogues: Sequence[Dialogue],
    options: AttackOptions,
) -> Searched:
    """Searches the worst wordings of one service."""
    if len(dialogues) < 2:
        raise UserError(
            f"service {service.name}: has {len(dialogues)} of the dialogues. The search "
            "and the scores need one each. Give more --dialogues, or other --services."
        )
    known: dict[frozenset, float] = {}
    scored = 0

    def score(texts: Texts) -> float:
        nonlocal scored
        key = frozenset(texts.items())
        if key not in known:
            worded = Schema((rewordings.worded(service, texts),))
            found = tracker.about(worded).log_likelihoods(dialogues[::2])
            scored += len(found)
            known[key] = statistics.fmean(found.values())
        return known[key]

    found = _candidates(service, options)
    others = [Choice(item, texts[1:]) for item, texts in found]
    drawn = tuple(rewordings.drawn(others, options.random, options.seed))
    worst = min(drawn, key=score)
    kept = search(found, score, options.beam)
    likelihood = score({}), score(worst), score(kept[0])
    return Searched(kept, drawn, worst, likelihood, scored)


def search(
    found: Sequence[Choice], score: Score, beam: int
) -> tuple[dict[str, str], ...]:
    """Searches the texts with the smallest scores, one description after the other.

    Args:
      found: the descriptions, in the order in which they are changed.
      score: of texts; those without an entry keep the description.
      beam: wordings that are kept after each description; 1 is greedy.

    Returns:
      The kept wordings, the one with the smallest score first.
    """
    kept: list[tuple[float, dict[str, str]]] = [(score({}), {})]
    for item, (_, *others) in found:
        grown = [
            (score(texts), texts)
            for _, before in kept
            for text in others
            if text.casefold() not in map(str.casefold, before.values())
            for texts in [{**before, item.id: text}]
        ]
        kept = sorted([*kept, *grown], key=lambda pair: pair[0])[:beam]
    return tuple(texts for _, texts in kept)


def _candidates(service: Service, options: AttackOptions) -> list[Choice]:
    """The slots of a service that have rewordings, each with some drawn at random."""
    found = []
    for item, (own, *others) in rewordings.choices(service):
        if item.kind == "slot" and others:
            order = random.Random(f"{options.seed} {service.name} {item.id}")
            texts = order.sample(others, min(options.candidates, len(others)))
            found.append(Choice(item, (own, *texts)))
    return found


def _of_service(dialogues: Sequence[Dialogue], name: str) -> list[Dialogue]:
    """The dialogues with user frames of a service, without all other frames."""
    found = []
    for one in dialogues:
        turns = []
        for turn in one.turns:
            frames = [frame for frame, _ in benchmark.scored_frames(turn)]
            own = tuple(frame for frame in frames if frame.service == name)
            turns.append(Turn(turn.speaker, turn.utterance, own))
        if any(turn.frames for turn in turns):
            found.append(Dialogue(one.dialogue_id, (name,), tuple(turns)))
    return found


def _goals(
    reference: Benchmark,
    dialogues: Sequence[Dialogue],
    states: Mapping[Place, Parsed],
) -> dict[Place, float]:
    references = [
        reference.reference((dialogues[number].dialogue_id, turn, service))
        for number, turn, service in states
    ]
    found = dst.frame_scores(references, [*states.values()], reference.schema)
    return dict(zip(states, found.values[dst.JGA].tolist(), strict=True))


def _examples(
    dialogues: Sequence[Dialogue], given: _End, searched: _End
) -> Iterator[Example]:
    """One slot of each frame that is right before and wrong behind the search."""
    for place, value in given.goals.items():
        if not value == 1 > searched.goals[place]:
            continue
        number, index, name = place
        turn = dialogues[number].turns[index]
        services = [one.schema.service(name) for one in (given, searched)]
        for slot in services[0].slots:
            before, after = (
                tuple(one.states[place].slot_values.get(slot.name, ()))
                for one in (given, searched)
            )
            if combine.folded(before) != combine.folded(after):
                state = turn.frames[0].state
                yield Example(
                    *(dialogues[number].dialogue_id, index, name, turn.utterance),
                    slot.name,
                    (slot.description, services[1].slot(slot.name).description),
                    tuple(state.slot_values.get(slot.name, ())) if state else (),
                    (before, after),
                )
                break
