"""From records to batches.

`recipes` names the sets, `cache` formats each of them once into sharded files, `source`
streams those to SeqIO, `tokens` and `batches` to a trainer without TensorFlow.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "batches": ["TokenBatches", "TokenCache"],
        "cache": ["Recipe", "RecordCache"],
        "parallel": ["Corpus"],
        "recipes": ["Table", "table"],
    },
)
