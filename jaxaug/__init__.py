"""Schema augmentation and robust dialogue state tracking on JAX.

`paraphrase`, `augment_schema`, `Tracker`, `evaluate` and `load_dialogues` are imported when
they are first used (docs/python.md). Importing this package registers nothing and imports
neither JAX nor TensorFlow nor SeqIO.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    # Calling this package is `jaxaug.augment.plain.people.paraphrase`.
    submodules=["paraphrase"],
    submod_attrs={
        "api": ["augment_schema", "evaluate", "load_dialogues"],
        "track": ["Tracker"],
    },
)
__version__ = "0.1.0"
