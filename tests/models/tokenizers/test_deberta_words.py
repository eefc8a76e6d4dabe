"""DeBERTa's tokenizer: spm.model and tokenizer.json, compared with both libraries."""

import itertools
import json

import pytest
import tokenizers
import transformers

from jaxaug.core.errors import UserError
from jaxaug.models.tokenizers import hf

SPECIAL = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
PLAIN = [
    "The name of the restaurant", " two   spaces ", "", "日本 dollars",
    "a city, a date!", "two nights\tin the hotel\n", "caf\u00e9 😀😀 x",
]  # fmt: skip
# Texts that SentencePiece normalizes before it splits them.
COMPATIBLE = [
    "\ufb01rst \uff34\uff28\uff25 city",
    "cafe\u0301",
    "\u00bd half",
    "a\u00a0b\u200bc",
]


@pytest.fixture(scope="module")
def published(tmp_path_factory, train_spm):
    folder = tmp_path_factory.mktemp("spm")
    return folder, train_spm(folder)


def test_ids_equal_sentencepiece(published):
    folder, processor = published
    words = hf.load(folder)
    for text in PLAIN + COMPATIBLE:
        assert words.encode(text) == processor.encode(text), text
    assert (words.pad_id, words.bos_id, words.eos_id, words.unk_id) == (0, 1, 2, 3)
    assert words.mask_id == processor.get_piece_size() == words.vocab_size - 1
    assert words.decode(words.encode("the name of")) == "the name of"


@pytest.mark.parametrize("fast", [False, True])
def test_texts_and_pairs_equal_transformers(published, tmp_path, fast):
    folder, _ = published
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    if fast:
        theirs.save_pretrained(tmp_path)
        folder = tmp_path
    assert (folder / "tokenizer.json").exists() == fast
    words = hf.load(folder)
    for one in (*PLAIN, *itertools.pairwise(filter(None, PLAIN))):
        expected = theirs(*([one] if isinstance(one, str) else one))
        (found,) = words.pairs([one], 100)
        assert found == (expected["input_ids"], expected["token_type_ids"]), one
    roles = ("pad", "bos", "eos", "unk", "mask")
    assert {r: words.special[r] for r in roles} == {
        role: getattr(theirs, f"{role}_token_id") for role in roles
    }
    (cut,) = words.pairs([("the name", "the name of the restaurant city")], 8)
    assert len(cut.tokens) == 8
    expected = theirs(
        "the name", "the name of the restaurant city", truncation=True, max_length=8
    )
    assert cut.tokens == expected["input_ids"]


@pytest.mark.parametrize("fast", [False, True])
def test_text_of_data_is_not_a_special_token(published, tmp_path, fast):
    folder, _ = published
    if fast:
        transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
        # As published: splitting and normalization are in the file.
        backend, _ = hf.read_spm(folder / "spm.model")
        backend.save(str(tmp_path / "tokenizer.json"))
        folder = tmp_path
    words = hf.load(folder)
    for token in (*SPECIAL.values(), "[MASK]"):
        ids = words.encode(f"the {token} city{token}")
        assert not set(ids) & {words.pad_id, words.bos_id, words.eos_id, words.mask_id}
    assert words.encode("the [city]") == published[1].encode("the [city]")


def test_options_of_the_configuration(tmp_path, train_spm):
    processor = train_spm(tmp_path)
    options = {"do_lower_case": True, "split_by_punct": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    words = hf.load(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "The City,the HOTEL"
    assert words.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
    assert words.encode(text) == processor.encode("the city , the hotel")
    (tmp_path / "other").mkdir()
    for name in ("spm.model", "config.json"):
        (tmp_path / name).rename(tmp_path / "other" / name)
    config = tmp_path / "other" / "tokenizer_config.json"
    for content, message in (
        ('{"do_lower_case": 1}', "do_lower_case is 1, but must be true or false"),
        ("[]", "holds no JSON object"),
    ):
        config.write_text(content)
        with pytest.raises(UserError, match=message):
            hf.load(tmp_path / "other")


def test_other_models_of_sentencepiece_are_refused(tmp_path, train_spm):
    train_spm(tmp_path / "bpe", model_type="bpe")
    with pytest.raises(UserError, match=r"spm.model is not a unigram model of Sente"):
        hf.load(tmp_path / "bpe")
    train_spm(tmp_path / "t5", bos_piece="<s>", eos_piece="</s>")
    with pytest.raises(UserError, match=r"lacks the pieces \[CLS\], \[SEP\]"):
        hf.load(tmp_path / "t5")
    (tmp_path / "t5" / "spm.model").write_bytes(b"\xff\xff")
    hf._load.cache_clear()
    with pytest.raises(UserError, match="spm.model is not a model of SentencePiece"):
        hf.load(tmp_path / "t5")


def test_other_tokenizers_are_left_alone(tiny_lm):
    words = tokenizers.Tokenizer.from_file(str(tiny_lm / "tokenizer.json"))
    before = words.to_str()
    hf.guard(words)
    assert words.to_str() == before
