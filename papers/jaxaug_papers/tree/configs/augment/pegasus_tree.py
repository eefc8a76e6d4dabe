"""The trees of Coca et al. (2023): Pegasus paraphrases, entailment by BART.

    jaxaug models fetch pegasus-paraphrase bart-large-mnli
    jaxaug augment --config configs/augment/pegasus_tree.py --data_dir SGD --out OUT

- `pegasus_tree.py` is "Pegasus + BART" with J <= 0.75.
- `pegasus_tree.py:b` is "Pegasus B" with J <= 0.5 and entailment >= 0.58, then the
  largest J and the smallest S.
- `pegasus_tree.py:bleurt` is "Pegasus + BLEURT", with BLEURT instead of entailment
  (`jaxaug models fetch bleurt-20`).

As in the paper, each text has 500 outputs from ten settings of beams and temperature.
The paper does not publish these settings, so the grid is our choice. Checks and
clean-up that the paper lacks are off. Entailment follows the zero-shot convention
(softmax over entailment and contradiction) with the template of the paper. Both models
are on the Hugging Face hub only (2.3 and 1.6 GB). They need a GPU in practice.
"""

import ml_collections

FILTERS = (
    "advice", "named_entity", "rare_word", "several_sentences",
    "repeated_ngram", "similar_bigrams", "repeated_word", "past_tense", "passive",
    "question", "alphanumeric",
)  # fmt: skip


TREES = {
    "bart": {
        "levels": ("jaccard", "entailment", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": ("jaccard <= 0.75",),
    },
    "b": {
        "levels": ("jaccard", "string_similarity"),
        "decisions": ("max", "min"),
        "constraints": ("jaccard <= 0.5", "entailment >= 0.58"),
    },
    "bleurt": {
        "levels": ("jaccard", "bleurt", "string_similarity"),
        "decisions": ("max", "max", "min"),
        "constraints": ("jaccard <= 0.75",),
    },
}
NAMES = {"bart": "Pegasus + BART", "b": "Pegasus B", "bleurt": "Pegasus + BLEURT"}
JUDGES = {
    "entailment": {"model": "bart-large-mnli", "neutral": False},
    "bleurt": {"model": "bleurt-20"},
}


def get_config(tree: str = "bart") -> ml_collections.ConfigDict:
    """The text behind the colon is bart, b or bleurt."""
    judge = "bleurt" if tree == "bleurt" else "entailment"
    config = ml_collections.ConfigDict()
    config.name = NAMES[tree]
    config.scheme = "paraphrase"
    common = {"model": "pegasus-paraphrase", "max_length": 60, "sampler": "beam"}
    warm = {"temperature": [0.7, 1.0, 1.3, 1.6, 2.0]}
    # The number of outputs equals the number of beams: 5 x (25 + 75).
    config.options = {
        "batch_size": 256,
        "grid": tuple(common | {"num": n, "options": warm} for n in (25, 75)),
    }
    config.filters = FILTERS
    config.slot_filters = ("action",)
    config.checks = ()
    config.tidy = False
    config.metrics = {
        "jaccard": {},
        judge: JUDGES[judge],
        "string_similarity": {},
        "bleu": {},
    }
    # Dropped candidates would cost four passes of a large model each.
    config.measure_dropped = False
    config.select = "tree"
    config.tree = TREES[tree]
    config.report = {"jaccard": {}, judge: JUDGES[judge], "bleu": {}, "self_bleu": {}}
    config.beside = {
        "EDA": {
            "scheme": "sentence",
            "options": {"method": "eda", "num": 20},
            "metrics": {"jaccard": {}},
        },
        "SGD-X": "sgdx",
    }
    return config
