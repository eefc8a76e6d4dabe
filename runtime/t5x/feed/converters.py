"""Feature converters that are imported from SeqIO on first use."""

import inspect
import sys
from typing import Any

from t5x.model.interfaces import LazyAttribute

_NAME = "FEATURE_CONVERTER_CLS"


class LazyConverter:
    """A model's feature converter class, looked up on first use.

    The class comes from seqio, which a user-defined `get_dataset_fn` may not need.

    Attributes:
        kind: module and name of the class, such as "seqio:EncDecFeatureConverter"; None
            if the model has a class of its own.
    """

    def __init__(self, model: Any):
        found = inspect.getattr_static(model, _NAME, None)
        self.kind = found.path if isinstance(found, LazyAttribute) else None
        self._model = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._model.FEATURE_CONVERTER_CLS(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model.FEATURE_CONVERTER_CLS, name)


class UnpackedConverter:
    """A model's feature converter without packing, made on first use; see `kind` of
    `LazyConverter`.
    """

    def __init__(self, model: Any):
        self.kind = LazyConverter(model).kind
        self._model = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return unpacked(self._model)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(unpacked(self._model), name)


def converter_of(model: Any) -> Any:
    """Returns the model's feature converter class; imports seqio only if needed."""
    return (
        model.FEATURE_CONVERTER_CLS if "seqio" in sys.modules else LazyConverter(model)
    )


def unpacked_converter_of(model: Any) -> Any:
    """Returns the model's converter without packing; imports seqio only if needed."""
    return unpacked(model) if "seqio" in sys.modules else UnpackedConverter(model)


def unpacked(model: Any) -> Any:
    """Returns the model's converter; SeqIO's own converters run without AutoGraph.

    AutoGraph has nothing to convert there, and its rewriting takes longer than the rest
    of the data setup.
    """
    cls = model.FEATURE_CONVERTER_CLS
    if cls.__module__ == "seqio.feature_converters":
        import tensorflow as tf

        call = tf.autograph.experimental.do_not_convert(cls.__call__)
        cls = type(cls.__name__, (cls,), {"__call__": call})
    return cls(pack=False)
