"""`jaxaug classify`: tests whether paraphrased training data improve a classifier.

It reproduces Table 5 of Kumar et al. (2019) and their recognition of paraphrases. `run`
implements the verb. `examples` reads the data, `rows` makes the paraphrases,
`classifiers` has the models, and `tables` and `plot` show the results.
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
