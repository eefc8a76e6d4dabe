"""Predicts under several wordings of the schema and combines the answers.

All predictions (`jaxaug predict`, `serve`, `evaluate run`, `Tracker`) call `answered`.
A question is an input of the tracker: a frame, or with T5DST a slot of a frame.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxaug.data.dialogue import Dialogue, Frame, State
from jaxaug.data.schema import Schema
from jaxaug.formats.records import Example, FormatOptions, Formatter, Parsed, merged
from jaxaug.metrics.slot_scores import StateLike
from jaxaug.track import combine, turns
from jaxaug.track.answers import FrameState, Prediction, frame_state
from jaxaug.track.options import DROP, EARLY, KEEP, LIKELIHOOD, Robust

Place = tuple[int, int, str]
"""Index of the dialogue, index of the turn, name of the service."""


class Question(NamedTuple):
    """An input under one wording.

    Attributes:
        place: the frame of the input.
        example: the formatted example, without its input text.
        item: input tokens; constrained trackers put the number of the language first.
    """

    place: Place
    example: Example
    item: list[int]


class Asking(NamedTuple):
    """The functions and options of a tracker that `answered` uses.

    Attributes:
        options: options of the combination.
        format: the text format.
        schemas: the given schema, then its further wordings.
        questions: schema -> questions; their order is the same for all wordings.
        write: input items -> output tokens.
        read: question and output tokens -> answer.
        score: pairs (input item, output text) -> log-likelihoods.
    """

    options: Robust
    format: FormatOptions
    schemas: Sequence[Schema]
    questions: Callable[[Schema], list[Question]]
    write: Callable[[Sequence[list[int]]], Sequence[list[int]]]
    read: Callable[[Question, list[int]], Parsed]
    score: Callable[[Sequence[tuple[list[int], str]]], Sequence[float]]


def answered(dialogues: Sequence[Dialogue], asking: Asking) -> list[Prediction]:
    """Returns the states of dialogues, combined over all wordings.

    Args:
        dialogues: dialogues with a frame for each state to predict.
        asking: the functions and options of the tracker.
    """
    asked = [asking.questions(schema) for schema in asking.schemas]
    answers = _answers(asked, asking)
    chosen = _chosen(asked, answers, asking)
    frames: dict[Place, list[Parsed]] = {}
    states: dict[Place, Parsed] = {}
    for question, found, state in zip(asked[0], answers, chosen, strict=True):
        place = question.place
        if place in states:
            state = merged(states[place], state)
            found = list(map(merged, frames[place], found))
        states[place], frames[place] = state, found
    predicted: list[list[FrameState]] = [[] for _ in dialogues]
    for place, state in states.items():
        dialogue = dialogues[place[0]]
        frame = _checked(dialogue, place, state, frames[place], asking)
        predicted[place[0]].append(frame)
    return [
        Prediction(dialogue, tuple(found))
        for dialogue, found in zip(dialogues, predicted, strict=True)
    ]


def _answers(asked: Sequence[Sequence[Question]], asking: Asking) -> list[list[Parsed]]:
    """Returns the answers to each question, one for each wording that was used."""
    early = asking.options.early
    found: list[list[Parsed]] = [[] for _ in asked[0]]
    _ask(asked[: EARLY if early else None], range(len(found)), found, asking)
    if early:
        # A frame is settled as a whole, because `merged` needs equally many answers for
        # each of its slots.
        open_frames = {
            question.place
            for question, answers in zip(asked[0], found, strict=True)
            if not combine.agree(answers)
        }
        rest = [n for n, one in enumerate(asked[0]) if one.place in open_frames]
        _ask(asked[EARLY:], rest, found, asking)
    return found


def _ask(
    asked: Sequence[Sequence[Question]],
    chosen: Sequence[int],
    found: list[list[Parsed]],
    asking: Asking,
) -> None:
    """Adds the answers to the chosen questions under some wordings, as one batch."""
    questions = [(n, wording[n]) for wording in asked for n in chosen]
    outputs = asking.write([question.item for _, question in questions])
    for (number, question), output in zip(questions, outputs, strict=True):
        found[number].append(asking.read(question, output))


def _chosen(
    asked: Sequence[Sequence[Question]],
    answers: Sequence[Sequence[Parsed]],
    asking: Asking,
) -> list[Parsed]:
    """Returns the combined answer to each question."""
    if asking.options.combine != LIKELIHOOD:
        return [combine.vote(found) for found in answers]
    candidates = [combine.candidates(found) for found in answers]
    formatters = [asking.format.formatter(schema) for schema in asking.schemas]
    pairs: list[tuple[list[int], str]] = []
    for number, states in enumerate(candidates):
        if len(states) > 1:
            for state in states:
                for formatter, questions in zip(formatters, asked, strict=True):
                    question = questions[number]
                    text = target(formatter, question.example, state)
                    pairs.append((question.item, text))
    scores = iter(asking.score(pairs))

    def likelihood(_: Parsed) -> float:
        return sum(next(scores) for _ in formatters)

    return [
        # In a tie `max` returns the first candidate, which is the vote.
        max(states, key=likelihood) if len(states) > 1 else states[0]
        for states in candidates
    ]


def target(formatter: Formatter, example: Example, state: StateLike) -> str:
    """Returns the target text of a state under one wording."""
    values = {slot: tuple(found) for slot, found in state.slot_values.items()}
    full = State(state.active_intent, tuple(state.requested_slots), values)
    written = formatter.dialogue(turns.alone(Frame(example.service, full)))
    return next(one.targets for one in written if one.key == example.key)


def _checked(
    dialogue: Dialogue,
    place: Place,
    state: Parsed,
    answers: Sequence[Parsed],
    asking: Asking,
) -> FrameState:
    """Returns a combined state; marks or drops uncertain and unsaid slots."""
    options, (_, turn, name) = asking.options, place
    services = [schema.service(name) for schema in asking.schemas]
    agreement = combine.agreement(state, answers, services)
    uncertain = tuple(
        slot for slot, one in agreement.items() if one.share < options.min_confidence
    )
    if options.uncertain == DROP:
        state = combine.without(state, uncertain)
    unsaid: tuple[str, ...] = ()
    if options.unsaid != KEEP:
        texts = [one.utterance for one in dialogue.turns[: turn + 1]]
        unsaid = tuple(combine.unsaid(state, services[0], texts))
        if options.unsaid == DROP:
            state = combine.without(state, unsaid)
    return frame_state(
        *(dialogue, turn, name, state),
        agreement=agreement if options.wordings else None,
        uncertain=uncertain if options.min_confidence else None,
        unsaid=unsaid if options.unsaid != KEEP else None,
    )
