"""Schema augmentation: from a schema to variants of it.

`augment(config, data_dir, out)` does all: `descriptions` are the texts of a schema,
`schemes` give outputs for them, `judge` filters and measures those, `tree` ranks what is
left, `pipeline` runs these stages in shards, `output` writes variants and reports.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "config": ["Config"],
        "descriptions": ["Description"],
        "result": ["Judged", "Result"],
        "run": ["augment"],
        "tree": ["Ranking", "Spec", "build", "rank"],
    },
)
