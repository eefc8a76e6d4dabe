"""The human variants of SGD-X as an oracle, an upper bound for paraphrasers.

    jaxaug augment --config configs/augment/oracle.py --data_dir SGD --out OUT

The config uses the descriptions of `SGD/sgd_x/data/v1..v5` in this order. As in all
schemes, names stay unchanged; the field `names` selects the names of SGD-X.
"""

import ml_collections


def get_config() -> ml_collections.ConfigDict:
    """Takes no text behind the colon."""
    config = ml_collections.ConfigDict()
    config.name = "SGD-X"
    config.scheme = "given"
    config.options = {"folder": "sgdx"}
    config.metrics = {"jaccard": {}, "bleu": {}}
    config.report = {"jaccard": {}, "bleu": {}, "self_bleu": {}}
    return config
