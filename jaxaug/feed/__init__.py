"""Pipeline from records to batches.

`recipes` names the data sets, `cache` formats each of them once into sharded files,
`tokens` turns those into token caches, and `batches` feeds them to training. `source`
streams the same examples to SeqIO.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "arrays": ["TokenCache"],
        "batches": ["TokenBatches"],
        "cache": ["Recipe", "RecordCache"],
        "parallel": ["Corpus"],
        "recipes": ["Table", "table"],
    },
)
