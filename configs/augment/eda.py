"""Easy data augmentation with the rates of Coca et al. (2023); no model.

    jaxaug augment --config configs/augment/eda.py --data_dir SGD --out OUT

Synonyms replace a quarter of the words; insertion, swaps, and deletion have a rate of
0.05. The variants are the first five of 20 draws that differ from the text and from
each other. No filter of the paper is used. The checks of jaxaug drop copies, lost
values, added numbers, and changed negations; outputs take the case and the final mark
of their text. Synonyms come from the built-in lexicon; `eda.py:DIR` reads the WordNet
files in DIR, such as /usr/share/wordnet of Debian's wordnet-base.
"""

import ml_collections


def get_config(wordnet_dir: str = "") -> ml_collections.ConfigDict:
    """The text after the colon is a folder with the files of WordNet."""
    config = ml_collections.ConfigDict()
    config.name = "EDA"
    config.scheme = "sentence"
    config.options = {
        "method": "eda", "num": 20,
        "replace": 0.25, "insert": 0.05, "swap": 0.05, "delete": 0.05,
    }  # fmt: skip
    if wordnet_dir:
        config.options["wordnet_dir"] = wordnet_dir
    config.metrics = {"jaccard": {}, "bleu": {}}
    config.report = {"jaccard": {}, "bleu": {}, "self_bleu": {}}
    config.beside = {"SGD-X": "sgdx"}
    return config
