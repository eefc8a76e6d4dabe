"""Variants by the rewording grammar, ranked with MiniLM: a schema in less than a minute.

    jaxaug models fetch minilm
    jaxaug augment --config configs/augment/grammar_tree.py --data_dir SGD --out OUT
    jaxaug augment --config configs/augment/grammar_tree.py:careful ...

At most 200 rewordings of each text; `grammar_tree.py:N` asks for N. `careful` uses only synonyms that labels confirm,
and all others for texts that then lack variants: fewer mistakes in a new domain, and less variety. The variants are those
that differ most from the source and from each other in words and frames, as far as
the meaning is similar. MiniLM similarity replaces the entailment of the paper. What is
nearer to another slot or intent of its service is dropped. `--model openai:NAME --endpoint URL`, or
`--model smollm2`, asks a language model about the texts that still lack variants.
"""

import ml_collections


def get_config(num: str = "200") -> ml_collections.ConfigDict:
    """The text behind the colon is the number of rewordings of a text, or `careful`."""
    config = ml_collections.ConfigDict()
    config.name = "grammar tree"
    config.scheme = "grammar"
    config.options = {"num": 200 if num == "careful" else int(num)}
    if num == "careful":
        config.further = ({"scheme": "grammar", "options": dict(config.options)},)
        config.options["confirmed"] = True
    config.apart_by = "similarity"
    config.metrics = {
        "jaccard": {},
        "similarity": {
            "path": "jaxaug.augment.judge.small_models:similarity",
            "model": "minilm",
        },
        "string_similarity": {},
        "length": {"path": "jaxaug.augment.judge.small_models:length"},
    }
    config.select = "tree"
    config.tree = {
        "levels": ("jaccard", "similarity", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": (
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
    config.beside = {
        "EDA": {
            "scheme": "sentence",
            "options": {"method": "eda", "num": 20},
            "metrics": {"jaccard": {}},
        },
        "SGD-X": "sgdx",
    }
    return config
