"""`jaxaug classify`: do paraphrases of the training data make a better classifier?

Table 5 of Kumar et al. (2019), and their recognition of paraphrases. `run` is the verb,
`examples` what is trained on, `rows` where paraphrases come from, `classifiers` what is
trained, `tables` and `plot` what comes of it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "config": ["Config"],
        "classifiers": ["Fold"],
        "examples": ["Draw", "Example"],
        "rows": ["Method"],
    },
)
