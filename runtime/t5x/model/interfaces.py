"""What models and decode functions ask of each other, and what keeps models free of seqio."""

import abc
import importlib
from collections.abc import Mapping
from typing import Any, Protocol

from jaxtyping import Array, Float, Int

from t5x.search.decode_state import DecodingState


class TokensIdsToLogitsCallable(Protocol):
    """One decoding step, as a decode function sees it."""

    def __call__(
        self, decoding_state: DecodingState
    ) -> tuple[Float[Array, "rows vocab"], Mapping[str, Any]]:
        """Feeds `decoding_state.cur_token`; returns next-token logits and the new cache."""
        ...


class DecodeFnCallable(Protocol):
    """A decode function such as `t5x.decoding.beam_search`.

    It is called by keyword, with everything in the model's `decoder_params` besides.
    """

    def __call__(
        self, *args: Any, **kwargs: Any
    ) -> tuple[
        Int[Array, "batch num_decodes length"], Float[Array, "batch num_decodes"]
    ]:
        """Decodes a batch.

        The arguments have the names

          - inputs [batch, length]: tokens to force; 0 is a free position.
          - cache: arrays that lead with the batch; the function repeats each row
            num_decodes times in place (`decoding.cache_map` knows the exceptions).
          - tokens_to_logits: a `TokensIdsToLogitsCallable` of batch * num_decodes rows.
          - eos_id: token that ends a sequence.
          - num_decodes: sequences for each row.
          - decode_rng: key for sampling; passed if the caller has one.
          - cache_offset: axes before the batch in the cache (1 for scanned layers).

        and those of `decoder_params`. All come by keyword. The signature leaves them
        open so that functions fit which know only the options they need.

        Returns:
            Sequences and scores, in ascending order of score: the best one is last.
        """
        ...


class LazyAttribute:
    """Class attribute that is imported when it is first read.

    Keeps `import t5x.models` free of seqio, and with it TensorFlow. An instance may
    shadow it.
    """

    def __init__(self, path: str):
        self._module, _, self._name = path.partition(":")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return getattr(importlib.import_module(self._module), self._name)


class ModelType(abc.ABCMeta):
    """Class of models: leaves lazy attributes out of `dir`.

    gin reads all that `dir` lists when a gin file first names a model, and would import
    seqio and TensorFlow for runs that need neither.
    """

    def __dir__(cls) -> list[str]:
        names = super().__dir__()
        lazy = {k for c in cls.__mro__ for k, v in vars(c).items() if _is_lazy(v)}
        return [name for name in names if name not in lazy]


def _is_lazy(value: Any) -> bool:
    return isinstance(value, LazyAttribute)
