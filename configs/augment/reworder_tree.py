"""Rewordings by the model that was trained on the corpus, chosen by `spread`.

    jaxaug augment --config configs/augment/reworder_tree.py --data_dir DIR --out OUT

Each text gets eight outputs for each of five grades, from near to far;
`reworder_tree.py:N` asks for N instead of eight. The judge drops unfaithful ones
(docs/judge.md), and `spread` takes those that differ most from the text and from each
other. Needs the extras `nlp` and `report`; CTranslate2 (extra `engine`) makes it
faster.
"""

import ml_collections


def get_config(num: str = "8") -> ml_collections.ConfigDict:
    """The text after the colon is the number of outputs of each grade."""
    config = ml_collections.ConfigDict()
    config.name = "reworder spread"
    config.scheme = "reworder"
    config.options = {"num": int(num)}
    config.shard_size = 32
    config.apart_by = "similarity"
    config.metrics = {
        "jaccard": {},
        "similarity": {
            "path": "jaxaug.augment.judge.small_models:similarity",
            "model": "minilm",
        },
        "faithful": {"model": "rewording-paraphraser"},
        "string_similarity": {},
        "length": {"path": "jaxaug.augment.judge.small_models:length"},
    }
    config.select = "tree"
    config.tree = {
        "levels": ("jaccard", "faithful", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": (
            "faithful >= 0.5",
            "similarity >= 0.5",
            "length <= 2.5",
            "length >= 0.3",
        ),
        "syntactic": None,
        "walk": "spread",
    }
    config.report = {
        "jaccard": {},
        "similarity": {"model": "minilm"},
        "bleu": {},
        "self_bleu": {},
    }
    return config
