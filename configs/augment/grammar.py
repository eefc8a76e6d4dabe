"""Variants by the rewording grammar: rules and synonyms, in seconds, without a model.

    jaxaug augment --config configs/augment/grammar.py --data_dir SGD --out OUT

The grammar yields at most 200 rewordings of each text; `grammar.py:N` asks for N. A
tree ranks them without a model: by shared words (Jaccard), by the estimated probability
of being well formed and faithful (`sound`, at least 0.5), then by string similarity.
`grammar_tree.py` adds MiniLM.
"""

import ml_collections


def get_config(num: str = "200") -> ml_collections.ConfigDict:
    """The text after the colon is the number of rewordings of a text."""
    config = ml_collections.ConfigDict()
    config.name = "grammar"
    config.scheme = "grammar"
    config.options = {"num": int(num)}
    config.metrics = {
        "jaccard": {},
        "sound": {"model": ""},
        "string_similarity": {},
        "length": {"path": "jaxaug.augment.judge.small_models:length"},
    }
    config.select = "tree"
    config.tree = {
        "levels": ("jaccard", "sound", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": (
            "sound >= 0.5",
            "jaccard <= 0.95",
            "length <= 2.5",
            "length >= 0.3",
        ),
        "syntactic": None,
    }
    config.report = {"jaccard": {}, "bleu": {}, "self_bleu": {}}
    return config
