"""PCC on HuffPost, 10 sentences a class: Tables 2 and 4 of Lu and Lam (2023) in shape.

    jaxaug fewshot --config configs/fewshot/pcc_huffpost.py --data_dir data

The data folder holds `fewshot/huff` (`jaxaug data fetch fewshot --out data/fewshot`)
and `pcc/aug_huff_train_s*.txt`, which the authors of PCC released in HongyuanLuke/PCC.
Results: docs/fewshot.md.
"""

import ml_collections

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5)


def get_config() -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict()
    config.dataset = "fewshot/huff"
    config.per_label = 10
    config.seeds = (0, 1, 2, 3, 4)
    config.encoder = "static:minilm"
    config.eval_every = 400
    config.triplet = {"learning_rate": 5e-4}
    config.methods = (
        {"name": "none"},
        words("token substitution", "token_substitution", {"rate": 0.1}),
        words("pervasive dropout", "pervasive_dropout", {"rate": 0.1}),
        words("SwitchOut", "switch_out", {"temperature": 1.0}),
        round_trip(),
        words("EDA", "eda", eda(0.1)),
        words("EDA gradual", "eda", *map(eda, ALPHAS), schedule="gradual"),
        pcc("PCC gradual", "gradual"),
        pcc("PCC cyclic", "cyclic"),
        {"name": "none, hard negatives", "candidates": 4},
        pcc("PCC cyclic, hard negatives", "cyclic", candidates=4),
        # As many updates as two cycles have.
        pcc("gradual", "gradual", steps_per_level=400),
        pcc("inverse", "inverse", steps_per_level=400),
        pcc("inverse cyclic", "inverse_cyclic"),
        pcc("two stage", "two_stage", steps_per_level=400),
        pcc("random", "random", cycles=2),
        pcc("all at once", "constant", cycles=2),
        pcc("cyclic, implied only", "cyclic", keep="implied"),
        pcc("cyclic, similar only", "cyclic", keep="similar"),
    )
    names = [method["name"] for method in config.methods]
    config.tables = (
        {
            "title": "Table 2: HuffPost, 10 sentences a class",
            "rows": tuple(names[:11]),
            "reference": "none",
        },
        {
            "title": "The same against EDA gradual",
            "rows": ("EDA gradual", "PCC gradual", "PCC cyclic"),
            "reference": "EDA gradual",
        },
        {
            "title": "Table 4: PCC at equal numbers of updates",
            "rows": ("PCC cyclic", *names[11:]),
            "reference": "PCC cyclic",
        },
    )
    config.out = "runs/fewshot/pcc_huffpost"
    return config


def eda(alpha: float) -> dict[str, float]:
    """All four operations of EDA at one rate, as Wei et al. (2021) have it."""
    return dict.fromkeys(("replace", "insert", "swap", "delete"), alpha)


def words(name: str, method: str, *levels: dict, **fields) -> dict:
    """A method on words: four outputs a sentence, at each strength."""
    options = tuple({"method": method, "num": 4, **level} for level in levels)
    return {"name": name, "source": "sentence", "levels": options, **fields}


def round_trip() -> dict:
    """Through four languages and back, where the models are on this machine."""
    options = ({"pivots": ("fr", "zh", "ru", "ja")},)
    fields = {"source": "backtranslate", "levels": options, "optional": True}
    return {"name": "round-trip translation", **fields}


def pcc(name: str, schedule: str, **fields) -> dict:
    """The paraphrases of PCC's authors in some order."""
    path = "pcc/aug_huff_train_s{seed}*.txt"
    fields = {"source": "released", "path": path, "schedule": schedule, **fields}
    return {"name": name, **fields}
