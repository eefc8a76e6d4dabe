"""Common base class of all trackers; importing this module is cheap.

All predictions (`jaxaug predict`, `serve`, `evaluate run`) come from `predict_all`. It
asks under several wordings of the schema, and combines the answers. A question is an
input of the tracker: a frame, or with T5DST a slot of a frame.
"""

import abc
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from jaxaug.core import typed
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import folders, sgd
from jaxaug.data.schema import Schema, read_schema
from jaxaug.data.sgd import Dialogue, Frame, State
from jaxaug.feed import recipes
from jaxaug.formats.records import Example, Formatter, Parsed, merged
from jaxaug.metrics.slot_scores import StateLike
from jaxaug.track import combine, turns
from jaxaug.track.answers import FrameState, Prediction, frame_state
from jaxaug.track.options import AUTO, DROP, EARLY, GRAMMAR, KEEP, LIKELIHOOD, Robust

Input = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
Writer = Callable[[Sequence[list[int]]], Sequence[list[int]]]
_PER_TOKEN = 16  # characters that are tokenized for each token of the input length


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


def do_nothing() -> None:
    pass


class BaseTracker(abc.ABC):
    """Predicts the dialogue state after each user turn.

    Predictions equal those that the greedy evaluation of the training run makes, with
    the same format and the same lengths.

    Attributes:
        schema: schema of the services; may be replaced at any time.
        identity: values that identify weights, vocabulary, and format; they do not
            depend on paths.
        per_slot: whether each input asks about one slot instead of one service.
        robust: further wordings and checks of the answers; may be replaced at any time.
    """

    per_slot: bool = False
    robust: Robust = Robust()

    def __init__(
        self,
        words: tuple[Any, Any],
        family: str,
        lengths: Mapping[str, int],
        schema: Schema,
        robust: Robust | None = None,
    ):
        """
        Args:
            words: vocabulary of the inputs and vocabulary of the outputs.
            family: name of the input format, a key of `recipes.FORMATS`.
            lengths: maximum number of tokens of `inputs` and `targets`, EOS included.
            robust: further wordings and checks of the answers; None means `Robust()`.
        """
        self.schema = schema
        self.robust = robust or Robust()
        self.identity: list[Any] = [family, dict(lengths)]
        self._input_words, self._output_words = words
        self._options = recipes.FORMATS[family]
        self.per_slot = self._options.per_slot
        self._lengths = lengths
        self._run: str = ""  # folder of the run; empty without one
        self._keeps = True  # whether wordings are cached in files
        self._between: Callable[[], None] = do_nothing

    @property
    @abc.abstractmethod
    def code(self) -> str:
        """Digest of the code on which the outputs depend."""

    @property
    def restrictions(self) -> list[str]:
        """Digests of additional restrictions of the outputs; empty without any."""
        return []

    def compiled(self, schemas: Iterable[Schema]) -> Self:
        """Returns a copy of this tracker for a server; the copy writes no files.

        Subclasses may compile their programs here.

        Args:
            schemas: wordings of the services. Their prompts may have different lengths.
        """
        del schemas
        other = copy.copy(self)
        other._schemas()
        other._keeps = False
        return other

    @abc.abstractmethod
    def write_tokens(self, inputs: Sequence[list[int]]) -> list[list[int]]:
        """Returns the output tokens of each input.

        An output ends with EOS, unless it has reached the maximum length. Tokens after
        EOS are padding.

        Args:
            inputs: tokens of each input, including EOS.
        """

    def _allowed(self, schema: Schema) -> Any:
        """Returns the `constraints.Constraint` of the answers, or None."""
        del schema
        return None

    @abc.abstractmethod
    def _log_likelihoods(self, pairs: Sequence[tuple[list[int], str]]) -> list[float]:
        """Returns the log-likelihood of the text of each (input tokens, text) pair."""

    def about(self, schema: Schema, between: Callable[[], None] = do_nothing) -> Self:
        """Returns a copy of this tracker with another schema.

        Args:
            schema: schema of other services, or the same services in other words.
            between: function that is called before each input is formatted and before
                each batch is decoded. It may raise an error to stop the prediction.
        """
        other = copy.copy(self)
        other.schema = schema
        other._between = between
        return other

    def predict(self, dialogue: Input) -> Prediction:
        """Returns the predicted states of one dialogue after each user turn.

        Args:
            dialogue: the dialogue, in a form that `read` accepts.
        """
        return self.predict_all([self.read(dialogue)])[0]

    @typed.checked
    def read(self, dialogue: Input) -> Dialogue:
        """Returns one dialogue in the form that `predict_all` takes.

        Args:
            dialogue: lines `USER: ...` and `SYSTEM: ...`, an object in the layout of
                SGD, or the list of its turns.

        Raises:
            UserError: the dialogue has another layout, or names a service that the
                schema lacks.
        """
        if isinstance(dialogue, str):
            found = turns.read_dialogues(dialogue, "dialogue", self.schema)
            if len(found) > 1:
                raise UserError(
                    f"dialogue: holds {len(found)}, because an empty line ends one. "
                    "Give one, or all of them to predict_all or `jaxaug predict`."
                )
            return found[0]
        return turns.of_object(dialogue, "dialogue", self.schema, "dialogue_1")

    @typed.checked
    def predict_all(
        self, dialogues: Sequence[Dialogue], write: Writer | None = None
    ) -> list[Prediction]:
        """Returns the predicted states of each dialogue, in the order of the dialogues.

        Args:
            dialogues: the dialogues, as `read` or `turns.read_dialogues` returns them.
            write: function from input tokens to output tokens; None means
                `write_tokens`.
        """
        schemas = self._schemas()
        asked = [self._questions(dialogues, schema) for schema in schemas]
        answers = self._answers(asked, write or self.write_tokens)
        chosen = self._chosen(schemas, asked, answers)
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
            frame = self._checked(dialogues, schemas, place, state, frames[place])
            predicted[place[0]].append(frame)
        return [
            Prediction(dialogue, tuple(found))
            for dialogue, found in zip(dialogues, predicted, strict=True)
        ]

    def _answers(
        self, asked: Sequence[Sequence[Question]], write: Writer
    ) -> list[list[Parsed]]:
        """Returns the answers to each question, one for each wording that was used."""
        found: list[list[Parsed]] = [[] for _ in asked[0]]

        def ask(wordings: Sequence[Sequence[Question]], chosen: Iterable[int]) -> None:
            """Adds the answers to the chosen questions, which are one batch."""
            questions = [(n, wording[n]) for wording in wordings for n in chosen]
            outputs = write([question.item for _, question in questions])
            for (number, question), output in zip(questions, outputs, strict=True):
                found[number].append(self._read(question, output))

        early = self.robust.early
        ask(asked[: EARLY if early else None], range(len(found)))
        if early:
            # A frame is settled as a whole, because `merged` needs equally many answers
            # for each of its slots.
            open_frames = {
                question.place
                for question, answers in zip(asked[0], found, strict=True)
                if not combine.agree(answers)
            }
            rest = [n for n, one in enumerate(asked[0]) if one.place in open_frames]
            ask(asked[EARLY:], rest)
        return found

    def _chosen(
        self,
        schemas: Sequence[Schema],
        asked: Sequence[Sequence[Question]],
        answers: Sequence[Sequence[Parsed]],
    ) -> list[Parsed]:
        """Returns the combined answer to each question."""
        if self.robust.combine != LIKELIHOOD:
            return [combine.vote(found) for found in answers]
        candidates = [combine.candidates(found) for found in answers]
        formatters = [self._options.formatter(schema) for schema in schemas]
        pairs: list[tuple[list[int], str]] = []
        for number, states in enumerate(candidates):
            if len(states) > 1:
                for state in states:
                    for formatter, questions in zip(formatters, asked, strict=True):
                        question = questions[number]
                        text = target(formatter, question.example, state)
                        pairs.append((question.item, text))
        scores = iter(self._log_likelihoods(pairs))

        def likelihood(_: Parsed) -> float:
            return sum(next(scores) for _ in formatters)

        return [
            # In a tie `max` returns the first candidate, which is the vote.
            max(states, key=likelihood) if len(states) > 1 else states[0]
            for states in candidates
        ]

    def _checked(
        self,
        dialogues: Sequence[Dialogue],
        schemas: Sequence[Schema],
        place: Place,
        state: Parsed,
        answers: Sequence[Parsed],
    ) -> FrameState:
        """Returns a combined state; marks or drops uncertain and unsaid slots."""
        options, (number, turn, name) = self.robust, place
        dialogue = dialogues[number]
        services = [schema.service(name) for schema in schemas]
        agreement = combine.agreement(state, answers, services)
        uncertain = tuple(
            s for s, one in agreement.items() if one.share < options.min_confidence
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

    def _schemas(self) -> list[Schema]:
        """Returns the schema, followed by its further wordings."""
        if not (self.robust.wordings or self.robust.familiar):
            return [self.schema]
        # Imported here, because the grammar imports JAX.
        from jaxaug.augment import rewording

        num, source = self.robust.wordings, self.robust.source
        first = self.schema
        if self.robust.familiar:
            first = rewording.familiar(first, self._known_words())
        if not num:
            return [first]
        if source == GRAMMAR:
            return [first, *rewording.of_schema(self.schema, num, self._keeps)]
        return [first, *rewording.of_folder(self.schema, source, num)]

    def _known_words(self) -> frozenset[str]:
        # Imported here, because it imports JAX.
        from jaxaug.track import trained

        data_dir = self.robust.familiar
        return trained.frequent_words(self._run, None if data_dir == AUTO else data_dir)

    def _questions(
        self, dialogues: Sequence[Dialogue], schema: Schema
    ) -> list[Question]:
        formatter = self._options.formatter(schema)
        allowed = self._allowed(schema)
        found: list[Question] = []
        for number, dialogue in enumerate(dialogues):
            for example in formatter.dialogue(dialogue):
                self._between()
                item = self._encode(example.inputs)
                if allowed:
                    item.insert(0, allowed.numbers[example.service, example.key])
                # The text may be thousands of times longer than its truncated tokens.
                short = msgspec.structs.replace(example, inputs="")
                place = number, example.turn, example.service
                found.append(Question(place, short, item))
        return found

    def _encode(self, text: str) -> list[int]:
        """Returns the tokens of a text; drops its beginning to keep the last turns."""
        words, length = self._input_words, self._lengths["inputs"]
        characters = _PER_TOKEN * length
        while (start := text.rfind(" ", 0, max(0, len(text) - characters))) > 0:
            tokens = words.encode(text[start:])
            # Only the first tokens can differ from the tokens of the whole text.
            if len(tokens) >= 2 * length:
                return [*tokens[1 - length :], words.eos_id]
            characters *= 4
        return [*words.encode(text)[1 - length :], words.eos_id]

    def _read(self, question: Question, tokens: list[int]) -> Parsed:
        text = self._output_words.decode(tokens)
        return self._options.parse(text, question.example.key)


def read_services(schema: PathLike | Schema | None) -> Schema:
    """Returns the schema of a file, or of the data folder.

    Args:
        schema: path of the file; None means the data folder. A `Schema` is returned
            unchanged.

    Raises:
        UserError: the file or the data folder is missing or wrong.
    """
    if isinstance(schema, Schema):
        return schema
    if schema:
        return read_schema(schema)
    return sgd.read_every_schema(folders.resolve_data_dir())


def target(formatter: Formatter, example: Example, state: StateLike) -> str:
    """Returns the target text of a state under one wording."""
    values = {slot: tuple(found) for slot, found in state.slot_values.items()}
    full = State(state.active_intent, tuple(state.requested_slots), values)
    written = formatter.dialogue(turns.alone(Frame(example.service, full)))
    return next(one.targets for one in written if one.key == example.key)
