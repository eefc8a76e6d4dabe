"""Variants by the rewording grammar and `spread`, in seconds, without a model.

    jaxaug augment --config configs/augment/grammar.py --data_dir SGD --out OUT

The grammar yields at most 100 rewordings of each text; `grammar.py:N` asks for N. They
are selected as by `grammar_tree.py`, but without MiniLM: `faithful` (at least 0.4)
reads the words alone, and rewordings without a common word are dropped.
"""

import ml_collections

from jaxaug.core import config_file


def get_config(num: str = "100") -> ml_collections.ConfigDict:
    """The text after the colon is the number of rewordings of a text."""
    config = config_file.included(__file__, "grammar_tree.py:0.4")
    config.name = "grammar"
    config.options.num = int(num)
    config.apart_by = ""
    config.metrics.faithful = {"model": ""}
    config.tree.constraints = (
        "faithful >= 0.4", "jaccard <= 0.95", "length <= 2.5", "length >= 0.3",
    )  # fmt: skip
    del config.metrics.similarity, config.report.similarity, config.beside
    return config
