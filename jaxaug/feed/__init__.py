"""Pipeline from records to batches.

`recipes` names the data sets, and `cache` formats each of them once into sharded files.
`tokens` turns those into token caches. `sets` are the tasks and mixtures that have
them, and `batches` feeds them to training.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "batches": ["TokenBatches"],
        "cache": ["Recipe", "RecordCache"],
        "parallel": ["Corpus"],
        "recipes": ["Table", "table"],
        "tokens": ["TokenCache"],
    },
)
