"""Table 2 of Lu and Lam (2023), PCC: the baselines as they trained them, and PCC.

    jaxaug fewshot --config configs/fewshot/table2.py:covidclu --data_dir data

`:huff` (HuffPost) and `:amzn` select other data sets. The data folder contains
`fewshot/` (`jaxaug data fetch fewshot --out data/fewshot`). HuffPost also needs
`pcc/aug_huff_train_s*.txt`, which the authors of PCC released in HongyuanLuke/PCC. Your
own paraphrases (see table4.py) are used if they exist: `levels/NAME_mixed.jsonl` and
`levels/NAME_top_k_top_p.jsonl`. Synonyms are from WordNet if Debian's wordnet-base is
installed; `:huff,DIR` names another folder of WordNet. Results: README.md of pcc.
"""

import os

import ml_collections

PER_LABEL = {"huff": 10, "covidclu": 3, "amzn": 2}
# Wei et al. (2021) have 6/4/4/3/3/4 and 10/8/6/8/8/8 thousand updates; 1,200 here.
STAGES = {
    "huff": (200,) * 6,
    "covidclu": (300, 200, 200, 150, 150, 200),
    "amzn": (250, 200, 150, 200, 200, 200),
}
ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5)
WORDNET = "/usr/share/wordnet"
BASE = "none"


def get_config(text: str) -> ml_collections.ConfigDict:
    """Name a data set: huff, covidclu or amzn; a comma and a folder may follow."""
    dataset, _, folder = text.partition(",")
    stages = STAGES[dataset]
    folder = folder or (WORDNET if os.path.isdir(WORDNET) else "")
    synonyms = {"wordnet_dir": folder} if folder else {}
    config = ml_collections.ConfigDict()
    config.dataset = f"fewshot/{dataset}"
    config.per_label = PER_LABEL[dataset]
    config.seeds = (0, 1, 2, 3, 4)
    config.encoder = "static:minilm"
    config.eval_every = 400
    config.triplet = {"learning_rate": 5e-4}
    gradual = [{**eda(alpha), **synonyms} for alpha in ALPHAS]
    config.methods = (
        {"name": BASE},
        two_stage("token substitution", "token_substitution", rate=0.1, **synonyms),
        two_stage("pervasive dropout", "pervasive_dropout", rate=0.1),
        two_stage("SwitchOut", "switch_out", temperature=1.0),
        two_stage("SwitchOut, a tenth of the words", "switch_out", rate=0.1),
        round_trip(),
        {"name": "hard negatives", "candidates": 4},
        words("hard negatives, EDA", gradual[0], schedule="constant"),
        words("hard negatives, EDA gradual", *gradual, steps_per_level=stages),
        *pcc(dataset, stages),
    )
    source = "WordNet" if folder else "the built-in lexicon"
    config.tables = (
        {
            "title": f"Table 2: {dataset}, {PER_LABEL[dataset]} sentences a class, "
            f"synonyms of {source}",
            "rows": tuple(method["name"] for method in config.methods),
            "reference": BASE,
        },
    )
    config.out = f"runs/fewshot/table2_{dataset}"
    return config


def eda(alpha: float) -> dict[str, float]:
    """Returns all four operations of EDA with one rate, as in Wei et al. (2021)."""
    return dict.fromkeys(("replace", "insert", "swap", "delete"), alpha)


def two_stage(name: str, method: str, **options) -> dict:
    """Returns a row with the originals first, then with four outputs per sentence."""
    return {
        "name": name,
        "source": "sentence",
        "levels": ({"method": method, "num": 4, **options},),
        "schedule": "two_stage",
        "steps_per_level": (600, 600),
    }


def round_trip() -> dict:
    """Returns back-translation by four languages, if the models are on this machine."""
    return {
        "name": "round-trip translation",
        "source": "backtranslate",
        "levels": ({"pivots": ("fr", "zh", "ru", "ja")},),
        "schedule": "two_stage",
        "steps_per_level": (600, 600),
        "optional": True,
    }


def words(name: str, *levels: dict, schedule: str = "gradual", **fields) -> dict:
    """Returns EDA with four outputs per sentence and strength, and hard negatives."""
    options = tuple({"method": "eda", "num": 4, **level} for level in levels)
    fields = {"schedule": schedule, "candidates": 4, **fields}
    return {"name": name, "source": "sentence", "levels": options, **fields}


def pcc(dataset: str, stages: tuple[int, ...]) -> list[dict]:
    """Returns PCC in two cycles, with released and with user-defined paraphrases."""
    files = {
        "PCC cyclic, own paraphrases, without bottom-k": "top_k_top_p",
        "PCC cyclic, own paraphrases": "mixed",
    }
    common = {"schedule": "cyclic", "steps_per_level": stages}
    rows = [
        {
            "name": name,
            "source": "levels",
            "path": f"levels/{dataset}_{file}.jsonl",
            "optional": True,
            **common,
        }
        for name, file in files.items()
    ]
    if dataset == "huff":
        released = {"source": "released", "path": "pcc/aug_huff_train_s{seed}*.txt"}
        rows.append({"name": "PCC cyclic, as released", **released, **common})
        hard = {"name": "hard negatives, PCC cyclic, as released", "candidates": 4}
        rows.append({**hard, **released, **common})
    return rows
