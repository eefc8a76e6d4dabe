"""`jaxaug advise`: finds descriptions that a tracker misreads, and better wordings."""

import dataclasses
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxaug_base.files import is_same

from jaxaug.augment import rewording
from jaxaug.augment.descriptions import Description
from jaxaug.augment.output import records
from jaxaug.core import columns, compiled, page
from jaxaug.core.columns import percent
from jaxaug.core.errors import UserError
from jaxaug.core.files import check_writable, write_text
from jaxaug.data import folders
from jaxaug.data.dialogue import Dialogue
from jaxaug.data.schema import Schema
from jaxaug.formats.records import Parsed
from jaxaug.metrics.bootstrap import Figure, paired
from jaxaug.metrics.evaluate import write_json
from jaxaug.track import arguments as settings
from jaxaug.track import combine, rewordings, trained, turns
from jaxaug.track import run as predicting
from jaxaug.track.arguments import AdviseOptions
from jaxaug.track.base import Place
from jaxaug.track.rewordings import Choice, Writers
from jaxaug.track.tracker import Tracker

_HEADS = (
    "description of",
    "frames",
    "agreement",
    "gets the value of",
    "given",
    "advised",
)
_RIGHT = (False, True, True, False, False, False)
_LEGEND = (
    "frames: number of frames with an answer about the description",
    "consensus: the most frequent answer under the rewordings of the schema",
    "agreement: share of the answers that equal the consensus, per cent",
    "gets the value of: slots whose value was given to this slot, with counts",
    "unknown words, in brackets: words that occur less than twice in training schemas",
    "log-likelihood: mean for the consensus, under the wordings with the text",
)


@dataclass(frozen=True, slots=True)
class Option:
    """A possible text of a description, with its scores.

    Attributes:
        text: the text.
        unknown: number of its words that occur less than twice in the training schemas.
        agreement: share of the answers under this text that equal the consensus, 0 to
          1; None if no answer is about the description.
        likelihood: mean log-likelihood of the consensus under the wordings with this
          text; None without dialogues.
    """

    text: str
    unknown: int
    agreement: float | None = None
    likelihood: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """The measurements of one description and its rewordings.

    Attributes:
        item: the description.
        frames: number of frames with an answer about the description.
        agreement: share of all answers that equal the consensus, 0 to 1; None if
          `frames` is 0.
        confused: slot -> number of answers that gave its value to this slot.
        options: the description and its rewordings, best first.
    """

    item: Description
    frames: int
    agreement: float | None
    confused: Mapping[str, int]
    options: tuple[Option, ...]

    @property
    def given(self) -> Option:
        """Returns the option with the present text of the description."""
        return next(one for one in self.options if one.text == self.item.text)


class _Wording(NamedTuple):
    """The predictions of a tracker under one wording.

    Attributes:
        texts: (service, id of a description) -> its text.
        answers: predicted state of each frame.
        likelihoods: log-likelihood of the consensus in each frame.
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
) -> tuple[list[Advice], Figure | None]:
    """Returns advice about each description, in the order of the schema, and its gain.

    The gain is the agreement with the consensus under advised texts minus the agreement
    under the given texts. To measure it, texts are chosen by the first, third, ...
    dialogues and compared on the others. It is None with fewer than two dialogues.

    Args:
        tracker: the tracker, with the schema to improve.
        dialogues: unlabeled dialogues; empty for advice by familiarity alone.
        known: words of the training schemas, in the singular.
    """

    def unknown(text: str) -> int:
        return rewording.unknown_words(text, known)

    found: dict[str, list[Choice]] = {}
    for service in tracker.schema.services:
        found[service.name] = [
            # The sort is stable: ties keep the order of the grammar.
            Choice(item, (own, *sorted(others, key=unknown)[: options.candidates]))
            for item, (own, *others) in rewordings.choices(service)
        ]
    consensus: dict[Place, Parsed] = {}
    wordings: list[_Wording] = []
    if dialogues:
        consensus, wordings = _asked(tracker, dialogues, found, options, writers)

    def about(answers: Mapping[Place, Parsed]) -> list[Advice]:
        choices = (choice for one in found.values() for choice in one)
        return [_advice(choice, unknown, answers, wordings) for choice in choices]

    gain = None
    if len(dialogues) > 1:
        half = {place: state for place, state in consensus.items() if not place[0] % 2}
        better = tracker.about(advised(tracker.schema, about(half)))
        states = rewordings.states(better, dialogues[1::2], writers)
        gain = _gain(states, wordings[0].answers, consensus)
    return about(consensus), gain


def _gain(
    states: Mapping[Place, Parsed],
    given: Mapping[Place, Parsed],
    consensus: Mapping[Place, Parsed],
) -> Figure | None:
    """Returns the gain of the states of every other dialogue; see `advise`."""
    if not states:
        return None
    places = [(2 * number + 1, turn, name) for number, turn, name in states]
    after, before = (
        [float(combine.key(one) == combine.key(consensus[p])) for p, one in row]
        for row in (
            zip(places, states.values(), strict=True),
            ((place, given[place]) for place in places),
        )
    )
    clusters = np.unique([place[0] for place in places], return_inverse=True)[1]
    return paired(after, before, clusters)


def _asked(
    tracker: Tracker,
    dialogues: Sequence[Dialogue],
    found: Mapping[str, Sequence[Choice]],
    options: AdviseOptions,
    writers: Writers,
) -> tuple[dict[Place, Parsed], list[_Wording]]:
    """Returns the consensus of all wordings, and the predictions under each."""
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
    wordings = []
    for about, states in zip(abouts, answers, strict=True):
        texts = {
            (service.name, item.id): item.text
            for service in about.schema.services
            for item in rewordings.items_of(service)
        }
        wordings.append(
            _Wording(texts, states, about.log_likelihoods(dialogues, consensus))
        )
    return consensus, wordings


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
        # Frames without any answer would agree under any wording.
        tells = any(_about(item, one.answers[place]) for one in wordings)
        frames += tells
        for one in wordings:
            text, answer = one.texts[item.service, item.id], one.answers[place]
            likely[text].append(one.likelihoods[place])
            if tells:
                agreed[text].append(_part(item, answer) == _part(item, state))
            if item.kind == "slot":
                confused.update(combine.owners(item.name, answer, state))
    every = [same for found in agreed.values() for same in found]
    options = [
        Option(text, unknown(text), _mean(agreed[text]), _mean(likely[text]))
        for text in choice.texts
    ]
    ranked = tuple(sorted(options, key=rank))
    return Advice(item, frames, _mean(every), dict(confused.most_common()), ranked)


def _about(item: Description, answer: Parsed) -> bool:
    """Returns whether an answer says something about a description."""
    if item.kind == "intent":
        return answer.active_intent == item.name
    return item.kind == "service" or item.name in answer.slot_values


def _part(item: Description, answer: Parsed) -> object:
    """Returns the part of an answer that a description is about."""
    if item.kind == "slot":
        return combine.folded(answer.slot_values.get(item.name, ()))
    return answer.active_intent if item.kind == "intent" else combine.key(answer)


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def rank(option: Option) -> tuple[float, float]:
    """Returns the sort key of an option: by expected accuracy, best first.

    Among equally familiar texts, those without a likelihood come last.
    """
    likelihood = option.likelihood
    return option.unknown, math.inf if likelihood is None else -likelihood


def advised(schema: Schema, advice: Sequence[Advice]) -> Schema:
    """Returns the schema with the best option of each description; names stay."""
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    for one in advice:
        texts[one.item.service][one.item.id] = one.options[0].text
    return rewordings.worded_schema(schema, texts)


def run(arguments: settings.Advise) -> int:
    """Runs the verb; see `jaxaug advise --help`.

    Raises:
        UserError: the run, the schema, the dialogues, or an option is missing or wrong.
    """
    options = arguments.as_base(AdviseOptions)
    for name in ("json", "html", "out"):
        if path := getattr(arguments, name):
            check_writable(path, f"--{name}")
            if is_same(path, arguments.schema):
                raise UserError(
                    f"--{name} {path}: would replace --schema. Name another."
                )
    compiled.keep_programs()
    tracker = Tracker.load(arguments.run, arguments.schema)
    data_dir = folders.resolve_data_dir(arguments.data_dir)
    known = trained.frequent_words(arguments.run, str(data_dir))
    dialogues = []
    title = "no dialogues (--in), so advice is by familiarity of words alone"
    if arguments.input:
        read = predicting.read_input(arguments.input)
        dialogues = turns.read_dialogues(*read, tracker.schema)
        title = f"{len(dialogues):,} dialogues under {options.wordings} wordings"
    found, gain = advise(tracker, dialogues, known, options, predicting.resumed)
    title += _told(gain)
    print(table(found, title, arguments.limit))
    if arguments.json:
        about = dataclasses.asdict(options) | {"dialogues": len(dialogues)}
        about["gain"] = None if gain is None else gain._asdict()
        write_json(
            arguments.json, {"about": about, "descriptions": list(map(_json, found))}
        )
    if arguments.html:
        write_text(arguments.html, html_page(found, title))
    if arguments.out:
        write_text(arguments.out, records.schema_json(advised(tracker.schema, found)))
    for path in filter(None, (arguments.json, arguments.html, arguments.out)):
        print(f"written: {path}")
    return 0


def _told(gain: Figure | None) -> str:
    """Returns the end of the title: whether the advice gains on other dialogues."""
    if gain is None:
        return ""
    shown = "gain" if (gain.low or 0) > 0 else "no gain"
    return (
        f"; {shown}: advice from half of the dialogues changes the agreement on the "
        f"other half by {gain.points} points"
    )


def _json(one: Advice) -> dict[str, Any]:
    item = {
        name: getattr(one.item, name) for name in ("service", "kind", "name", "text")
    }
    return item | {k: v for k, v in dataclasses.asdict(one).items() if k != "item"}


def table(advice: Sequence[Advice], title: str, limit: int) -> str:
    """Returns the printed table, in the order of `_by_disagreement`."""
    shown = _by_disagreement(advice)[:limit]
    if len(shown) < len(advice):
        title += f" ({len(shown)} of {len(advice)} descriptions)"
    return f"{title}\n\n{columns.aligned([_HEADS, *map(_row, shown)], _RIGHT)}"


def _by_disagreement(advice: Sequence[Advice]) -> list[Advice]:
    """Returns the advice, most frames with disagreement first, then by unknown words.

    A small agreement over few frames may be chance.
    """

    def key(one: Advice) -> tuple[float, int]:
        agreement = 1.0 if one.agreement is None else one.agreement
        return -one.frames * (1 - agreement), -one.given.unknown

    return sorted(advice, key=key)


def _row(one: Advice) -> list[str]:
    item, best = one.item, one.options[0]
    return [
        item.service if item.kind == "service" else f"{item.service}.{item.name}",
        str(one.frames),
        percent(one.agreement),
        ", ".join(f"{name} {count}" for name, count in one.confused.items()),
        _worded(one.given),
        "" if best == one.given else _worded(best),
    ]


def _worded(option: Option) -> str:
    return f"{option.text} [{option.unknown}]" if option.unknown else option.text


def html_page(advice: Sequence[Advice], title: str) -> str:
    """Returns a self-contained HTML page: all descriptions, then their wordings."""
    shown = _by_disagreement(advice)
    parts = [
        *page.paragraphs([title]),
        "<h2>Definitions</h2>",
        *page.items(_LEGEND),
        "<h2>Descriptions, most frames with disagreement first</h2>",
        *page.table(_HEADS, map(_row, shown), _RIGHT, sort=True),
        "<h2>Wordings of each description, in the order of preference</h2>",
        *(line for one in shown for line in _options(one)),
    ]
    return page.whole("Advice for the descriptions of a schema", parts, sort=True)


def _options(one: Advice) -> list[str]:
    rows = []
    for option in one.options:
        likelihood = "NA" if option.likelihood is None else f"{option.likelihood:.2f}"
        numbers = percent(option.agreement), str(option.unknown), likelihood
        rows.append([option.text, *numbers])
    heads = ["wording", "agreement", "unknown words", "log-likelihood"]
    title = f"{_row(one)[0]}: {one.item.text}"
    return page.details(title, page.table(heads, rows, sort=True))
