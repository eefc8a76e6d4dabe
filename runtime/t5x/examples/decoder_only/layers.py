"""Layers of `t5x.examples.t5.layers`, under the name that decoder_only users import."""

from t5x.examples.t5.layers import *
