"""Schema augmentation: from a schema to variants of it.

`augment(config, data_dir, out)` does everything. `plan` resolves a config once, and has
the stages: `schemes` give outputs for `descriptions`, and `judge` filters and measures
them. `selection` ranks the rest by a tree, and `output` writes variants and reports.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "config": ["Config", "Spec"],
        "descriptions": ["Description"],
        "selection": ["Judged", "Ranking", "Result", "build", "rank"],
        "run": ["augment"],
    },
)
