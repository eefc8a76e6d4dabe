"""`jaxaug fewshot`: few-shot text classification with a triplet network.

`run` implements the verb, `triplet` the network, `methods` the augmentation of its
training sentences, and `tables` and `plot` the report.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"config": ["Config"], "triplet": ["Network", "Settings", "Trainer"]},
)
