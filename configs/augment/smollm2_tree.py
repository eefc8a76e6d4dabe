"""Tree-ranked paraphrases with models that work offline: SmolLM2 and MiniLM.

    jaxaug augment --config configs/augment/smollm2_tree.py --data_dir SGD --out OUT

Each text gets 100 outputs; `smollm2_tree.py:N` asks for N outputs from each of the four
settings instead of 25. MiniLM similarity replaces the entailment of the paper, and is
called similarity because it is not entailment. The paper has the constraint J <= 0.75;
we add the others, and docs/augment.md shows the failures without them. Needs the extras
`nlp` and `report`.
"""

import pathlib

import ml_collections

PROMPT = str(pathlib.Path(__file__).with_name("reword.txt"))


def get_config(num: str = "25") -> ml_collections.ConfigDict:
    """The text after the colon is the number of outputs of each setting."""
    config = ml_collections.ConfigDict()
    config.name = "SmolLM2 tree"
    config.scheme = "paraphrase"
    common = {"model": "smollm2", "num": int(num), "prompt": PROMPT, "max_length": 32}
    config.options = {
        "batch_size": 64,
        "grid": (
            common
            | {
                "sampler": "top_k_top_p",
                "options": {"k": 40, "p": 0.9, "temperature": [0.7, 0.9, 1.1]},
            },
            common
            | {
                "sampler": "bottom_k",
                "options": {
                    "k": 2, "n_steps": 1, "then_k": 40, "then_p": 0.9,
                    "temperature": 0.9,
                },
            },
        ),
    }  # fmt: skip
    config.filters = (
        "advice", "named_entity", "rare_word", "several_sentences",
        "repeated_ngram", "similar_bigrams", "repeated_word", "past_tense", "passive",
        "question", "alphanumeric",
    )  # fmt: skip
    config.slot_filters = ("action",)
    config.commands = True
    config.apart_by = "similarity"
    config.metrics = {
        "jaccard": {},
        "similarity": {"flags": False},
        "string_similarity": {},
        "bleu": {},
        "length": {},
        "how": {},
    }
    # An output that was sampled twice is nearly always good; this needs many outputs.
    config.min_count = 2 if int(num) >= 100 else 1
    config.select = "tree"
    config.tree = {
        "levels": ("jaccard", "similarity", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": (
            "jaccard <= 0.75",
            "similarity >= 0.75",
            "length <= 1.6",
            "length >= 0.4",
            "how <= 0",
        ),
        # The least similar string with the same words is often nonsense from a small
        # model, such as "car to pick up the city".
        "syntactic": None,
    }
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
