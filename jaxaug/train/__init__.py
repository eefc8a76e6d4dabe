"""The small trainers that T5X does not cover: few-shot classification.

`jaxaug fewshot` is `fewshot.run`; the network is in `triplet`, the augmentation of its
training sentences in `methods`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "config": ["Config"],
        "triplet": ["Network", "Settings", "Trainer"],
    },
)
