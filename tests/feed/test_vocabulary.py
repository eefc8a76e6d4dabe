"""Word vocabularies: no unknown words, separate index tokens, reproducible bytes."""

import pytest
import seqio

from jaxaug.core.errors import UserError
from jaxaug.feed import cache, recipes, vocabulary
from jaxaug.feed.vocabulary import TokenVocabulary, train_words
from jaxaug.models import initial
from jaxaug_papers import minisgd
from tests.support import grids


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("vocabulary")
    minisgd.write(
        root / "data", train_dialogues=60, dev_dialogues=20, test_dialogues=20
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_CACHE_DIR", str(root / "cache"))
        yield root / "data"


@pytest.fixture(scope="module")
def words(data):
    return TokenVocabulary(train_words(data))


def pieces(words, text):
    ids = words.encode(text)
    return [words.processor.id_to_piece(i).lstrip("\u2581") for i in ids]


def test_index_words(words):
    text = "0=type of food 0a) italian 0b) french i0=reserve a table"
    expected = "0= type of food 0a ) italian 0b ) french i0= reserve a table"
    assert pieces(words, text) == expected.split()
    text = "[states] 0=0b 3=8 pm | 8 [intents] i0 [req_slots] 2 1"
    expected = "[states] 0= 0b 3= 8 pm | 8 [intents] i0 [req_slots] 2 1"
    assert pieces(words, text) == expected.split()


def test_special_ids(words):
    assert (words.pad_id, words.eos_id, words.unk_id) == (0, 1, 2)
    assert words.decode([*words.encode("table"), 1, 5, 6]) == "table"
    assert words.decode([0, *words.encode("table"), 0, 0]) == "table"
    assert "\u2047" in words.decode([words.vocab_size + 7])


def test_unknown_words_are_spelled(words):
    # The longest known prefix of a word, then bytes; known words stay whole.
    assert pieces(words, "tabley, zé 8") == [
        *("table", "<0x79>", ",", "", "<0x7A>", "<0xC3>", "<0xA9>", "8")
    ]
    for text in ("zyzzyva", "\u03a9mega 10:35 pm | caf\u00e9!", "\U0001f600"):
        ids = words.encode(text)
        assert words.unk_id not in ids and words.decode(ids) == text
        tokens = seqio.SentencePieceVocabulary(words.path)
        assert tokens.encode(text) == tokens.encode_tf(text).numpy().tolist() == ids


@pytest.mark.parametrize("every", grids.first(1, [6, 1]))
def test_every_text_of_every_task_survives(data, words, every):
    table = recipes.table(data)
    checked = 0
    for splits in list(table.recipes.values())[::every]:
        for name, recipe in splits.items():
            if name == "train" and len(splits) > 1:
                # The words equal the words of the short tasks; this saves time.
                continue
            for example in cache.build(recipe).read():
                assert words.decode(words.encode(example.targets)) == example.targets
                assert words.unk_id not in words.encode(example.inputs), example.inputs
                checked += 1
    assert checked > (1000 if every == 1 else 50)


def test_same_data_same_bytes(data, tmp_path, words):
    first = train_words(data, tmp_path)
    assert first.name == train_words(data).name
    assert first.read_bytes() == train_words(data).read_bytes()
    assert str(tmp_path) not in first.read_bytes().decode("latin-1")
    assert [path.name for path in (tmp_path / "vocabularies").iterdir()] == [first.stem]


def test_a_damaged_vocabulary_is_made_again(sgd_tree, tmp_path, caplog):
    """`test_cache` has all kinds of damage."""
    path = train_words(sgd_tree, tmp_path)
    before = path.read_bytes()
    path.write_bytes(before[:-9])
    assert train_words(sgd_tree, tmp_path) == path and path.read_bytes() == before
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    start = f"cache {path.parent} is damaged and made again: {path.name} "
    assert line.startswith(start)


def test_bad_data_are_named_not_the_trainer(sgd_tree, tmp_path):
    (sgd_tree / "train" / "dialogues_002.json").write_text("[{")
    with pytest.raises(UserError, match="^.*dialogues_002.json: truncated JSON"):
        train_words(sgd_tree, tmp_path)
    assert list((tmp_path / "vocabularies").iterdir()) == []


def test_vocabularies_cover_training_data_only(sgd_tree, tmp_path, edit_json):
    """They cover training dialogues, schemas, and variants of training."""

    def trained(older=False):
        return TokenVocabulary(train_words(sgd_tree, tmp_path, older=older))

    def knows(words, word):
        return len(words.encode(word)) == 1

    def reword(data):
        data[0]["slots"][0]["description"] = "A meadow to lie in"

    first, older = trained(), trained(older=True)
    assert knows(first, "rome") and knows(first, "park")  # Parks_1 is not trained on.
    assert not knows(first, "kyiv") and knows(older, "kyiv")  # From a test dialogue.
    assert older.unk_id in older.encode("meadow")  # As in runs without a copy.
    edit_json(sgd_tree / "sgd_x/data/v3/test/schema.json", reword)
    edit_json(
        sgd_tree / "test/dialogues_001.json",
        lambda data: data[0]["turns"][0].update(utterance="Another meadow"),
    )
    assert trained().path == first.path and trained(older=True).path != older.path
    edit_json(sgd_tree / "sgd_x/data/v3/train/schema.json", reword)
    assert knows(trained(), "meadow")


def test_named_vocabulary(data, words, monkeypatch, tmp_path):
    monkeypatch.setenv("JAXAUG_VOCABULARY", words.path)
    assert vocabulary.model_file() == words.path
    monkeypatch.setenv("JAXAUG_VOCABULARY", str(tmp_path / "t5.model"))
    with pytest.raises(UserError, match="JAXAUG_VOCABULARY=.*t5.model: no such file"):
        vocabulary.model_file()
    monkeypatch.setenv("JAXAUG_VOCABULARY", "foo://t5.model")
    with pytest.raises(UserError, match="This is .JAXAUG_VOCABULARY. Name a Sentence"):
        vocabulary.model_file()


def test_invalid_t5_vocabularies(tmp_path):
    import io

    import sentencepiece

    bad = tmp_path / "bad.model"
    bad.write_bytes(b"not a model")
    with pytest.raises(UserError, match="bad.model: is no SentencePiece model"):
        vocabulary.load(bad)
    with pytest.raises(UserError, match=f"{tmp_path}: is no SentencePiece model. Name"):
        vocabulary.load(tmp_path)
    with pytest.raises(UserError) as error:
        vocabulary.load(tmp_path / "none.model")
    assert str(error.value) == (
        f"{tmp_path}/none.model: no such file, expected a model. Name one with "
        "$JAXAUG_VOCABULARY, such as the one of the pretrained T5."
    )
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d"]), model_writer=model, model_type="word",
        vocab_size=100, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    other = tmp_path / "other.model"
    other.write_bytes(model.getvalue())
    with pytest.raises(UserError, match="padding has id -1 and end of sequence 2"):
        vocabulary.load(other)


def test_a_model_of_the_package_by_name(sgd_tree, tmp_path, monkeypatch):
    """The name works in the variable as in gin; a file of that name has precedence."""
    shipped = initial.vocabulary("mini")
    monkeypatch.setenv("JAXAUG_VOCABULARY", "mini")
    monkeypatch.chdir(tmp_path)
    assert vocabulary.model_file() == shipped
    assert vocabulary.of_run(tmp_path / "none") == shipped
    monkeypatch.delenv("JAXAUG_VOCABULARY")
    assert vocabulary.model_file(named="mini") == shipped
    assert vocabulary.model_file(named="a/mini") == "a/mini"
    (tmp_path / "mini").write_text("")
    assert vocabulary.model_file(named="mini") == "mini"
    monkeypatch.setenv("JAXAUG_VOCABULARY", "minu")
    with pytest.raises(
        UserError, match=r"VOCABULARY=minu: no such file. Name .* package \(mini\), or"
    ):
        vocabulary.model_file()
