"""The human variants of SGD-X as an oracle: what the best paraphraser could do.

    jaxaug augment --config configs/augment/oracle.py --data_dir SGD --out OUT

Takes the descriptions of `SGD/sgd_x/data/v1..v5`, in their order. Names stay as they
are, as in all schemes; to take those of SGD-X too, set `names`.
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
