"""The vocabulary of paraphrase pairs."""

import pytest

from jaxaug.core.errors import UserError
from jaxaug.feed import pair_words, vocabulary


@pytest.fixture
def pairs(tmp_path, monkeypatch):
    path = tmp_path / "mine.tsv"
    lines = [f"What is {word}?\tTell me, {word}" for word in WORDS]
    path.write_text("\n".join(lines) + "\n")
    (tmp_path / "mine.test.tsv").write_text("only tested\tnever trained\n")
    monkeypatch.setenv("JAXAUG_PARAPHRASES", str(path))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    return path


WORDS = [f"{a}{b}" for a in "bcdfghjklmnprst" for b in ("at", "agi", "onet", "u")]


def test_words_of_the_training_pairs(pairs):
    path = pair_words.path_of("paraphrase_mine_both", 100)
    words = vocabulary.TokenVocabulary(path)
    assert words.vocab_size <= 100
    tokens = words.encode("what is bat?")
    assert len(tokens) == 4 and words.unk_id not in tokens
    assert words.decode([*tokens, 1]) == "what is bat?"
    assert words.encode("only tested, cat") == [
        words.unk_id,
        *words.encode(", cat"),
    ]
    held = [w for w in WORDS if words.unk_id in words.encode(w)]
    assert held == ["dagi", "honet", "lu", "tu"]  # The words of the validation pairs.
    # The same for both tasks of a name, and built once.
    assert pair_words.path_of("paraphrase_mine", 100) == path
    small = vocabulary.TokenVocabulary(pair_words.path_of("paraphrase_mine", 9))
    assert small.vocab_size == 9
    assert small.unk_id not in small.encode("what is tell me ,")


def test_rejected_input(pairs):
    with pytest.raises(UserError, match="'paraphrase_nine' has no pairs of its own"):
        pair_words.path_of("paraphrase_nine")
    with pytest.raises(UserError, match="size is 3, expected 8 or more"):
        pair_words.path_of("paraphrase_mine", 3)
