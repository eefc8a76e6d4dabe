"""Streams inputs through the rows of one batch; see `jaxaug.decode.refill`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxaug.core.buckets import pad
from jaxaug.decode import contract, refill, sample
from jaxaug.models import programs
from jaxaug.models.t5 import SourceEncoderDecoderModel
from jaxaug.models.text.language import LanguageModel, LineModel
from jaxaug.models.text.registry import TextModel
from jaxaug.paraphrase import samplers

# One in `_SHARE` rows is refilled at a time. The prompts of several inputs then go
# through the model together, and few rows wait for them.
_SHARE = 8

Decodes = Int[np.ndarray, "num max_length"]


def decodes(
    model: TextModel | LanguageModel,
    decode_fn: Callable[..., Any],
    num: int,
    max_length: int,
    params: Any,
    key: Array,
    inputs: Sequence[tuple[int, Sequence[int]]],
    length: int,
    rows: int,
) -> Iterator[dict[int, Decodes]]:
    """Yields the outputs of all inputs, equal to the outputs of the model's `decode`.

    Args:
        decode_fn: a decode function that samples (`samplers.chain`).
        inputs: (number, tokens) pairs; the number identifies the random draws.
        rows: outputs that are decoded together, at least `num`.

    Yields:
        Number -> outputs of some inputs; the best by the sampler's score is last.
    """
    settings = (decode_fn, num, max_length)
    together = max(1, rows // _SHARE // num)
    waiting = list(inputs)
    seats = _Seats(rows, num)
    current = _none(model, *settings, rows, together, params, key, length)
    while waiting or seats.taken:
        while waiting and seats.free >= together * num:
            batch, waiting = waiting[:together], waiting[together:]
            places = seats.give([number for number, _ in batch])
            prompts = pad([tokens for _, tokens in batch], together, length)
            numbers = np.resize([number for number, _ in batch], together)
            current = _fill(
                model, *settings, params, key, prompts, numbers.astype(np.int32),
                np.pad(places, (0, together * num - len(places)), constant_values=rows),
                current,
            )  # fmt: skip
        enough = min(rows, seats.free + together * num) if waiting else rows
        current, finished = _advance(
            model, *settings, params, current, np.int32(enough)
        )
        if found := seats.leave(*jax.device_get(finished)):
            yield found


class _Seats:
    """Assignment of the outputs of inputs to rows."""

    def __init__(self, rows: int, num: int):
        self._num = num
        self._owner: list[tuple[int, int] | None] = [None] * rows
        self._done: dict[int, dict[int, tuple[float, np.ndarray]]] = {}

    @property
    def free(self) -> int:
        return self._owner.count(None)

    @property
    def taken(self) -> int:
        return len(self._owner) - self.free

    def give(self, numbers: Sequence[int]) -> np.ndarray:
        """Returns a free row for each output of the inputs."""
        empty = [row for row, owner in enumerate(self._owner) if owner is None]
        wanted = [(number, i) for number in numbers for i in range(self._num)]
        places = empty[: len(wanted)]
        for row, owner in zip(places, wanted, strict=True):
            self._owner[row] = owner
        return np.array(places, np.int32)

    def leave(
        self, ended: np.ndarray, outputs: np.ndarray, scores: np.ndarray
    ) -> dict[int, Decodes]:
        """Frees the finished rows; returns the outputs of the complete inputs."""
        complete = {}
        for row in np.flatnonzero(ended):
            owner = self._owner[row]
            if owner is None:
                continue
            self._owner[row] = None
            number, index = owner
            own = self._done.setdefault(number, {})
            own[index] = (scores[row], outputs[row])
            if len(own) == self._num:
                found = [own[i] for i in range(self._num)]
                order = np.argsort([score for score, _ in found], kind="stable")
                complete[number] = np.stack([found[i][1] for i in order])
                del self._done[number]
        return complete


def _stepper(model: TextModel | LanguageModel, max_length: int) -> Any:
    if isinstance(model, LanguageModel):
        return LineModel(model, None, max_length)
    words = model.input_vocabulary, model.output_vocabulary
    return SourceEncoderDecoderModel(
        model.module,
        *words,
        optimizer_def=None,
        max_length=max_length,
        writes_unknown=False,
        end_together=model.end_together,
    )


def _offset(model: TextModel | LanguageModel) -> int:
    """Returns the number of axes of the cache before the rows."""
    return int(getattr(model.module, "scan_layers", False))


def _fresh(
    model: TextModel | LanguageModel,
    num: int,
    max_length: int,
    params: Any,
    key: Array,
    prompts: Int[Array, "inputs length"],
    numbers: Int[Array, " inputs"],
) -> refill.Rows:
    stepper = _stepper(model, max_length)
    begun = stepper.begin(params, prompts)
    state = sample.begin(
        begun.tokens,
        begun.cache,
        stepper.output_vocabulary.eos_id,
        num_decodes=num,
        key=key,
        identities=contract.input_identities(begun.tokens, input_ids=numbers),
        max_decode_steps=max_length,
        cache_offset=_offset(model),
        initial_index=begun.prompt,
    )
    return refill.started(state, begun.memory, num, _offset(model))


def _none(
    model: TextModel | LanguageModel,
    decode_fn: Callable[..., Any],
    num: int,
    max_length: int,
    rows: int,
    together: int,
    params: Any,
    key: Array,
    length: int,
) -> refill.Rows:
    """Returns rows without an owner."""
    del decode_fn

    def fresh(params: Any, key: Array) -> refill.Rows:
        prompts = jnp.zeros((together, length), jnp.int32)
        numbers = prompts[:, 0]
        return _fresh(model, num, max_length, params, key, prompts, numbers)

    return refill.empty(jax.eval_shape(fresh, params, key), rows, _offset(model))


@programs.of_model(static_argnums=(0, 1, 2), donate_argnums=(8,))
def _fill(
    model: TextModel | LanguageModel,
    decode_fn: Callable[..., Any],
    num: int,
    max_length: int,
    params: Any,
    key: Array,
    prompts: Int[Array, "inputs length"],
    numbers: Int[Array, " inputs"],
    places: Int[Array, " new"],
    rows: refill.Rows,
) -> refill.Rows:
    """Gives some rows to new inputs."""
    del decode_fn
    new = _fresh(model, num, max_length, params, key, prompts, numbers)
    return refill.put(rows, new, places, _offset(model))


@programs.of_model(static_argnums=(0, 1, 2), donate_argnums=(4,))
def _advance(
    model: TextModel | LanguageModel,
    decode_fn: Callable[..., Any],
    num: int,
    max_length: int,
    params: Any,
    rows: refill.Rows,
    ended: Int[Array, ""],
) -> tuple[refill.Rows, Any]:
    """Decodes until enough rows end; also returns ended rows, outputs, and scores."""
    del num
    stepper = _stepper(model, max_length)
    eos_id = stepper.output_vocabulary.eos_id
    warpers = samplers.chain(decode_fn, eos_id)
    assert warpers is not None, f"{decode_fn} does not sample"

    def to_logits(state: Any) -> Any:
        return stepper.step(params, rows.memory, state)

    rows = refill.advance(rows, sample.sampler(to_logits, warpers, eos_id), ended)
    state = rows.state
    columns = rows.prompt[:, None] + 1 + jnp.arange(max_length)
    outputs = jnp.take_along_axis(state.sequences, columns, axis=1)
    return rows, (state.ended[:, 0], outputs, state.log_prob)
