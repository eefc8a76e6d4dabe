"""Paraphrases of lines of text.

`Decoder` batches by length and decodes with a model and a `Sampler`; `Paraphraser` goes
through a grid of settings; `candidates` merges what came out. `jaxaug paraphrase` with a
sampler or prompt is `run`; without, it is `jaxaug.augment.plain.people`, which
`jaxaug.paraphrase(texts)` calls too.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import lazy_loader

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
    """A package that is a function too: importing it hides a function of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> list[list[str]]:
        """See `jaxaug.augment.plain.people.paraphrase`."""
        # The filter is on a floor above, and is loaded as verbs are: by name.
        people = importlib.import_module("jaxaug.augment.plain.people")
        return people.paraphrase(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
