"""Back-translation by Marian models over 3 pivot languages (zh, ko, ja) or 5 (fr, ru).

    jaxaug models fetch marian-en-zh marian-zh-en marian-en-ko marian-ko-en \\
        marian-en-ja marian-ja-en
    jaxaug augment --config configs/augment/backtranslate.py --data_dir SGD --out OUT

One variant per pivot language; a text that comes back unchanged keeps the original
wording. `backtranslate.py:5` takes five; fetch marian-en-fr, marian-fr-en,
marian-en-ru and marian-ru-en as well. The models are on the Hugging Face hub only.
"""

import ml_collections


def get_config(pivots: str = "3") -> ml_collections.ConfigDict:
    """Returns the text behind the colon is the number of pivots, 3 or 5."""
    config = ml_collections.ConfigDict()
    config.name = f"back-translation, {pivots} pivots"
    config.scheme = "backtranslate"
    config.options = {"pivots": int(pivots)}
    config.variants = int(pivots)
    config.metrics = {"jaccard": {}, "bleu": {}}
    config.report = {"jaccard": {}, "bleu": {}, "self_bleu": {}}
    config.beside = {"SGD-X": "sgdx"}
    return config
