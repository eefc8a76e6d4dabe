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

from jaxaug.core import config_file

SCHEMES = {"reworder": {"num": 8}, "grammar": {"num": 100}}
# Nodes of nine decimals hold one candidate each.
_ONE_LEVEL = {"decisions": ("max",), "decimals": 9}
SELECTORS = {
    "spread": {},
    "tree": {"walk": "rounds", "syntactic": "decisions"},
    "faithful": {
        "levels": ("faithful",), "diversity": "faithful", "walk": "rounds", **_ONE_LEVEL
    },
    "random": {
        "levels": ("chance",), "diversity": "chance", "walk": "rounds", **_ONE_LEVEL
    },
}  # fmt: skip


def get_config(text: str = "0.7") -> ml_collections.ConfigDict:
    """The text after the colon is the least probability, a scheme, and a selector.

    Schemes: pool, reworder, grammar. Selectors: spread, tree, faithful, random.
    """
    least, scheme, selector = [*text.split(","), "pool", "spread"][:3]
    config = config_file.included(__file__, f"grammar_tree.py:{least}")
    config.name = f"{scheme} {selector}"
    config.scheme = "pool"
    config.options = {
        "schemes": SCHEMES if scheme == "pool" else {scheme: SCHEMES[scheme]}
    }
    config.shard_size = 32
    config.metrics.faithful = {"model": "rewording-paraphraser"}
    config.tree = dict(config.tree) | SELECTORS[selector]
    if selector == "tree":
        config.tree.constraints += ("jaccard <= 0.75",)
    if selector == "random":
        config.metrics.chance = {}
    del config.beside
    return config
