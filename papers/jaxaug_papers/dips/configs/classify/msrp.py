"""Recognition of paraphrases, with and without paraphrases as further pairs (MSRP).

    jaxaug models fetch smollm2 minilm
    jaxaug classify --config configs/classify/msrp.py --data_dir data --paraphraser smollm2+runs/general_paraphraser

Figure 3 of the DiPS paper has this on Quora-PR, of whose pairs people labelled 40,000 to
train on, 10,000 to validate and 40,000 to test with. The data folder holds
`msrp/train.txt` and `test.txt`; another folder of pairs with labels is
`msrp.py:FOLDER`. Each of `num_sources` first sentences and a paraphrase of it are a
positive pair. Results: papers/jaxaug_papers/dips/README.md.
"""

import ml_collections


def get_config(dataset: str = "msrp") -> ml_collections.ConfigDict:
    """Returns the text is the folder of the pairs, below the data folder."""
    config = ml_collections.ConfigDict()
    config.dataset = dataset
    config.reader = "pairs"
    config.classifiers = ("LogReg on matches", "SiameseLSTM")
    config.validation_size = 400
    config.shares = (1.0, 0.1)
    config.num = 5
    config.num_sources = 20
    config.wordnet_dir = "/usr/share/wordnet"
    # The authors read 20 words, by word2vec, which they train no further either.
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
        paraphrases("DiPS", "dips", "width=15"),
    )
    config.out = f"runs/classify/{dataset}"
    return config


def paraphrases(name: str, sampler: str, *options: str) -> dict:
    """Returns the outputs of the paraphraser with a decoder."""
    common = ("max_length=40",)
    fields = {"scheme": "paraphrase", "sampler": sampler}
    return {"name": name, **fields, "options": (*options, *common)}
