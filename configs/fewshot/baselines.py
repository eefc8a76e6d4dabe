"""Augmentation by words on one of the data sets of Wei et al. (2021).

    jaxaug fewshot --config configs/fewshot/baselines.py:covidclu --data_dir data

or `:amzn`, `:huff`. The data folder holds `fewshot/` (`jaxaug data fetch fewshot --out
data/fewshot`). Results: docs/fewshot.md.
"""

import ml_collections

PER_LABEL = {"huff": 10, "covidclu": 3, "amzn": 3}
ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5)


def get_config(dataset: str) -> ml_collections.ConfigDict:
    """Name a data set: huff, covidclu or amzn."""
    config = ml_collections.ConfigDict()
    config.dataset = f"fewshot/{dataset}"
    config.per_label = PER_LABEL[dataset]
    config.seeds = (0, 1, 2, 3, 4)
    config.encoder = "static:minilm"
    config.triplet = {"learning_rate": 5e-4}
    config.methods = (
        {"name": "none"},
        words("token substitution", "token_substitution", {"rate": 0.1}),
        words("pervasive dropout", "pervasive_dropout", {"rate": 0.1}),
        words("SwitchOut", "switch_out", {"temperature": 1.0}),
        words("EDA", "eda", eda(0.1)),
        words("EDA two stage", "eda", eda(0.5), schedule="two_stage", stage=600),
        words("EDA gradual", "eda", *map(eda, ALPHAS), schedule="gradual"),
    )
    config.tables = (
        {
            "title": f"Table 2: {dataset}, {PER_LABEL[dataset]} sentences a class",
            "rows": tuple(method["name"] for method in config.methods),
            "reference": "none",
        },
    )
    config.out = f"runs/fewshot/baselines_{dataset}"
    return config


def eda(alpha: float) -> dict[str, float]:
    """All four operations of EDA at one rate, as Wei et al. (2021) have it."""
    return dict.fromkeys(("replace", "insert", "swap", "delete"), alpha)


def words(
    name: str, method: str, *levels: dict, schedule: str = "constant", stage: int = 200
) -> dict:
    """A method on words: four outputs a sentence, at each strength."""
    options = tuple({"method": method, "num": 4, **level} for level in levels)
    fields = {"schedule": schedule, "steps_per_level": stage}
    return {"name": name, "source": "sentence", "levels": options, **fields}
