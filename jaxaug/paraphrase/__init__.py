"""Paraphrases of lines of text.

`Decoder` batches by length and decodes with a model and a `Sampler`. `Paraphraser`
applies a grid of settings, and `candidates` merges the outputs. `jaxaug paraphrase`
with a sampler or prompt is `run`. Without them it is `jaxaug.augment.plain.people`,
which `jaxaug.paraphrase(texts)` also calls.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import lazy_loader

from jaxaug.core.installed import extras_of

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "candidates": ["Candidate", "merged"],
        "decoder": ["Decoder", "Output"],
        "generation": ["Paraphraser", "Setting"],
        "samplers": ["SAMPLERS", "Sampler"],
    },
)


class _Callable(ModuleType):
    """A callable package: importing it hides a function with the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> list[list[str]]:
        """See `jaxaug.augment.plain.people.paraphrase`."""
        # The filter is in a higher layer and is loaded by name, like verbs.
        people = importlib.import_module("jaxaug.augment.plain.people")
        with extras_of("jaxaug.paraphrase"):
            return people.paraphrase(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
