"""Vocabularies: indices and listed words are single pieces; any text can be encoded."""

import pytest
import sentencepiece

from jaxaug_papers.mini import pieces, pretraining

WORDS = ("lantern", "holiday", "pineapple")
SIZE = 1100


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces") / "world"
    pretraining.write(folder, services=60, dialogues=120, exercises=1)
    return folder, pieces.train([folder], WORDS, SIZE)


@pytest.fixture(scope="module")
def processor(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model[1])


def test_indexes_and_markers_are_whole(processor):
    assert processor.get_piece_size() == SIZE
    text = "0=1a 11=11a 11a) i1=i0 [user] <3> 11a i1 dontcare"
    found = [p.strip("\u2581") for p in processor.encode(text, out_type=str)]
    assert found == [
        "0=", "1a", "11=", "11a", "11a", ")", "i1=", "i0", "[user]", "<3>", "11a",
        "i1", "dontcare",
    ]  # fmt: skip


def test_listed_words_are_worth_pieces(model, processor):
    folder, _ = model
    plain = sentencepiece.SentencePieceProcessor(
        model_proto=pieces.train([folder], (), SIZE)
    )
    for word in WORDS:
        assert len(processor.encode(word)) < len(plain.encode(word))


@pytest.mark.parametrize("text", ["zürich", "7:45 pm", "日本", "it's 100%", "qxzjv"])
def test_any_text_is_read_and_written(processor, text):
    ids = processor.encode(text)
    assert processor.unk_id() not in ids
    assert processor.decode(ids) == text
