"""`jaxaug attack`: searches faithful wordings of a schema under which a tracker fails.

The search changes one description at a time, keeps the wordings with the least likely
annotated answers, and is scored on other dialogues.
"""

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jaxaug.augment.output import records
from jaxaug.core import columns, compiled
from jaxaug.core.errors import UserError
from jaxaug.core.files import check_writable
from jaxaug.data import folders
from jaxaug.data.dialogue import Dialogue
from jaxaug.data.schema import Schema, Service
from jaxaug.formats.records import Parsed
from jaxaug.metrics import benchmark, dst
from jaxaug.metrics.benchmark import Benchmark
from jaxaug.metrics.bootstrap import Figure, paired
from jaxaug.metrics.evaluate import write_json
from jaxaug.track import arguments as settings
from jaxaug.track import combine, rewordings
from jaxaug.track import run as predicting
from jaxaug.track.arguments import AttackOptions
from jaxaug.track.base import Place
from jaxaug.track.rewordings import Choice, Texts, Writers
from jaxaug.track.tracker import Tracker

ORIGINAL, RANDOM, WORST, SEARCHED = "original", "random", "worst of random", "searched"
_WORDINGS = ORIGINAL, RANDOM, WORST, SEARCHED


class Example(NamedTuple):
    """A frame that is right under the given wording and wrong under the searched one.

    `descriptions` and `answers` are pairs (given, searched) for one slot.
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
    """The result of the search for one service.

    Attributes:
        worst: the kept wordings, worst first.
        wordings: name -> wording to score; random wordings are called "random 1", ...
        likelihood: name -> mean log-likelihood of the annotated answers, on the
          dialogues of the search.
        scored: number of scored frames, over all wordings.
    """

    worst: tuple[Texts, ...]
    wordings: Mapping[str, Texts]
    likelihood: Mapping[str, float]
    scored: int


@dataclass(frozen=True, slots=True)
class Attack:
    """The result of `attack`.

    Attributes:
        services: name of a service -> result of its search.
        goals: name of a wording -> frame -> joint goal accuracy, on the dialogues that
          the search did not see; `random` is the mean over all random rewordings.
        examples: frames that the searched wording makes wrong.
    """

    services: Mapping[str, Searched]
    goals: Mapping[str, Mapping[Place, float]]
    examples: tuple[Example, ...]

    def accuracy(self, service: str | None = None) -> dict[str, float | None]:
        """Returns the joint goal accuracy, 0 to 1, under each wording.

        It covers one service or all of them, and is None if they have no slots.
        """
        found: dict[str, float | None] = {}
        for name in _WORDINGS:
            goals = self.goals[name].items()
            own = [value for place, value in goals if service in (None, place[2])]
            values = [value for value in own if not np.isnan(value)]
            found[name] = statistics.fmean(values) if values else None
        return found

    @property
    def loss(self) -> Figure:
        """The accuracy that the searched wording loses, with its 95% interval."""
        goals = self.goals[ORIGINAL], self.goals[SEARCHED]
        places = [place for place, value in goals[0].items() if not np.isnan(value)]
        if not places:
            return Figure(None, None, None)
        clusters = np.unique([place[0] for place in places], return_inverse=True)[1]
        first, second = ([one[place] for place in places] for one in goals)
        return paired(first, second, clusters)


class _End(NamedTuple):
    """A schema with the predicted states and the joint goal accuracy of each frame."""

    schema: Schema
    states: Mapping[Place, Parsed]
    goals: Mapping[Place, float]


def run(arguments: settings.Attack) -> int:
    """Runs the verb; see `jaxaug attack --help`.

    Raises:
        UserError: the run, the data, or an option is missing or wrong.
    """
    options = arguments.as_base(AttackOptions)
    if arguments.json:
        check_writable(arguments.json, "--json")
    if arguments.out:
        rewordings.check_new(arguments.out)
    compiled.keep_programs()
    data_dir, split = folders.resolve_data_dir(arguments.data_dir), arguments.split
    reference = benchmark.load(data_dir, split)
    dialogues = list(reference.dialogues.values())[: arguments.dialogues]
    schema = _chosen(reference.schema, dialogues, arguments.services)
    tracker = Tracker.load(arguments.run, schema)
    found = attack(tracker, reference, dialogues, options, predicting.resumed)
    print(text(found, arguments.examples))
    if arguments.json:
        about = {"split": split, "dialogues": len(dialogues)}
        about |= dataclasses.asdict(options)
        write_json(arguments.json, as_json(found, schema, about))
        print(f"written: {arguments.json}")
    if arguments.out:
        texts = variant_texts(found, reference.schema, split, options.beam)
        records.write_variants(arguments.out, data_dir, split, reference.schema, texts)
        print(f"written: {arguments.out}")
    return 0


def _chosen(
    schema: Schema, dialogues: Sequence[Dialogue], names: Sequence[str] | None
) -> Schema:
    """Returns the named services, else all services of at least two dialogues."""
    if names:
        return Schema(tuple(schema.service(name) for name in dict.fromkeys(names)))
    lists = [
        rewordings.about_service(dialogues, service.name) for service in schema.services
    ]
    found = [s for s, own in zip(schema.services, lists, strict=True) if len(own) > 1]
    if not found:
        raise UserError(
            f"no service occurs in two of the {len(dialogues)} dialogues; the search "
            "and the scores need one each. Give more --dialogues."
        )
    return Schema(tuple(found))


def attack(
    tracker: Tracker,
    reference: Benchmark,
    dialogues: Sequence[Dialogue],
    options: AttackOptions,
    writers: Writers = lambda _: None,
) -> Attack:
    """Searches the worst wordings of the tracker's schema.

    Args:
        tracker: the tracker, with the services to attack.
        dialogues: annotated; the first, third, ... about each service are for the
          search, and the others for the scores.

    Raises:
        UserError: a service has fewer than two dialogues.
    """
    found: dict[str, Searched] = {}
    others: list[Dialogue] = []
    for service in tracker.schema.services:
        own = rewordings.about_service(dialogues, service.name)
        if len(own) < 2:
            raise UserError(
                f"service {service.name}: occurs in {len(own)} of the dialogues; two "
                "are needed. Give more --dialogues, or other --services."
            )
        found[service.name] = _of_one(tracker, service, own[::2], options)
        others += own[1::2]
    ends = {}
    for name in next(iter(found.values())).wordings:
        texts = {service: one.wordings[name] for service, one in found.items()}
        about = tracker.about(rewordings.worded_schema(tracker.schema, texts))
        states = rewordings.states(about, others, writers)
        ends[name] = _End(about.schema, states, _goals(reference, others, states))
    every = [one.goals for name, one in ends.items() if name not in _WORDINGS]
    goals = {name: one.goals for name, one in ends.items() if name in _WORDINGS}
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
    annotated = {
        (number, index, service.name): state
        for number, one in enumerate(dialogues)
        for index, turn in enumerate(one.turns)
        for _, state in benchmark.scored_frames(turn)
    }
    known: dict[frozenset, float] = {}

    def score(texts: Texts) -> float:
        key = frozenset(texts.items())
        if key not in known:
            about = tracker.about(Schema((rewordings.worded(service, texts),)))
            found = about.log_likelihoods(dialogues, annotated)
            known[key] = statistics.fmean(found.values())
        return known[key]

    found = rewordings.sampled(service, options.candidates, options.seed)
    changed = [Choice(item, texts[1:]) for item, texts in found]
    drawn = rewordings.drawn(changed, options.random, options.seed)
    kept = search(found, score, options.beam)
    wordings: dict[str, Texts] = {ORIGINAL: {}, WORST: min(drawn, key=score)}
    wordings[SEARCHED] = kept[0]
    likelihood = {name: score(texts) for name, texts in wordings.items()}
    wordings |= {f"{RANDOM} {n}": texts for n, texts in enumerate(drawn, 1)}
    return Searched(kept, wordings, likelihood, len(known) * len(annotated))


def search(
    found: Sequence[Choice], score: Callable[[Texts], float], beam: int
) -> tuple[dict[str, str], ...]:
    """Searches the texts with the smallest scores, one description after the other.

    Args:
        found: the descriptions, in the order in which they are changed.
        score: scores a wording; descriptions without an entry keep their text.
        beam: number of wordings kept after each description; 1 is greedy.

    Returns:
        The kept wordings, smallest score first.
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


def _goals(
    reference: Benchmark, dialogues: Sequence[Dialogue], states: Mapping[Place, Parsed]
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
    """Yields one slot of each frame that only the given wording gets right."""
    for place, value in given.goals.items():
        if not value == 1 > searched.goals[place]:
            continue
        number, index, name = place
        turn = dialogues[number].turns[index]
        ((_, state),) = benchmark.scored_frames(turn)
        services = [one.schema.service(name) for one in (given, searched)]
        values = [one.states[place].slot_values for one in (given, searched)]
        for slot, other in zip(*(one.slots for one in services), strict=True):
            before, after = (tuple(one.get(slot.name, ())) for one in values)
            if combine.folded(before) != combine.folded(after):
                yield Example(
                    *(dialogues[number].dialogue_id, index, name, turn.utterance),
                    *(slot.name, (slot.description, other.description)),
                    *(tuple(state.slot_values.get(slot.name, ())), (before, after)),
                )
                break


def text(found: Attack, examples: int) -> str:
    """Returns the output of the command: a table, then examples."""
    table = [["service", "frames", *_WORDINGS]]
    for service in (*found.services, None):
        count = sum(service in (None, place[2]) for place in found.goals[ORIGINAL])
        cells = map(columns.percent, found.accuracy(service).values())
        table.append([service or "all", str(count), *cells])
    scored = sum(one.scored for one in found.services.values())
    parts = [
        f"JGA under each wording; the search scored {scored:,} inputs of others",
        columns.aligned(table),
    ]
    loss = found.loss
    shown = "loses" if (loss.low or 0) > 0 else "is not shown to lose; difference"
    parts.append(f"the searched wording {shown} {loss.points} points")
    for one in found.examples[:examples]:
        values = [" | ".join(v) or "nothing" for v in (one.annotated, *one.answers)]
        parts.append(
            f"{one.service}.{one.slot}: {' -> '.join(map(repr, one.descriptions))}\n"
            f"  dialogue {one.dialogue_id}, turn {one.turn}: {one.utterance}\n"
            f"  annotated {values[0]}; before: {values[1]}; after: {values[2]}"
        )
    return "\n\n".join(parts)


def as_json(found: Attack, schema: Schema, about: dict[str, Any]) -> dict[str, Any]:
    """Returns an attack as JSON; accuracies lie in [0, 1].

    For each service, `descriptions` holds the pairs (given, worst found) of the slots
    whose description the worst wording changes.

    Args:
        schema: the attacked services, with the given descriptions.
        about: provenance, such as the split and the options.
    """
    services = {}
    for service in schema.services:
        one = found.services[service.name]
        changed = rewordings.worded(service, one.worst[0])
        services[service.name] = {
            "jga": found.accuracy(service.name),
            "log_likelihood": one.likelihood,
            "descriptions": {
                old.name: [old.description, new.description]
                for old, new in zip(service.slots, changed.slots, strict=True)
                if old != new
            },
        }
    return {
        "about": about,
        "jga": found.accuracy(),
        "loss": found.loss._asdict(),
        "frames": len(found.goals[ORIGINAL]),
        "scored": sum(one.scored for one in found.services.values()),
        "services": services,
        "examples": [one._asdict() for one in found.examples],
    }


def variant_texts(
    found: Attack, schema: Schema, split: str, number: int
) -> list[dict[str, str]]:
    """Returns the searched texts by their ids in a whole schema, worst wording first.

    Args:
        schema: the schema of the split, with all services.
        split: the split, which is part of the ids.
        number: number of wordings; services with fewer wordings repeat their last one.
    """
    worst = {name: one.worst for name, one in found.services.items()}
    ranked = [
        {name: kept[min(rank, len(kept) - 1)] for name, kept in worst.items()}
        for rank in range(number)
    ]
    return [rewordings.in_split(schema, split, texts) for texts in ranked]
