"""Back-translation by Marian models over 3 pivot languages (zh, ko, ja) or 5 (fr, ru).

    jaxaug models fetch marian-en-zh marian-zh-en marian-en-ko marian-ko-en \\
        marian-en-ja marian-ja-en
    jaxaug augment --config configs/augment/backtranslate.py --data_dir SGD --out OUT

Each pivot language gives a variant. A text keeps the original wording if its
translation is equal. `backtranslate.py:5` uses five languages and also needs
marian-en-fr, marian-fr-en, marian-en-ru, and marian-ru-en. The models are on the
Hugging Face hub only.
"""

import ml_collections


def get_config(pivots: str = "3") -> ml_collections.ConfigDict:
    """The text behind the colon is the number of pivots, 3 or 5."""
    config = ml_collections.ConfigDict()
    config.name = f"back-translation, {pivots} pivots"
    config.scheme = "backtranslate"
    config.options = {"pivots": int(pivots)}
    config.variants = int(pivots)
    config.metrics = {"jaccard": {}, "bleu": {}}
    config.report = {"jaccard": {}, "bleu": {}, "self_bleu": {}}
    config.beside = {"SGD-X": "sgdx"}
    return config
