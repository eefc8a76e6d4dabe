"""Variants by the rewording grammar: rules and synonyms, in seconds, without a model.

    jaxaug augment --config configs/augment/grammar.py --data_dir SGD --out OUT

The grammar yields at most 100 rewordings of each text; `grammar.py:N` asks for N. A
tree ranks them without a model: by shared words (Jaccard), by the probability of being
well formed and faithful (`faithful` by the words alone, at least 0.4), then by string
similarity.
`grammar_tree.py` adds MiniLM.
"""

import ml_collections


def get_config(num: str = "100") -> ml_collections.ConfigDict:
    """The text after the colon is the number of rewordings of a text."""
    config = ml_collections.ConfigDict()
    config.name = "grammar"
    config.scheme = "grammar"
    config.options = {"num": int(num)}
    config.metrics = {
        "jaccard": {},
        "faithful": {"model": ""},
        "string_similarity": {},
        "length": {"path": "jaxaug.augment.judge.small_models:length"},
    }
    config.select = "tree"
    config.tree = {
        "levels": ("jaccard", "faithful", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": (
            "faithful >= 0.4",
            "jaccard <= 0.95",
            "length <= 2.5",
            "length >= 0.3",
        ),
        "syntactic": None,
    }
    config.report = {"jaccard": {}, "bleu": {}, "self_bleu": {}}
    return config
