"""Back-translation by the rules of Apertium over 3 pivot languages or 5; no model.

    apt-get install apertium-eng-spa apertium-eng-cat apertium-en-gl \\
        apertium-eo-en apertium-hbs-eng
    jaxaug augment --config configs/augment/apertium.py --data_dir SGD --out OUT

The pivot languages are Spanish, Catalan, and Galician; `apertium.py:5` adds Esperanto
and Serbo-Croatian. Each gives a variant. A text keeps the original wording if its
translation is equal.
"""

import ml_collections

PIVOTS = ("spa", "cat", "glg", "epo", "hbs")


def get_config(pivots: str = "3") -> ml_collections.ConfigDict:
    """The text behind the colon is the number of pivots, 1 to 5."""
    number = int(pivots)
    if not 1 <= number <= len(PIVOTS):
        raise ValueError(f"{number} pivots: give 1 to {len(PIVOTS)}.")
    config = ml_collections.ConfigDict()
    config.name = f"back-translation by rules, {number} pivots"
    config.scheme = "apertium"
    config.options = {"pivots": PIVOTS[:number]}
    config.variants = number
    config.metrics = {"jaccard": {}, "bleu": {}}
    config.report = {"jaccard": {}, "bleu": {}, "self_bleu": {}}
    config.beside = {"SGD-X": "sgdx"}
    return config
