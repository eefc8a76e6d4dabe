"""Variants by the rewording grammar and `spread`, with MiniLM, in less than a minute.

    jaxaug augment --config configs/augment/grammar_tree.py --data_dir SGD --out OUT

`grammar_tree.py:LEAST` keeps only rewordings whose probability of being well formed and
faithful (metric `faithful`) is at least LEAST, 0.5 by default. 0.8 leaves fewer wrong
texts, from which trackers learn less, and 0 leaves more varied ones.

The selector is `spread` (greedy max-min), not the tree of Coca et al.: the variants
differ most from the source and from each other in words and frames, among at most 100
rewordings of each text. `grammar_tree.py:LEAST,SELECTOR` takes another one: `tree`
(Algorithm 3 of Coca et al., 2023, with J <= 0.75 and one paraphrase with J = 0),
`faithful` (the most faithful candidates), or `random`. `faithful` replaces the
entailment of the paper. A
rewording that is more similar to another slot or intent of its service is dropped.
`--model openai:NAME --endpoint URL`, or `--model smollm2`, asks a language
model for rewordings of texts that still lack variants.
"""

import ml_collections

# Nodes of nine decimals hold one candidate each.
_ONE_LEVEL = {"decisions": ("max",), "decimals": 9, "walk": "rounds"}
SELECTORS = {
    "spread": {},
    "tree": {"walk": "rounds", "syntactic": "decisions"},
    "faithful": {"levels": ("faithful",), "diversity": "faithful", **_ONE_LEVEL},
    "random": {"levels": ("chance",), "diversity": "chance", **_ONE_LEVEL},
}


def get_config(text: str = "0.5") -> ml_collections.ConfigDict:
    """The text after the colon is the least probability and a selector."""
    least, selector = [*text.split(","), "spread"][:2]
    config = ml_collections.ConfigDict()
    config.name = f"grammar {selector}"
    config.scheme = "grammar"
    config.options = {"num": 100}
    config.apart_by = "similarity"
    config.metrics = {
        "jaccard": {},
        "similarity": {"flags": False},
        "faithful": {},
        "string_similarity": {},
        "length": {},
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
    } | SELECTORS[selector]
    if selector == "tree":
        config.tree.constraints += ("jaccard <= 0.75",)
    if selector == "random":
        config.metrics.chance = {}
    config.report = {"jaccard": {}, "similarity": {}, "bleu": {}, "self_bleu": {}}
    config.beside = {
        "EDA": {
            "scheme": "sentence",
            "options": {"method": "eda", "num": 20},
            "metrics": {"jaccard": {}},
        },
        "SGD-X": "sgdx",
    }
    return config
