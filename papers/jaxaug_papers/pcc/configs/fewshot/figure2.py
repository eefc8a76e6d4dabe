"""Figure 2 of Lu and Lam (2023): training loss of the cyclic curriculum, on HuffPost.

    jaxaug fewshot --config configs/fewshot/figure2.py --data_dir data

The column `loss` of curves.csv has the mean over every 50 updates. The data folder is
the same as for pcc_huffpost.py. Results: README.md of pcc.
"""

import pathlib
import runpy

import ml_collections

TABLE_4 = runpy.run_path(str(pathlib.Path(__file__).with_name("pcc_huffpost.py")))


def get_config() -> ml_collections.ConfigDict:
    config = TABLE_4["get_config"]()
    config.methods = config.methods[:1]
    name = config.methods[0]["name"]
    title = "Figure 2: two cycles, HuffPost"
    config.tables = ({"title": title, "rows": (name,), "reference": name},)
    config.eval_every = 50
    config.out = "runs/fewshot/figure2"
    return config
