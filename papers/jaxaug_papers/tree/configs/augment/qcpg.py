"""QCPG + BLEURT of Coca et al. (2023), appendix E.

    jaxaug models fetch qcpg-sentences bleurt-20
    jaxaug augment --config configs/augment/qcpg.py --data_dir SGD --out OUT

The quality-controlled paraphraser (Bandel et al., 2022) gives a greedy output for each
of 100 settings of semantic, lexical, and syntactic distance. The tree ranks them with
BLEURT instead of entailment. The paper does not publish its settings, so these are our
choice. The models are on the Hugging Face hub only. `qcpg.py:captions` uses another
paraphraser.
"""

import itertools

import ml_collections


def get_config(kind: str = "sentences") -> ml_collections.ConfigDict:
    """The text behind the colon is sentences, questions or captions."""
    config = ml_collections.ConfigDict()
    config.name = "QCPG + BLEURT"
    config.scheme = "qcpg"
    targets = itertools.product(
        (75, 80, 85, 90, 95), (10, 30, 50, 70, 90), (10, 25, 40, 60)
    )
    config.options = {
        "kind": kind,
        "num": 1,
        "beams": 1,
        "grid": tuple(
            {"semantic": semantic, "lexical": lexical, "syntactic": syntactic}
            for semantic, lexical, syntactic in targets
        ),
    }
    config.metrics = {
        "jaccard": {},
        "bleurt": {"model": "bleurt-20"},
        "string_similarity": {},
        "bleu": {},
    }
    config.select = "tree"
    config.tree = {
        "levels": ("jaccard", "bleurt", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": ("jaccard <= 0.75",),
    }
    config.report = {
        "jaccard": {},
        "bleurt": {"model": "bleurt-20"},
        "bleu": {},
        "self_bleu": {},
    }
    config.beside = {"SGD-X": "sgdx"}
    return config
