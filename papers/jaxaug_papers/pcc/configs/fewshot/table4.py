"""Table 4 of Lu and Lam (2023), PCC, with your own paraphrases: samplers and orders.

    jaxaug fewshot --config configs/fewshot/table4.py:covidclu --data_dir data

`:huff` and `:amzn` select other data sets. All rows have the same number of updates.
The level files are made from the few-shot sentences of all seeds, here for COVID-Q.

    C="--config configs/fewshot/table4.py:covidclu --data_dir data"
    jaxaug fewshot $C --texts data/levels/covidclu.txt

    M="--in data/levels/covidclu.txt --model smollm2"
    T=data/levels/covidclu

    jaxaug levels $M --out ${T}_mixed.jsonl --quota bottom_k=2 top_k_top_p=18
    jaxaug levels $M --out ${T}_top_k_top_p.jsonl --quota top_k_top_p=20
    jaxaug levels $M --out ${T}_sampling.jsonl --quota sampling=2 top_k_top_p=18

    N="--implication none --beta -1"
    jaxaug levels $M --out ${T}_unfiltered.jsonl --quota bottom_k=2 top_k_top_p=18 $N

The first file is the paper's method, the second its "without bottom-k", and the third
its "pure sampling". HuffPost and Amazon have quotas of 4 and 16 instead of 2 and 18.
Rows with a missing file are skipped with a message. For PCC's released paraphrases of
HuffPost see pcc_huffpost.py and bottom_k.py. Results: README.md of pcc.
"""

import pathlib
import runpy

import ml_collections

TABLE_2 = runpy.run_path(str(pathlib.Path(__file__).with_name("table2.py")))
PCC = "cyclic, bottom-k"


def get_config(dataset: str) -> ml_collections.ConfigDict:
    """Name a data set: huff, covidclu or amzn."""
    config = TABLE_2["get_config"](dataset)
    stages = TABLE_2["STAGES"][dataset]
    once = tuple(2 * steps for steps in stages)  # The number of updates of two cycles.

    def row(name: str, file: str, schedule: str, steps=stages, **fields) -> dict:
        return {
            "name": name,
            "source": "levels",
            "path": f"levels/{dataset}_{file}.jsonl",
            "schedule": schedule,
            "steps_per_level": steps,
            "optional": True,
            **fields,
        }

    config.methods = (
        {"name": TABLE_2["BASE"], "cycles": 2},
        row("without the filter", "unfiltered", "cyclic"),
        row("pure sampling", "sampling", "cyclic"),
        row("inverse", "mixed", "inverse", once),
        row("random", "mixed", "random", cycles=2),
        row("gradual", "mixed", "gradual", once),
        row("inverse cyclic", "top_k_top_p", "inverse_cyclic"),
        row("cyclic", "top_k_top_p", "cyclic"),
        row("inverse cyclic, bottom-k", "mixed", "inverse_cyclic"),
        row(PCC, "mixed", "cyclic"),
    )
    rows = tuple(method["name"] for method in config.methods)
    title = f"Table 4: {dataset}, own paraphrases, equal numbers of updates"
    config.tables = (
        {"title": title, "rows": rows, "reference": PCC},
        {
            "title": "The same rows against no augmentation",
            "rows": rows,
            "reference": TABLE_2["BASE"],
        },
    )
    config.out = f"runs/fewshot/table4_{dataset}"
    return config
