"""The order of levels, and bottom-k, on HuffPost at 1,200 updates for each row.

    jaxaug fewshot --config configs/fewshot/order.py --data_dir data

The seeds are those whose released files have paraphrases from bottom-k (bottom_k.py).
The data folder is the same as for pcc_huffpost.py. Results: README.md of pcc.
"""

from collections.abc import Sequence

import ml_collections


def get_config() -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict()
    config.dataset = "fewshot/huff"
    config.seeds = (0, 2, 3, 4)
    config.eval_every = 400
    config.triplet = {"learning_rate": 5e-4}
    eda = {"method": "eda", "num": 4, **dict.fromkeys(EDA, 0.1)}
    config.methods = (
        {"name": "none"},
        {
            "name": "EDA",
            "source": "sentence",
            "levels": (eda,),
            "schedule": "two_stage",
            "steps_per_level": 600,
        },
        pcc("cyclic", "cyclic", steps_per_level=100),
        pcc("gradual", "gradual"),
        pcc("inverse", "inverse"),
        pcc("random", "random"),
        pcc("cyclic, 16 without bottom-k", "cyclic", (0, 16), steps_per_level=100),
        pcc("cyclic, 16 with 4 of bottom-k", "cyclic", (4, 20), steps_per_level=100),
    )
    names = [method["name"] for method in config.methods]
    config.tables = (
        table("Against no augmentation", ("none", "EDA", "cyclic"), "none"),
        table("Orders", names[2:6], "cyclic"),
        table("Bottom-k", names[6:], names[6]),
    )
    config.out = "runs/fewshot/order"
    return config


EDA = ("replace", "insert", "swap", "delete")


def pcc(name: str, schedule: str, places: tuple[int, ...] = (), **fields) -> dict:
    """Returns a row with the paraphrases of PCC's authors and a schedule."""
    path = "pcc/aug_huff_train_s{seed}*.txt"
    fields = {"source": "released", "path": path, "places": places, **fields}
    return {"name": name, "schedule": schedule, **fields}


def table(title: str, rows: Sequence[str], reference: str) -> dict:
    return {"title": title, "rows": tuple(rows), "reference": reference}
