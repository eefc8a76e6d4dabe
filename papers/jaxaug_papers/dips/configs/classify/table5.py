"""Table 5 of the DiPS paper: classifiers of TREC and SNIPS, with paraphrases and without.

    jaxaug models fetch smollm2
    jaxaug classify --config configs/classify/table5.py:trec --data_dir data --paraphraser smollm2+runs/general_paraphraser

or `:snips` (`jaxaug data fetch snips`). The data folder holds `trec/train.txt` and
`test.txt`, or `snips/`. The paraphraser is what `jaxaug paraphrase --model` takes, such as
the run of configs/paraphrase_lstm.gin, the paper's generator, or the adapter that
configs/adapters/general_paraphraser.gin trains on Quora's pairs. SynRep needs WordNet, ContAug a
masked language model (`jaxaug models fetch hf:google-bert/bert-base-uncased`); a row
whose model is missing says so. Results and what differs from the paper: papers/jaxaug_papers/dips/README.md.
"""

import ml_collections

# Examples to train and to validate with: Table 2 of the paper.
SIZES = {"trec": (1000, 200), "snips": (10_000, 1000)}
BERT = "hf:google-bert/bert-base-uncased"


def get_config(dataset: str) -> ml_collections.ConfigDict:
    """Name a data set: trec or snips."""
    config = ml_collections.ConfigDict()
    config.dataset = config.reader = dataset
    config.train_size, config.validation_size = SIZES[dataset]
    config.shares = (1.0, 0.1, 0.05)
    config.num = 5
    # The 5% share has 50 and 500; all of them take a GPU.
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
    config.out = f"runs/classify/{dataset}"
    return config


def paraphrases(name: str, sampler: str, *options: str) -> dict:
    """Returns the outputs of the paraphraser with a decoder."""
    common = ("max_length=24",)
    fields = {"scheme": "paraphrase", "sampler": sampler}
    return {"name": name, **fields, "options": (*options, *common)}
