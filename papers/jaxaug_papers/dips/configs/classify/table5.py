r"""Table 5 of the DiPS paper: classifiers of TREC and SNIPS, trained on paraphrases.

    jaxaug models fetch smollm2
    jaxaug classify --config configs/classify/table5.py:trec --data_dir data \
        --paraphraser smollm2+runs/general_paraphraser

`:snips` selects SNIPS (`jaxaug data fetch snips`). The data folder contains
`trec/train.txt` and `test.txt`, or `snips/`. The paraphraser is any model of
`jaxaug paraphrase --model`. Examples are the run of configs/paraphrase_lstm.gin, the
paper's generator, or the adapter of configs/adapters/general_paraphraser.gin, which is
trained on Quora's pairs. SynRep needs WordNet. ContAug needs a masked language model
(`jaxaug models fetch hf:google-bert/bert-base-uncased`). Rows with a missing model are
skipped with a message. Results and differences from the paper:
papers/jaxaug_papers/dips/README.md.
"""

import ml_collections

# Numbers of training and validation examples, from Table 2 of the paper.
SIZES = {"trec": (1000, 200), "snips": (10_000, 1000)}
BERT = "hf:google-bert/bert-base-uncased"


def get_config(dataset: str) -> ml_collections.ConfigDict:
    """Name a data set: trec or snips."""
    config = ml_collections.ConfigDict()
    config.dataset = config.reader = dataset
    config.train_size, config.validation_size = SIZES[dataset]
    config.shares = (1.0, 0.1, 0.05)
    config.num = 5
    # The 5% share has 50 and 500 texts; to paraphrase all of them takes a GPU.
    config.num_sources = 20
    config.wordnet_dir = "/usr/share/wordnet"
    config.methods = (
        {"name": "NoAug"},
        {"name": "Copies", "scheme": "copies"},
        paraphrases("SBS", "beam"),
        paraphrases("DBS", "diverse_beam"),
        {"name": "SynRep", "scheme": "token_substitution"},
        {"name": "ContAug", "scheme": "contextual", "model": BERT},
        # Every proposal is scored in its sentence, which is slow for the default of 20.
        {
            "name": "ContAug, causal",
            "scheme": "contextual",
            "model": "smollm2",
            "options": ("top=5",),
        },
        # The paper's algorithm has 3k candidates; its program has a beam of 50.
        paraphrases("DiPS", "dips", "width=15", "variant=normalized"),
    )
    config.out = f"runs/classify/{dataset}"
    return config


def paraphrases(name: str, sampler: str, *options: str) -> dict:
    """Returns an entry of `config.methods`: augmentation by the paraphraser."""
    common = ("max_length=24",)
    fields = {"scheme": "paraphrase", "sampler": sampler}
    return {"name": name, **fields, "options": (*options, *common)}
