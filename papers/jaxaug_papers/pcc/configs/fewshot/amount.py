"""Figure 3 of Lu and Lam (2023): 1 to 4 paraphrases per level, on HuffPost.

    jaxaug fewshot --config configs/fewshot/amount.py --data_dir data

PCC's authors released 20 paraphrases of each sentence. The rows draw 5, 10, and 15 of
them and sort them into five levels. All rows have equal numbers of updates. The data
folder is the same as for pcc_huffpost.py. Results: README.md of pcc.
"""

import ml_collections

LEVELS = 5


def get_config() -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict()
    config.dataset = "fewshot/huff"
    config.per_label = 10
    config.seeds = (0, 1, 2, 3, 4)
    config.encoder = "static:minilm"
    config.triplet = {"learning_rate": 5e-4}
    none = {"name": "none", "steps_per_level": 400}
    config.methods = (none, *(pcc(amount) for amount in (1, 2, 3, 4)))
    config.tables = (
        {
            "title": "Figure 3: paraphrases a level, HuffPost",
            "rows": tuple(method["name"] for method in config.methods),
            "reference": none["name"],
        },
    )
    config.out = "runs/fewshot/amount"
    return config


def pcc(amount: int) -> dict:
    """Returns the cyclic curriculum with that many paraphrases at each level."""
    return {
        "name": f"{amount} a level",
        "source": "released",
        "path": "pcc/aug_huff_train_s{seed}*.txt",
        "num": LEVELS * amount,
        "schedule": "cyclic",
    }
