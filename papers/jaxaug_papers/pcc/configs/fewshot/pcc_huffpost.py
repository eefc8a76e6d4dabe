"""PCC on HuffPost, 10 sentences per class: in the layout of Table 4 of Lu and Lam (2023).

    jaxaug fewshot --config configs/fewshot/pcc_huffpost.py --data_dir data

All orders at the same number of updates. The data folder holds `fewshot/huff` (`jaxaug
data fetch fewshot --out data/fewshot`) and `pcc/aug_huff_train_s*.txt`, which the
authors of PCC released in HongyuanLuke/PCC. Table 2 is table2.py, the rows on bottom-k
are bottom_k.py. Results: README.md of pcc.
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
        # As many updates as two cycles have.
        pcc("gradual", "gradual", steps_per_level=400),
        pcc("inverse", "inverse", steps_per_level=400),
        pcc("inverse cyclic", "inverse_cyclic"),
        pcc("two stage", "two_stage", steps_per_level=400),
        pcc("random", "random", cycles=2),
        pcc("all at once", "constant", cycles=2),
        pcc("cyclic, implied only", "cyclic", keep="implied"),
        pcc("cyclic, similar only", "cyclic", keep="similar"),
        # As the paper has it: once through the levels, in half as many updates.
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
    """Returns the paraphrases of PCC's authors in some order."""
    path = "pcc/aug_huff_train_s{seed}*.txt"
    fields = {"source": "released", "path": path, "schedule": schedule, **fields}
    return {"name": name, **fields}
