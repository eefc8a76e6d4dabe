"""Tasks that fine-tune a language model to paraphrase."""

import json

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import folders, minisgd, wordings
from tasks import adapters


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return minisgd.materialise(tmp_path_factory.mktemp("cache"))


def test_wordings_are_matched_by_position(folder):
    found = wordings.read(folder, ["test"])
    original = json.loads((folder / "test/schema.json").read_text())
    first = original[0]
    count = 1 + len(first["slots"]) + len(first["intents"])
    own = [item for item in found if item.service == first["service_name"]]
    assert len(own) == count
    assert own[0].texts[0] == first["description"]
    assert own[1].texts[0] == first["slots"][0]["description"]
    v3 = json.loads((folder / "sgd_x/data/v3/test/schema.json").read_text())
    assert v3[0]["slots"][0]["description"] in own[1].texts
    assert own[-1].texts[0] == first["intents"][-1]["description"]


def test_pairs_are_all_ways_round_but_for_trivial_ones():
    texts = ("City of the hotel", "city of  the hotel.", "town", "place")
    pairs = wordings.pairs([wordings.Wordings("a", texts)] * 2)
    assert len(pairs) == len(set(pairs)) == 4 * 3 - 2
    assert (texts[0], "town") in pairs and ("town", texts[0]) in pairs
    assert (texts[0], texts[1]) not in pairs


def test_a_pair_as_the_model_reads_it():
    assert adapters.prompted([("city of the hotel", "town")]) == [
        ("city of the hotel\n->", " town")
    ]


def test_without_variants(tmp_path):
    with pytest.raises(UserError, match="has no sgd_x/data"):
        wordings.read(tmp_path, ["train"])


@pytest.fixture
def text_dir(tmp_path, monkeypatch):
    """Returns a folder with one pair or paraphrase of each kind, and a trivial one."""
    (tmp_path / "quora").mkdir()
    (tmp_path / "pcc").mkdir()
    (tmp_path / "quora/train.source.txt").write_text("How is it?\nWhy not?\n")
    (tmp_path / "quora/train.target.txt").write_text("What is it like?\nwhy not?\n")
    lines = [f"headline $ wording {i} $ 1 $ 0.{9 - i}" for i in range(5)]
    (tmp_path / "pcc/aug_huff_train_s0.txt").write_text("\n".join(lines) + "\n")
    texts = [{"text": f"trait {i}", "score": 1 - i / 10} for i in range(5)]
    record = {"trait": "i like it.", "paraphrases": texts}
    (tmp_path / "pcc/persona_paraphrases.jsonl").write_text(json.dumps(record) + "\n")
    monkeypatch.setenv(folders.TEXT_DIR_VARIABLE, str(tmp_path))
    return tmp_path


def test_general_pairs_are_the_nearest_of_what_was_released(text_dir):
    pairs = adapters.general_pairs("train") + adapters.general_pairs("validation")
    assert sorted(pairs) == sorted(
        [("How is it?", "What is it like?")]
        + [("headline", f"wording {i}") for i in range(3)]
        + [("i like it.", f"trait {i}") for i in range(3)]
    )


def test_general_pairs_say_what_is_missing(text_dir, monkeypatch):
    (text_dir / "quora/train.target.txt").write_text("one\n")
    with pytest.raises(UserError, match="has 2 lines and train.target.txt 1"):
        adapters.general_pairs("train")
    monkeypatch.delenv(folders.TEXT_DIR_VARIABLE)
    with pytest.raises(UserError, match="JAXAUG_TEXT_DIR, which is not set"):
        adapters.general_pairs("train")
