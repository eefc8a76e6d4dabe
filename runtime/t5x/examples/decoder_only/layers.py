"""Layers of `t5x.examples.t5.layers`, under the name that decoder_only users import."""

from t5x.examples.t5 import layers as _layers
from t5x.examples.t5.layers import *

__all__ = list(_layers.__all__)
