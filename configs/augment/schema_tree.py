"""Tree-ranked paraphrases by a model trained on human rewordings of schemas.

    jaxaug augment --config configs/augment/schema_tree.py --data_dir DIR --out OUT

The adapter was trained on SGD-X, so data with services of SGD are refused (see
docs/adapters.md); use `smollm2_tree.py` for them.

Each text gets 150 outputs, 100 of them by the adapter. `schema_tree.py:N` asks for N
outputs from each of the six settings instead of 25. The judge drops unfaithful outputs
(docs/augment.md). Texts with fewer than five left get another 150 outputs, at most
three times. The tree ranks the rest. Needs the extras `nlp` and `report`.
"""

import pathlib

import ml_collections

PROMPT = str(pathlib.Path(__file__).with_name("reword.txt"))


def get_config(num: str = "25") -> ml_collections.ConfigDict:
    """The text after the colon is the number of outputs of each setting."""
    config = ml_collections.ConfigDict()
    config.name = "schema paraphraser tree"
    config.scheme = "paraphrase"
    common = {"num": int(num), "max_length": 32, "sampler": "top_k_top_p"}
    config.options = {
        "batch_size": 64,
        "grid": (
            common
            | {
                "model": "schema-paraphraser",
                "options": {"k": 40, "p": 0.9, "temperature": [0.6, 0.8, 1.0, 1.2]},
            },
            # The base model stays closer to commands such as "find flights".
            common
            | {
                "model": "smollm2",
                "prompt": PROMPT,
                "options": {"k": 40, "p": 0.9, "temperature": [0.7, 1.0]},
            },
        ),
    }
    config.rounds = 4
    config.filters = (
        "advice", "named_entity", "rare_word", "several_sentences",
        "repeated_ngram", "similar_bigrams", "repeated_word", "past_tense",
        "alphanumeric",
    )  # fmt: skip
    config.slot_filters = ("action",)
    config.commands = True
    config.apart_by = "similarity"
    config.metrics = {
        "jaccard": {},
        "similarity": {
            "path": "jaxaug.augment.judge.small_models:similarity",
            "model": "minilm",
        },
        "faithful": {},
        "trivial": {"path": "jaxaug.augment.judge.small_models:trivial"},
        "string_similarity": {},
        "bleu": {},
    }
    config.select = "tree"
    config.tree = {
        "levels": ("jaccard", "similarity", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": ("faithful >= 0.5", "trivial <= 0"),
        "syntactic": "decisions",
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
