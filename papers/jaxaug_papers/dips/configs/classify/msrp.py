r"""Recognition of paraphrases on MSRP, with and without paraphrases as further pairs.

    jaxaug models fetch smollm2 minilm
    jaxaug classify --config configs/classify/msrp.py --data_dir data \
        --paraphraser smollm2+runs/general_paraphraser

Figure 3 of the DiPS paper has this experiment on Quora-PR, with 40,000 labeled pairs
for training, 10,000 for validation, and 40,000 for the test. The data folder contains
`msrp/train.txt` and `test.txt`. `msrp.py:FOLDER` names another folder of labeled pairs,
such as `twitter` with the `train.tsv` and `test.tsv` of Lan et al. (2017).
Each of the `num_sources` first sentences and its paraphrase are a positive pair.
Results: papers/jaxaug_papers/dips/README.md.
"""

import ml_collections


def get_config(dataset: str = "msrp") -> ml_collections.ConfigDict:
    """The text is the folder of the pairs, below the data folder."""
    config = ml_collections.ConfigDict()
    config.dataset = dataset
    config.reader = "pairs"
    config.classifiers = ("LogReg on matches", "SiameseLSTM")
    config.validation_size = 400
    config.shares = (1.0, 0.1)
    config.num = 5
    config.num_sources = 20
    config.wordnet_dir = "/usr/share/wordnet"
    # The authors read 20 words with fixed word2vec vectors.
    config.lstm = {
        "encoder": "minilm",
        "max_length": 20,
        "epochs": 10,
        "least_updates": 500,
    }
    config.methods = (
        {"name": "NoAug"},
        {"name": "Copies", "scheme": "copies"},
        paraphrases("SBS", "beam"),
        paraphrases("DBS", "diverse_beam"),
        {"name": "SynRep", "scheme": "token_substitution"},
        paraphrases("DiPS", "dips", "width=15", "variant=normalized"),
    )
    config.out = f"runs/classify/{dataset}"
    return config


def paraphrases(name: str, sampler: str, *options: str) -> dict:
    """Returns an entry of `config.methods`: augmentation by the paraphraser."""
    common = ("max_length=40",)
    fields = {"scheme": "paraphrase", "sampler": sampler}
    return {"name": name, **fields, "options": (*options, *common)}
