"""Feature converters that are imported from SeqIO on first use."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

from t5x.model.interfaces import LazyAttribute

_NAME = "FEATURE_CONVERTER_CLS"


class LazyConverter:
    """A model's feature converter or its class, made on first use.

    The class comes from seqio, which the data may not need.

    Attributes:
        kind: module and name of the class, such as "seqio:EncDecFeatureConverter"; None
            if the model defines another class.
    """

    def __init__(self, model: Any, make: Callable[[Any], Any]):
        found = inspect.getattr_static(model, _NAME, None)
        self.kind = found.path if isinstance(found, LazyAttribute) else None
        self._model, self._make = model, make

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._make(self._model)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(self._model), name)


def class_of(model: Any) -> Any:
    """Returns the model's feature converter class; imports seqio only if needed."""
    return _late(model, lambda model: model.FEATURE_CONVERTER_CLS)


def unpacked_of(model: Any) -> Any:
    """Returns the model's converter without packing; imports seqio only if needed.

    SeqIO's own converters run without AutoGraph, which has nothing to convert there.
    Its rewriting takes longer than the rest of the data setup.
    """
    return _late(model, _unpacked)


def _late(model: Any, make: Callable[[Any], Any]) -> Any:
    return make(model) if "seqio" in sys.modules else LazyConverter(model, make)


def _unpacked(model: Any) -> Any:
    cls = model.FEATURE_CONVERTER_CLS
    if cls.__module__ == "seqio.feature_converters":
        import tensorflow as tf

        call = tf.autograph.experimental.do_not_convert(cls.__call__)
        own = {"__call__": call, "__module__": cls.__module__}
        cls = type(cls.__name__, (cls,), own)
    return cls(pack=False)
