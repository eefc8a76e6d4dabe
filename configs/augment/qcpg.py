"""Quality-controlled paraphrases (Bandel et al., 2022), ranked by the tree.

    jaxaug models fetch qcpg-sentences
    jaxaug augment --config configs/augment/qcpg.py --data_dir SGD --out OUT

The controls walk through the grid of `jaxaug.augment.schemes.qcpg`, four outputs of a beam for
each. The model is on the Hugging Face hub only. `qcpg.py:captions` takes another one.
"""

import ml_collections


def get_config(kind: str = "sentences") -> ml_collections.ConfigDict:
    """The text behind the colon is sentences, questions or captions."""
    config = ml_collections.ConfigDict()
    config.name = "QCPG"
    config.scheme = "qcpg"
    config.options = {"kind": kind, "num": 4, "beams": 4}
    config.metrics = {
        "jaccard": {},
        "similarity": {"model": "minilm"},
        "string_similarity": {},
        "bleu": {},
    }
    config.select = "tree"
    config.tree = {
        "levels": ("jaccard", "similarity", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": ("jaccard <= 0.75",),
    }
    config.report = {
        "jaccard": {},
        "similarity": {"model": "minilm"},
        "bleu": {},
        "self_bleu": {},
    }
    config.beside = {"SGD-X": "sgdx"}
    return config
