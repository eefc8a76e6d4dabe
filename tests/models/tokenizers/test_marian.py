"""Marian's two SentencePiece models and its table, compared with transformers."""

import json

import pytest
import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

from jaxaug.core.errors import UserError
from jaxaug.models.text import registry
from jaxaug.models.tokenizers import marian
from jaxaug.paraphrase import decoder, samplers

SOURCES = ["the name of the city", "a date in the near future", "the price of a room"]
TARGETS = ["le nom de la ville", "une date proche", "le prix de la chambre"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Writes a translation model of random weights, in the published layout."""
    path = tmp_path_factory.mktemp("marian")
    pieces: dict[str, None] = {"</s>": None, "<unk>": None, ">>fra<<": None}
    for name, texts in (("source", SOURCES), ("target", TARGETS)):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts * 4), model_prefix=str(path / name),
            vocab_size=40, character_coverage=1.0, hard_vocab_limit=False, bos_id=-1,
            minloglevel=2,
        )  # fmt: skip
        (path / f"{name}.model").rename(path / f"{name}.spm")
        (path / f"{name}.vocab").unlink()
        model = sentencepiece.SentencePieceProcessor(str(path / f"{name}.spm"))
        # The order differs from the SentencePiece model, and one piece is missing.
        found = [model.id_to_piece(i) for i in range(model.get_piece_size())]
        pieces |= dict.fromkeys(sorted(set(found) - {"z", "<unk>", "</s>", "q"}))
    ids = {piece: number for number, piece in enumerate([*pieces, "<pad>"])}
    (path / "vocab.json").write_text(json.dumps(ids))
    (path / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "eng", "target_lang": "fra"})
    )
    torch.manual_seed(0)
    size = len(ids)
    config = MarianConfig(
        vocab_size=size, decoder_vocab_size=size, d_model=16, encoder_layers=1,
        decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
        pad_token_id=size - 1, eos_token_id=0, decoder_start_token_id=size - 1,
        scale_embedding=True, forced_eos_token_id=0, activation_function="swish",
    )  # fmt: skip
    model = MarianMTModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def theirs(folder):
    return MarianTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    "text", [*SOURCES, ">>fra<< the city", "unknown: \u00e9\u00df!", "2 >>fra<< cities"]
)
def test_inputs_equal_transformers(folder, theirs, text):
    source, _ = marian.load(folder, 1)
    expected = theirs(text)["input_ids"]
    assert [*source.encode(text), source.eos_id] == [i + 1 for i in expected]
    assert source.unk_id == 2 and source.vocab_size == len(theirs.encoder) + 1


def test_outputs_equal_transformers(folder, theirs):
    _, target = marian.load(folder, 1)
    for text in TARGETS:
        expected = theirs(text_target=text)["input_ids"]
        assert [*target.encode(text), target.eos_id] == [i + 1 for i in expected]
        ours = [i + 1 for i in expected]
        assert target.decode([0, *ours, 5, 6]) == text
        assert theirs.decode(expected, skip_special_tokens=True) == text
    # Special ids, unknown ids, and ids beyond the table have no text.
    first = target.encode("le nom")
    assert target.decode([first[0], 2, 999, *first[1:]]) == "le nom"


def test_a_separate_target_table(folder, tmp_path):
    for name in ("source.spm", "target.spm", "vocab.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    _, joint = marian.load(tmp_path, 0)
    first, *rest = joint.processor.encode("ville", out_type=str)
    table = {"<unk>": 0, first: 1, "</s>": 2}
    (tmp_path / "target_vocab.json").write_text(json.dumps(table))
    source, target = marian.load(tmp_path, 0)
    assert (source.eos_id, target.eos_id, target.vocab_size) == (0, 2, 3)
    assert first not in rest and target.encode("ville") == [1] + [0] * len(rest)
    assert target.decode([1, 2]) == first.strip("\u2581")


def test_greedy_translation_equals_torch(folder, theirs):
    model = registry.load(str(folder))
    decoded = decoder.Decoder(
        model, samplers.find("greedy").build(1, {}), num=1, max_length=8, seed=0
    )
    oracle = MarianMTModel.from_pretrained(folder).eval()
    texts = set()
    for text in SOURCES:
        tokens = model.encode(text)
        ((output,),) = decoded([tokens])
        generated = oracle.generate(
            **theirs(text, return_tensors="pt"), max_new_tokens=8, do_sample=False,
            num_beams=1,
        )  # fmt: skip
        assert output.text == theirs.decode(generated[0], skip_special_tokens=True)
        texts.add(output.text)
    assert all(texts)


@pytest.mark.parametrize(
    "name, content, text",
    [
        ("target.spm", None, r"target\.spm: no such file\. Get the model again"),
        ("source.spm", b"no model", r"source\.spm is not a SentencePiece model"),
        ("vocab.json", b"{}", r"vocab\.json: must be a table .* </s> and <unk>"),
        ("vocab.json", b"[", r"vocab\.json"),
        ("vocab.json", b"\xff",
         r"vocab\.json: line 1: byte 0xff at offset 0 is not UTF"),
        ("vocab.json", b'{"</s>": 0, "<unk>": "1"}',
         (r"vocab\.json: the id of '<unk>' is '1', but must be a whole number "
         r"from 0 to")),
        ("vocab.json", b'{"</s>": 0, "<unk>": 1000000000000}',
         r"the id of '<unk>' is 1000000000000, but must be a whole number from 0"),
    ],
)  # fmt: skip
def test_damaged_files(folder, tmp_path, name, content, text):
    for known in ("source.spm", "target.spm", "vocab.json"):
        (tmp_path / known).write_bytes((folder / known).read_bytes())
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=text):
        marian.load(tmp_path, 1)
