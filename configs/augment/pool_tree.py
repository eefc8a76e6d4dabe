"""Rewordings by the model trained on the corpus and by rules, chosen by `spread`.

    jaxaug augment --config configs/augment/pool_tree.py --data_dir DIR --out OUT

Each text gets eight outputs of `rewording-paraphraser` for each of five grades, from
near to far, and at most 100 rewordings by the grammar. The judge drops those whose
probability of being faithful (docs/judge.md) is below 0.7. `spread` takes those that
differ most from the text and from each other. `pool_tree.py:LEAST` sets another limit.
`pool_tree.py:LEAST,reworder` or `pool_tree.py:LEAST,grammar` takes one scheme alone.
`pool_tree.py:LEAST,pool,SELECTOR` takes another selector of `grammar_tree.py`. Needs
the extras `nlp` and `report`; CTranslate2 (extra `engine`) makes it faster.
"""

import ml_collections

from jaxaug.core import config_file

SCHEMES = {"reworder": {"num": 8}, "grammar": {"num": 100}}


def get_config(text: str = "0.7") -> ml_collections.ConfigDict:
    """The text after the colon is the least probability, a scheme, and a selector.

    Schemes: pool, reworder, grammar. Selectors: spread, tree, faithful, random.
    """
    least, scheme, selector = [*text.split(","), "pool", "spread"][:3]
    config = config_file.included(__file__, f"grammar_tree.py:{least},{selector}")
    config.name = f"{scheme} {selector}"
    config.scheme = "pool"
    config.options = {
        "schemes": SCHEMES if scheme == "pool" else {scheme: SCHEMES[scheme]}
    }
    config.shard_size = 32
    config.metrics.faithful = {"model": "rewording-paraphraser"}
    del config.beside
    return config
