"""Rewordings by the model that was trained on the corpus, chosen by `spread`.

    jaxaug augment --config configs/augment/reworder_tree.py --data_dir DIR --out OUT

Each text gets eight outputs for each of five grades, from near to far; texts that still
lack variants also get rewordings by the grammar. The judge drops candidates whose
probability of being faithful (docs/judge.md) is below LEAST of `reworder_tree.py:LEAST`,
0.5 by default, and `spread` takes those that differ most from the text and from each
other. Needs the extras `nlp` and `report`; CTranslate2 (extra `engine`) makes it
faster.
"""

import ml_collections


def get_config(least: str = "0.5") -> ml_collections.ConfigDict:
    """The text after the colon is the least probability."""
    config = ml_collections.ConfigDict()
    config.name = "reworder spread"
    config.scheme = "reworder"
    config.options = {"num": 8}
    config.further = [{"scheme": "grammar", "options": {"num": 100}}]
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
            f"faithful >= {float(least)}",
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
