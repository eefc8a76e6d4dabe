"""Fixtures for the tests of several rooms of the models."""

import json

import pytest
import sentencepiece

from jaxaug.feed import vocabulary
from jaxaug_papers import minisgd

SENTENCES = (
    "the name of the restaurant in this city", "number of people for the booking",
    "cost in dollars for two nights at a hotel", "phone number and address",
    "star rating of the movie", "title of a song on this album", "price of the train",
)  # fmt: skip
SPECIAL = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}


def _train(folder, **options):
    folder.mkdir(exist_ok=True)
    lines = [*SENTENCES] * 20 + ["The First THE caf\u00e9 1/2, a city!"] * 20
    pieces = {f"{role}_piece": token for role, token in SPECIAL.items()}
    ids = {f"{role}_id": number for number, role in enumerate(SPECIAL)}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(folder / "spm"),
        vocab_size=100, hard_vocab_limit=False, minloglevel=2,
        **{**pieces, **ids, **options},
    )  # fmt: skip
    (folder / "spm.vocab").unlink()
    if not (folder / "config.json").exists():
        (folder / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))


@pytest.fixture(scope="session")
def words(tmp_path_factory):
    """Returns the word vocabulary of a tiny MiniSGD."""
    root = tmp_path_factory.mktemp("words")
    minisgd.write(root / "d", train_dialogues=1, dev_dialogues=1, test_dialogues=1)
    return vocabulary.train_words(root / "d", root)


@pytest.fixture(scope="session")
def train_spm():
    """Returns `train_spm(folder, **options)`, which writes a small `spm.model`."""
    return _train
