"""A trained tracker: the model of a run, its format, and a schema."""

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import jax
import numpy as np
from jaxtyping import Array, Int

from jaxaug.core import typed
from jaxaug.core.buckets import SHORTEST, Batch, in_batches, pad, power_of_two
from jaxaug.core.digests import code_digest
from jaxaug.core.ranges import Range
from jaxaug.data.schema import Schema
from jaxaug.data.sgd import Dialogue, Frame
from jaxaug.metrics.slot_scores import StateLike
from jaxaug.models import programs
from jaxaug.models.named import identities
from jaxaug.models.text import continuing, registry
from jaxaug.paraphrase import decoder, samplers
from jaxaug.track import constraints, hub, trained, turns
from jaxaug.track.base import BaseTracker, Place, read_services, target
from jaxaug.track.options import LIKELIHOOD, Robust


class Tracker(hub.OnHub, BaseTracker):
    """Predicts the dialogue state after each user turn; decodes with JAX.

    See `BaseTracker`.
    """

    def __init__(
        self,
        model: registry.TextModel | continuing.PrefixModel,
        family: str,
        lengths: Mapping[str, int],
        schema: Schema,
        batch_size: int | None = None,
        robust: Robust | None = None,
    ):
        """
        Args:
            model: a model that was trained as a tracker.
            family: key of `recipes.FORMATS`.
            lengths: maximum number of tokens of `inputs` and `targets`, EOS included.
            batch_size: rows of a decoded batch; None takes `rows_of_device`.
            robust: further wordings and checks of the answers; None takes `Robust()`.
        """
        words = model.input_vocabulary, model.output_vocabulary
        super().__init__(words, family, lengths, schema, robust)
        self.identity = [model.identity, *self.identity]
        self._model = model
        self._params = jax.device_put(model.params)
        self._rows = batch_size or rows_of_device()
        self._narrowest = 0  # minimum width of a batch, in tokens
        self._languages: constraints.Constraint | None = None
        # Possible numbers of rows of a batch; each compiles a program.
        self._sizes = [2**n for n in range((self._rows - 1).bit_length())] + [
            self._rows
        ]
        greedy = samplers.find("greedy")
        self._greedy = greedy.build(1, greedy.complete({}))

    @classmethod
    @typed.checked
    def load(
        cls,
        run: typed.Path,
        schema: typed.Path | Schema | None = None,
        batch_size: Annotated[int, Range(1, 1 << 16)] | None = None,
        robust: Robust | None = None,
    ) -> "Tracker":
        """Returns the tracker of a training run.

        Args:
            run: folder of the run, which may have been moved, for its newest
              checkpoint; or one of its checkpoints.
            schema: a file in the layout of `schema.json`, or a `Schema`; None takes all
              services of the data folder (see `folders.resolve_data_dir`).
            batch_size: rows of a decoded batch; None takes `rows_of_device`.
            robust: further wordings and checks of the answers; None takes `Robust()`.

        Raises:
            UserError: there is no such run, it trained no tracker, or the schema is
              missing or wrong.
        """
        folder, family, lengths = trained.of_run(run)
        services = read_services(schema)
        model = continuing.load(folder)
        found = cls(model, family, lengths, services, batch_size, robust)
        found._run = str(folder)
        return found

    def with_params(self, params: Any) -> "Tracker":
        """Returns a copy of this tracker with other weights and the same programs.

        Args:
            params: parameters of the same network.
        """
        other = copy.copy(self)
        other._params = jax.device_put(params)
        identity = dataclasses.replace(self._model, params=params).identity
        other.identity = [identity, *self.identity[1:]]
        return other

    def compiled(self, schemas: Iterable[Schema]) -> "Tracker":
        """Returns a copy of this tracker with all programs compiled, for a server.

        Its batches have a fixed number of rows and widths that fit the schemas, so it
        compiles nothing later. It caches wordings in memory, not in files.

        Args:
            schemas: the wordings of the services; the lengths of their prompts differ.
        """
        other = super().compiled(())
        other._sizes = [self._rows]
        widths = self._widths(schemas)
        other._narrowest = widths[0]
        other._languages = self._allowed(self.schema)
        for width in widths:
            item = [self._model.input_vocabulary.eos_id] * width
            item = [0, *item] if self.robust.constrained else item
            other.write_tokens([item])
            if self.robust.combine == LIKELIHOOD:
                other._log_likelihoods([(item, "")])
        return other

    def _widths(self, schemas: Iterable[Schema]) -> list[int]:
        """Returns the possible batch widths of dialogues about these services."""
        shortest = longest = self._lengths["inputs"]
        for schema in schemas:
            frames = (Frame(one.name, turns.UNKNOWN) for one in schema.services)
            empty = turns.alone(*frames)
            for example in self._options.formatter(schema).dialogue(empty):
                shortest = min(shortest, len(self._encode(example.inputs)))
        width, found = power_of_two(shortest, SHORTEST), []
        while width < longest:
            found.append(width)
            width *= 2
        return [*found, longest]

    def _allowed(self, schema: Schema) -> constraints.Constraint | None:
        if not self.robust.constrained:
            return None
        words, room = self._model.output_vocabulary, self._lengths["targets"]
        return constraints.of_schema(
            schema, self._options, words, room, self._languages
        )

    @property
    def code(self) -> str:
        """Digest of the code that outputs depend on."""
        packages = "jaxaug.decode", "jaxaug.paraphrase"
        return code_digest(*identities.network_code(), *packages)

    @property
    def restrictions(self) -> list[str]:
        """Returns digests of the constraints, which outputs depend on."""
        allowed = self._allowed(self.schema)
        return [allowed.digest] if allowed else []

    def write_tokens(self, inputs: Sequence[list[int]]) -> list[list[int]]:
        """Returns the output tokens of each input; compiles a program for each width.

        Args:
            inputs: input tokens, EOS included; a constrained tracker takes the number
              of the language before them.

        Raises:
            UserError: the logits of the model are NaN or infinite.
        """
        allowed = self._allowed(self.schema)

        def decoded(tokens: Int[np.ndarray, "rows length"], batch: Batch) -> Any:
            if not allowed:
                return self._decode(tokens)
            numbers = [inputs[index][0] for index in batch.indices]
            languages = np.resize(np.array(numbers, np.int32), len(tokens))
            return constraints.decode(
                *(self._model, self._greedy, self._lengths["targets"]),
                *(self._params, tokens, languages, allowed.automaton),
            )

        return [one.tolist() for one in self._in_batches(inputs, decoded)]

    def _in_batches(
        self,
        inputs: Sequence[list[int]],
        compute: Callable[[Int[np.ndarray, "rows length"], Batch], Any],
    ) -> list[np.ndarray]:
        """Returns results of inputs; see `write_tokens` and `buckets.in_batches`."""
        few, first = len(inputs) <= self._rows, int(self.robust.constrained)

        def fit(batch: Batch) -> Batch:
            self._between()
            rows = batch.rows if few else self._rows
            rows = next(size for size in self._sizes if size >= rows)
            width = min(max(batch.length, self._narrowest), self._lengths["inputs"])
            return Batch(batch.indices, rows, width)

        sequences = [item[first:] for item in inputs]
        name = self._model.label
        return in_batches(sequences, self._rows, compute, fit=fit, name=name)

    def _log_likelihoods(self, pairs: Sequence[tuple[list[int], str]]) -> list[float]:
        """Returns log-likelihoods of (input, output text); see `continuing.score`."""
        words, length = self._model.output_vocabulary, self._lengths["targets"]

        def scored(tokens: Int[np.ndarray, "rows length"], batch: Batch) -> Any:
            texts = [words.encode(pairs[i][1]) for i in batch.indices]
            ended = [[*text, words.eos_id][:length] for text in texts]
            outputs = pad(ended, len(tokens), length)
            return _score(self._model, self._params, tokens, outputs)

        found = self._in_batches([item for item, _ in pairs], scored)
        return [float(one) for one in found]

    def log_likelihoods(
        self, dialogues: Sequence[Dialogue], states: Mapping[Place, StateLike]
    ) -> dict[Place, float]:
        """Returns the log-likelihood of a state as the answer about each frame.

        Args:
            dialogues: dialogues with a frame for each state.
        """
        questions = self._questions(dialogues, self.schema)
        write = self._options.formatter(self.schema)
        texts = [target(write, q.example, states[q.place]) for q in questions]
        items = [one.item for one in questions]
        scores = self._log_likelihoods([*zip(items, texts, strict=True)])
        found: dict[Place, float] = {}
        for one, score in zip(questions, scores, strict=True):
            found[one.place] = found.get(one.place, 0.0) + score
        return found

    def _decode(self, tokens: np.ndarray) -> Any:
        ids, length = np.zeros(len(tokens), np.int32), self._lengths["targets"]
        if isinstance(self._model, continuing.PrefixModel):
            return _continued(
                self._model, self._greedy, length, self._params, tokens, ids
            )
        return decoder.decode(
            self._model, self._greedy, 1, length, self._params, tokens, ids,
            jax.random.PRNGKey(0),
        )[:, 0]  # fmt: skip


_score = programs.of_model()(continuing.score)


@programs.of_model(static_argnums=(0, 1))
def _continued(
    model: continuing.PrefixModel,
    decode_fn: Callable[..., Any],
    max_length: int,
    params: Any,
    inputs: Int[Array, "rows length"],
    input_ids: Int[Array, " rows"],
) -> Int[Array, "rows max_length"]:
    return model.continued(params, inputs, input_ids, decode_fn, max_length)


def rows_of_device() -> int:
    """Returns the default rows of a batch; large ones overflow the caches of CPUs."""
    return 8 if jax.default_backend() == "cpu" else 32
