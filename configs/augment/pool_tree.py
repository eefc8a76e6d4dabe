"""Rewordings by the model trained on the corpus and by rules, chosen by `spread`.

    jaxaug augment --config configs/augment/pool_tree.py --data_dir DIR --out OUT

Each text gets eight outputs of `rewording-paraphraser` for each of five grades, from
near to far, and at most 100 rewordings by the grammar. The judge drops those whose
probability of being faithful (docs/judge.md) is below 0.7. `spread` takes those that
differ most from the text and from each other. `pool_tree.py:LEAST` sets another limit.
`pool_tree.py:LEAST,reworder` or `pool_tree.py:LEAST,grammar` takes one scheme alone.
`pool_tree.py:LEAST,pool,SELECTOR` takes another of `SELECTORS`: `tree` (Algorithm 3 of
Coca et al., 2023, with J <= 0.75 and one paraphrase with J = 0), `faithful` (the most
faithful candidates), or `random`. Needs the extras `nlp` and `report`; CTranslate2
(extra `engine`) makes it faster.
"""

import ml_collections

SCHEMES = {"reworder": {"num": 8}, "grammar": {"num": 100}}
CONSTRAINTS = ("similarity >= 0.5", "length <= 2.5", "length >= 0.3")
SELECTORS = {
    "spread": {"walk": "spread", "syntactic": None},
    "tree": {"walk": "rounds", "syntactic": "decisions"},
    "faithful": {"levels": ("faithful",), "decisions": ("max",)},
    "random": {"levels": ("chance",), "decisions": ("max",)},
}


def get_config(text: str = "0.7") -> ml_collections.ConfigDict:
    """The text after the colon is the least probability, a scheme, and a selector.

    Schemes: pool, reworder, grammar. Selectors: spread, tree, faithful, random.
    """
    least, scheme, selector = [*text.split(","), "pool", "spread"][:3]
    config = ml_collections.ConfigDict()
    config.name = f"{scheme} {selector}"
    config.scheme = "pool"
    config.options = {
        "schemes": SCHEMES if scheme == "pool" else {scheme: SCHEMES[scheme]}
    }
    config.shard_size = 32
    config.apart_by = "similarity"
    small = "jaxaug.augment.judge.small_models"
    config.metrics = {
        "jaccard": {},
        "similarity": {"path": f"{small}:similarity", "model": "minilm"},
        "faithful": {"model": "rewording-paraphraser"},
        "string_similarity": {},
        "length": {"path": f"{small}:length"},
    }
    config.select = "tree"
    config.tree = {
        "levels": ("jaccard", "faithful", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": (f"faithful >= {float(least)}", *CONSTRAINTS),
    } | SELECTORS[selector]
    if selector == "tree":
        config.tree.constraints += ("jaccard <= 0.75",)
    elif selector != "spread":
        (level,) = config.tree.levels
        # A node for each candidate.
        config.tree.update(diversity=level, decimals=9, syntactic=None)
        if level == "chance":
            config.metrics[level] = {"path": f"{small}:chance"}
    config.report = {
        "jaccard": {},
        "similarity": {"model": "minilm"},
        "bleu": {},
        "self_bleu": {},
    }
    return config
