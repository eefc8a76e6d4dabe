"""PCC on HuffPost, 10 sentences per class, as in Table 4 of Lu and Lam (2023).

    jaxaug fewshot --config configs/fewshot/pcc_huffpost.py --data_dir data

All orders have the same number of updates. The data folder contains `fewshot/huff`
(`jaxaug data fetch fewshot --out data/fewshot`) and `pcc/aug_huff_train_s*.txt`, which
the authors of PCC released in HongyuanLuke/PCC. table2.py has Table 2, and bottom_k.py
has the rows about bottom-k. Results: README.md of pcc.
"""

import ml_collections


def get_config() -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict()
    config.dataset = "fewshot/huff"
    config.per_label = 10
    config.seeds = (0, 1, 2, 3, 4)
    config.encoder = "static:minilm"
    config.eval_every = 400
    config.triplet = {"learning_rate": 5e-4}
    config.methods = (
        pcc("PCC cyclic", "cyclic"),
        # The number of updates of two cycles.
        pcc("gradual", "gradual", steps_per_level=400),
        pcc("inverse", "inverse", steps_per_level=400),
        pcc("inverse cyclic", "inverse_cyclic"),
        pcc("two stage", "two_stage", steps_per_level=400),
        pcc("random", "random", cycles=2),
        pcc("all at once", "constant", cycles=2),
        pcc("cyclic, implied only", "cyclic", keep="implied"),
        pcc("cyclic, similar only", "cyclic", keep="similar"),
        # As in the paper: once through the levels, with half the updates.
        pcc("gradual, once", "gradual"),
    )
    names = tuple(method["name"] for method in config.methods)
    config.tables = (
        {
            "title": "Table 4: PCC at equal numbers of updates",
            "rows": names[:-1],
            "reference": names[0],
        },
        {
            "title": "Table 4: gradual order, once through the levels",
            "rows": (names[0], names[-1]),
            "reference": names[0],
        },
    )
    config.out = "runs/fewshot/pcc_huffpost"
    return config


def pcc(name: str, schedule: str, **fields) -> dict:
    """Returns a row with the paraphrases of PCC's authors and a schedule."""
    path = "pcc/aug_huff_train_s{seed}*.txt"
    fields = {"source": "released", "path": path, "schedule": schedule, **fields}
    return {"name": name, **fields}
