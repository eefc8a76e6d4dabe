"""One draw of EDA for each text, as in Coca et al. (2023), without any check.

    for k in 1 2 3 4 5; do
      jaxaug augment --config papers/jaxaug_papers/tree/configs/augment/eda_draw.py:$k \
        --out OUT/$k
    done

The text after the colon is the seed. The first variant of each run is one variant of
the paper, which may be the text itself or equal another one. `configs/augment/eda.py`
takes five draws that differ instead.
"""

import ml_collections


def get_config(seed: str = "0") -> ml_collections.ConfigDict:
    """The text after the colon is the seed of the draws."""
    config = ml_collections.ConfigDict()
    config.name = "EDA, one draw"
    config.scheme = "sentence"
    config.options = {
        "method": "eda", "num": 1,
        "replace": 0.25, "insert": 0.05, "swap": 0.05, "delete": 0.05,
    }  # fmt: skip
    config.seed = int(seed)
    config.variants = 1
    config.checks = ()
    config.tidy = False
    config.metrics = {"jaccard": {}}
    config.report = {"jaccard": {}, "bleu": {}}
    return config
