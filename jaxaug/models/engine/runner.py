"""Decodes with a model folder of `writer`; imports neither JAX nor TensorFlow."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxaug.core.errors import UserError
from jaxaug.models.engine import writer

JAX, CTRANSLATE2 = "jax", "ctranslate2"
ENGINES = (JAX, CTRANSLATE2)
# Beam search ends when it has this many finished hypotheses for each beam. The search
# in JAX continues until no unfinished hypothesis can be better, so 1 would be too few.
_PATIENCE = 2.0


@dataclass(frozen=True)
class Rules:
    """Meaning of a model's tokens, given by the token ids of jaxaug.

    Attributes:
        ends: ids that end an output.
        size: number of ids in the vocabulary of the outputs.
        barred: ids that never occur in an output.
        start: BOS and the ids before every prompt of a decoder-only model; None for a
            model with an encoder.
        offset: number to subtract from an id to get its row of the embedding.
        forces_end: whether EOS is the last token of a truncated output.
    """

    ends: tuple[int, ...]
    size: int
    barred: tuple[int, ...] = ()
    start: tuple[int, ...] | None = None
    offset: int = 0
    forces_end: bool = False


class Decoded(NamedTuple):
    """An output of the model.

    Attributes:
        ids: token ids without EOS.
        log_probability: log probability under the model, including EOS. Top-k, top-p,
            and temperature do not change it.
    """

    ids: list[int]
    log_probability: float


@dataclass(frozen=True)
class Search:
    """Options of decoding.

    Attributes:
        num: number of outputs for each input.
        max_length: maximum number of tokens of an output, including EOS.
        min_length: minimum number of tokens before EOS.
        beam: whether to decode by beam search with `num` beams and no length penalty.
        top_k: number of the most probable tokens to draw from. 1 means greedy decoding,
            and 0 means all tokens.
        top_p: probability mass of the most probable tokens to draw from.
        temperature: divisor of the logits for draws.
    """

    num: int = 1
    max_length: int = 64
    min_length: int = 0
    beam: bool = False
    top_k: int = 1
    top_p: float = 1.0
    temperature: float = 1.0


class Engine:
    """A model in CTranslate2."""

    def __init__(
        self,
        folder: os.PathLike[str] | str,
        rules: Rules,
        *,
        seed: int = 0,
        batch_size: int = 32,
    ):
        """Loads a model folder.

        Args:
            folder: folder of `writer.write`, written with `tokens=None`.
            rules: meaning of the tokens.
            seed: seed of the draws. CTranslate2 seeds each thread once. Draws are equal
                in another process that decodes the same inputs in the same order.
            batch_size: number of inputs that are decoded together.

        Raises:
            UserError: CTranslate2 is not installed or cannot read the folder.
        """
        writer.check_installed()
        import ctranslate2

        ctranslate2.set_random_seed(seed)
        self._rules, self._batch_size = rules, batch_size
        only = rules.start is not None
        make = ctranslate2.Generator if only else ctranslate2.Translator
        try:
            self._model: Any = make(
                os.fspath(folder), intra_threads=len(os.sched_getaffinity(0))
            )
        except RuntimeError as error:
            raise UserError(
                f"{folder}: CTranslate2 cannot read it ({error}). Remove the folder, "
                "and run the command again."
            ) from error

    def __call__(
        self, inputs: Sequence[Sequence[int]], search: Search
    ) -> list[list[Decoded]]:
        """Returns `search.num` outputs of each input, the best first.

        Args:
            inputs: token ids of each input. Inputs of an encoder include EOS, and
                prompts do not include `Rules.start`.
            search: options of decoding.
        """
        rules = self._rules
        length = search.max_length - rules.forces_end
        draws = not search.beam and search.top_k != 1
        num = search.num if search.beam or draws else 1
        options: dict[str, Any] = {
            "beam_size": num if search.beam else 1,
            "patience": _PATIENCE,
            "num_hypotheses": num,
            "length_penalty": 0.0,
            "sampling_topk": search.top_k if search.top_k < rules.size else 0,
            "sampling_topp": search.top_p,
            "sampling_temperature": search.temperature,
            "max_batch_size": self._batch_size,
            "return_scores": True,
            "suppress_sequences": [[one] for one in self._rows(rules.barred)] or None,
            "end_token": [number - rules.offset for number in rules.ends],
        }
        tokens = [self._rows(ids) for ids in inputs]
        if rules.start is not None:
            found = self._model.generate_batch(
                tokens,
                static_prompt=self._rows(rules.start),
                include_prompt_in_result=False,
                max_length=length,
                min_length=search.min_length,
                **options,
            )
            texts = [one.sequences for one in found]
        else:
            found = self._model.translate_batch(
                tokens,
                max_input_length=0,
                max_decoding_length=length,
                min_decoding_length=search.min_length,
                **options,
            )
            texts = [one.hypotheses for one in found]
        scores = [one.scores for one in found]
        outputs = map(self._decoded, texts, scores)
        # All greedy outputs of an input are equal.
        return [own * (search.num // num) for own in outputs]

    def log_likelihoods(
        self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]
    ) -> list[float]:
        """Returns the log probability of each output behind its input, in nats.

        The model is decoder-only.

        Args:
            inputs: token ids of each prompt, as for decoding.
            outputs: one or more token ids of each output.
        """
        start = self._rules.start or ()
        rows = [
            self._rows([*start, *one, *other])
            for one, other in zip(inputs, outputs, strict=True)
        ]
        # Rows of similar length need little padding.
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        found = self._model.score_batch(
            [rows[place] for place in order], max_batch_size=self._batch_size
        )
        values = {
            place: sum(one.log_probs[-len(outputs[place]) :])
            for place, one in zip(order, found, strict=True)
        }
        return [values[place] for place in range(len(rows))]

    def _rows(self, ids: Sequence[int]) -> list[str]:
        return [str(number - self._rules.offset) for number in ids]

    def _decoded(
        self, texts: Sequence[Sequence[str]], scores: Sequence[float]
    ) -> list[Decoded]:
        offset = self._rules.offset
        return [
            Decoded([int(row) + offset for row in text], score)
            for text, score in zip(texts, scores, strict=True)
        ]
