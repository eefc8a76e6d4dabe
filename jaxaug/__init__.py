"""Schema augmentation and robust dialogue state tracking on JAX.

`paraphrase`, `augment_schema`, `Tracker`, `evaluate`, `load_dialogues`, and
`sensitivity` are imported on first use (docs/python.md). The import of this package
registers nothing and does not import JAX, TensorFlow, or SeqIO.
"""

import importlib
from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    # A call of this package calls `jaxaug.augment.plain.people.paraphrase`.
    submodules=["paraphrase"],
    submod_attrs={
        "api": ["augment_schema", "evaluate", "load_dialogues"],
        "tools.run": ["sensitivity"],
        "track": ["Tracker"],
    },
)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # By name, because that module imports this one.
    installed = importlib.import_module("jaxaug.core.installed")
    with installed.extras_of(f"jaxaug.{name}"):
        return _load(name)
