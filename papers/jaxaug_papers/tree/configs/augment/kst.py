"""Knowledge-seeking turns, or any other folder of existing variants.

    jaxaug augment --config configs/augment/kst.py:FOLDER --data_dir SGD --out OUT

FOLDER contains `v1..v5/schema.json`. The folder published with the paper on
knowledge-seeking turns describes the services of the test split (Coca et al., 2023b).
"""

import ml_collections


def get_config(folder: str) -> ml_collections.ConfigDict:
    """Write the folder of the variants behind a colon: `kst.py:FOLDER`."""
    config = ml_collections.ConfigDict()
    config.name = "knowledge-seeking turns"
    config.scheme = "given"
    config.options = {"folder": folder}
    config.splits = ("test",)
    config.metrics = {"jaccard": {}, "bleu": {}}
    config.report = {"jaccard": {}, "bleu": {}, "self_bleu": {}}
    config.beside = {"SGD-X": "sgdx"}
    return config
