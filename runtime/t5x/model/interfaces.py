"""The interface between models and decode functions, and lazy imports of seqio."""

import abc
import importlib
from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float, Int

DecodeFnCallable = Callable[
    ...,
    tuple[Int[Array, "batch num_decodes length"], Float[Array, "batch num_decodes"]],
]
"""A decode function such as `t5x.decoding.beam_search`.

Models call it by keyword with:

- inputs [batch, length]: tokens to force; 0 is a free position.
- cache: arrays with a leading batch dimension. The function repeats each row
  num_decodes times (exceptions: see `decoding.cache_map`).
- tokens_to_logits: a `decode_state.TokensToLogits` of batch * num_decodes rows.
- eos_id: token that ends a sequence.
- num_decodes: sequences per row.
- decode_rng: key for sampling; passed if the caller has one.
- cache_offset: axes before the batch in the cache (1 for scanned layers).
- all entries of `decoder_params`.

It returns sequences and scores in ascending order of score: the best one is last.
"""


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
