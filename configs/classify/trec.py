"""Question classification with paraphrases: TREC's column of Table 5 of the DiPS paper.

    jaxaug models fetch smollm2
    jaxaug classify --config configs/classify/trec.py --data_dir data --paraphraser smollm2+runs/general_paraphraser

The data folder holds `trec/train.txt` and `test.txt`. The paraphraser is the adapter
that configs/adapters/general_paraphraser.gin trains on Quora's pairs, as the paper's is;
without it SmolLM2 needs another prompt than `plain`. SynRep needs WordNet, ContAug a
masked language model (`jaxaug models fetch hf:google-bert/bert-base-uncased`); a row
whose model is missing says so. Results and what differs from the paper: docs/classify.md.
"""

import ml_collections

BERT = "hf:google-bert/bert-base-uncased"


def get_config() -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict()
    config.dataset = "trec"
    config.reader = "trec"
    # Table 2 of the paper.
    config.train_size = 1000
    config.validation_size = 200
    config.shares = (1.0, 0.1, 0.05)
    config.num = 5
    # Of 50 in the 5% share; all of them take a GPU.
    config.num_sources = 20
    config.wordnet_dir = "/usr/share/wordnet"
    config.methods = (
        {"name": "NoAug"},
        {"name": "Copies", "scheme": "copies"},
        paraphrases("SBS", "beam"),
        paraphrases("DBS", "diverse_beam"),
        {"name": "SynRep", "scheme": "token_substitution"},
        {"name": "ContAug", "scheme": "contextual", "model": BERT},
        # Every proposal is scored in its sentence; 20 of them, the default, take long.
        {
            "name": "ContAug, causal",
            "scheme": "contextual",
            "model": "smollm2",
            "options": ("top=5",),
        },
        # The 3k candidates of the paper's algorithm; its program has a beam of 50.
        paraphrases("DiPS", "dips", "width=15"),
    )
    config.out = "runs/classify/trec"
    return config


def paraphrases(name: str, sampler: str, *options: str) -> dict:
    """Outputs of the paraphraser with a decoder."""
    common = ("prompt=plain", "max_length=24")
    fields = {"scheme": "paraphrase", "sampler": sampler}
    return {"name": name, **fields, "options": (*options, *common)}
