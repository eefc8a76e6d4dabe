"""What all trackers do, whatever decodes their answers; importing this is cheap."""

import copy
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import msgspec

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import folders, sgd
from jaxaug.data.schema import Schema, read_schema
from jaxaug.data.sgd import Dialogue
from jaxaug.feed import recipes
from jaxaug.formats.records import Parsed
from jaxaug.track import several, turns
from jaxaug.track.answers import Prediction
from jaxaug.track.options import AUTO, GRAMMAR, Robust
from jaxaug.track.several import Asking, Question

Input = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
Writer = Callable[[Sequence[list[int]]], Sequence[list[int]]]
_PER_TOKEN = 16  # characters of a text that are read for each token that is kept


def do_nothing() -> None:
    pass


class BaseTracker:
    """Tells the state of dialogues after each turn of the user.

    The answers are those of the greedy evaluation of the run: same format, same lengths.

    Attributes:
        schema: the services that it knows; may be replaced at any time.
        identity: stands for weights, vocabulary and format; names no path.
        per_slot: whether each slot of a service is an input, not each service.
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
            words: vocabularies of the inputs and of the outputs.
            family: key of `recipes.FORMATS`.
            lengths: tokens of `inputs` and `targets`, EOS included.
            schema: of the services.
            robust: None is `Robust()`.
        """
        self.schema = schema
        self.robust = robust or Robust()
        self.identity: list[Any] = [family, dict(lengths)]
        self._input_words, self._output_words = words
        self._options = recipes.FORMATS[family]
        self.per_slot = self._options.per_slot
        self._lengths = lengths
        self._run = ""  # that the model comes from
        self._keeps = True  # whether wordings are kept in files
        self._between: Callable[[], None] = do_nothing

    @property
    def code(self) -> str:
        """Digest of the code that outputs depend on."""
        raise NotImplementedError

    @property
    def restrictions(self) -> list[str]:
        """Digests of what outputs depend on besides `identity` and their inputs."""
        return []

    def compiled(self, schemas: Iterable[Schema]) -> Self:
        """Returns this tracker, ready for a server: it writes no files from here on.

        Args:
            schemas: of the services; each wording has prompts of its own lengths.
        """
        del schemas
        other = copy.copy(self)
        other._schemas()
        other._keeps = False
        return other

    def write_tokens(self, inputs: Sequence[list[int]]) -> list[list[int]]:
        """Returns the output tokens of each input, whose EOS is included."""
        raise NotImplementedError

    def _allowed(self, schema: Schema) -> Any:
        """Returns the `constraints.Constraint` of constrained answers, or None."""
        del schema
        return None

    def _log_likelihoods(self, pairs: Sequence[tuple[list[int], str]]) -> list[float]:
        """Returns the log-likelihood of each text as the output of an input."""
        raise NotImplementedError

    def about(self, schema: Schema, between: Callable[[], None] = do_nothing) -> Self:
        """This tracker with other services or other wordings; it itself stays as it is.

        Args:
            schema: of the services.
            between: called before each input is written and each batch is decoded; raises
              an error to stop.
        """
        other = copy.copy(self)
        other.schema = schema
        other._between = between
        return other

    def predict(self, dialogue: Input) -> Prediction:
        """The states of one dialogue after each turn of the user; see `read`."""
        return self.predict_all([self.read(dialogue)])[0]

    def read(self, dialogue: Input) -> Dialogue:
        """One dialogue, to be handed to `predict_all`.

        Args:
            dialogue: lines `USER: ...` and `SYSTEM: ...`, an object in the layout of SGD,
              or its turns.

        Raises:
            UserError: it is none of these, or names a service that the schema lacks.
        """
        if isinstance(dialogue, str):
            found = turns.read_dialogues(dialogue, "dialogue", self.schema)
            if len(found) > 1:
                raise UserError(
                    f"dialogue: holds {len(found)}, as an empty line ends one. Give one, or "
                    "all of them to predict_all or `jaxaug predict`."
                )
            return found[0]
        return turns.of_object(dialogue, "dialogue", self.schema, "dialogue_1")

    def predict_all(
        self, dialogues: Sequence[Dialogue], write: Writer | None = None
    ) -> list[Prediction]:
        """The states of many dialogues, in their order.

        Args:
            dialogues: see `turns.read_dialogues`.
            write: what makes output tokens of input tokens; None is `write_tokens`.
        """
        asking = Asking(
            self.robust,
            self._options,
            self._schemas(),
            functools.partial(self._questions, dialogues),
            write or self.write_tokens,
            self._read,
            self._log_likelihoods,
        )
        return several.answered(dialogues, asking)

    def _schemas(self) -> list[Schema]:
        """The schema, then its further wordings."""
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
                # The text may be thousands of times longer than what is kept of it.
                short = msgspec.structs.replace(example, inputs="")
                place = number, example.turn, example.service
                found.append(Question(place, short, item))
        return found

    def _encode(self, text: str) -> list[int]:
        """Tokens of a text, cut from the left, so that the last turns are kept."""
        words, length = self._input_words, self._lengths["inputs"]
        characters = _PER_TOKEN * length
        while (start := text.rfind(" ", 0, max(0, len(text) - characters))) > 0:
            tokens = words.encode(text[start:])
            # Only the first tokens can differ from those of the whole text.
            if len(tokens) >= 2 * length:
                return [*tokens[1 - length :], words.eos_id]
            characters *= 4
        return [*words.encode(text)[1 - length :], words.eos_id]

    def _read(self, question: Question, tokens: list[int]) -> Parsed:
        text = self._output_words.decode(tokens)
        return self._options.parse(text, question.example.key)


def read_services(schema: PathLike | Schema | None) -> Schema:
    """Returns a schema, read from a file or from the data folder if none is given.

    Raises:
        UserError: the file or the data folder is missing or wrong.
    """
    if isinstance(schema, Schema):
        return schema
    if schema:
        return read_schema(schema)
    return sgd.read_every_schema(folders.resolve_data_dir())
