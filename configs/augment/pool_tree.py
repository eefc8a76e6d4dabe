"""Rewordings by the model trained on the corpus and by rules, chosen by `spread`.

    jaxaug augment --config configs/augment/pool_tree.py --data_dir DIR --out OUT

Each text gets eight outputs of `rewording-paraphraser` for each of five grades, from
near to far, and at most 100 rewordings by the grammar. The judge drops those whose
probability of being faithful (docs/judge.md) is below 0.7. `spread` takes those that
differ most from the text and from each other. `pool_tree.py:LEAST` sets another limit.
`pool_tree.py:LEAST,reworder` or `pool_tree.py:LEAST,grammar` takes one scheme alone.
Needs the extras `nlp` and `report`; CTranslate2 (extra `engine`) makes it faster.
"""

import ml_collections

SCHEMES = {"reworder": {"num": 8}, "grammar": {"num": 100}}


def get_config(text: str = "0.7") -> ml_collections.ConfigDict:
    """The text after the colon is the least probability, and a scheme."""
    least, _, only = text.partition(",")
    config = ml_collections.ConfigDict()
    config.name = f"{only or 'pool'} spread"
    config.scheme = "pool"
    config.options = {"schemes": {only: SCHEMES[only]} if only else SCHEMES}
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
