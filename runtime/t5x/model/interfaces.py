"""Protocols between models and decode functions, and lazy imports of seqio."""

import abc
import importlib
from collections.abc import Mapping
from typing import Any, Protocol

from jaxtyping import Array, Float, Int

from t5x.search.decode_state import DecodingState


class TokensIdsToLogitsCallable(Protocol):
    """One decoding step, as seen by a decode function."""

    def __call__(
        self, decoding_state: DecodingState
    ) -> tuple[Float[Array, "rows vocab"], Mapping[str, Any]]:
        """Feeds `decoding_state.cur_token`; returns the logits and the new cache."""
        ...


class DecodeFnCallable(Protocol):
    """A decode function such as `t5x.decoding.beam_search`.

    Models call it with keyword arguments, including everything in `decoder_params`.
    """

    def __call__(
        self, *args: Any, **kwargs: Any
    ) -> tuple[
        Int[Array, "batch num_decodes length"], Float[Array, "batch num_decodes"]
    ]:
        """Decodes a batch.

        All arguments come by keyword:

        - inputs [batch, length]: tokens to force; 0 is a free position.
        - cache: arrays with a leading batch dimension. The function repeats each row
          num_decodes times (exceptions: see `decoding.cache_map`).
        - tokens_to_logits: a `TokensIdsToLogitsCallable` of batch * num_decodes rows.
        - eos_id: token that ends a sequence.
        - num_decodes: sequences per row.
        - decode_rng: key for sampling; passed if the caller has one.
        - cache_offset: axes before the batch in the cache (1 for scanned layers).
        - all entries of `decoder_params`.

        The signature is open, so that a function may name only the options it needs.

        Returns:
            Sequences and scores in ascending order of score: the best one is last.
        """
        ...


class LazyAttribute:
    """Class attribute that is imported on first access.

    It keeps `import t5x.models` free of seqio and TensorFlow. An instance attribute may
    shadow it.
    """

    def __init__(self, path: str):
        self.path = path
        self._module, _, self._name = path.partition(":")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return getattr(importlib.import_module(self._module), self._name)


class ModelType(abc.ABCMeta):
    """Metaclass of models: leaves lazy attributes out of `dir`.

    When a gin file first names a model, gin reads every attribute that `dir` lists.
    Lazy attributes in that list would import seqio and TensorFlow in runs that need
    neither.
    """

    def __dir__(cls) -> list[str]:
        names = super().__dir__()
        lazy = {k for c in cls.__mro__ for k, v in vars(c).items() if _is_lazy(v)}
        return [name for name in names if name not in lazy]


def _is_lazy(value: Any) -> bool:
    return isinstance(value, LazyAttribute)
