"""An example of each kind of extension of jaxaug."""

import dataclasses
import functools
import os
from typing import ClassVar

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from jaxaug.decode import sample
from jaxaug.formats.d3st import D3STOptions


def min_p(*, p: float = 0.1):
    """A sampler: excludes tokens below p times the greatest probability."""

    def warper(logits, state):
        del state
        chances = jax.nn.softmax(logits, axis=-1)
        least = p * jnp.max(chances, axis=-1, keepdims=True)
        return jnp.where(chances < least, jnp.finfo(logits.dtype).min, logits)

    return functools.partial(sample.sample, warpers=(warper,))


def shout(text, rng, *, rate: float = 0.5):
    """A scheme: upper case for some of the words."""
    words = text.split(" ")
    return " ".join(w.upper() if rng.random() < rate else w for w in words)


class PoliteFormatter:
    """Puts a word before the text of another formatter."""

    def __init__(self, formatter):
        self._formatter = formatter

    def dialogue(self, dialogue, epoch=0):
        for example in self._formatter.dialogue(dialogue, epoch):
            inputs = f"please {example.inputs}"
            yield msgspec.structs.replace(example, inputs=inputs)


@dataclasses.dataclass(frozen=True)
class PoliteOptions(D3STOptions):
    """A format: D3ST that asks nicely."""

    family: ClassVar[str] = "polite"
    version: ClassVar[int] = 1  # Raise it whenever the text changes.

    def formatter(self, schema):
        return PoliteFormatter(super().formatter(schema))


polite = PoliteOptions()


def length_ratio():
    """A metric: words of the candidate per word of the source."""

    def metric(sources, candidates):
        pairs = zip(sources, candidates, strict=True)
        return np.array([len(c.split()) / len(s.split()) for s, c in pairs])

    return metric


def house():
    """A model: a folder of weights with a name."""
    from jaxaug.models.text import registry

    loaded = registry.load(os.environ["HOUSE_MODEL"])
    return dataclasses.replace(loaded, label="house")
