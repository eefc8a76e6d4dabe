"""Back-translation and QCPG with models of random weights."""

import dataclasses
import functools
import json

import pytest
import sentencepiece
import tokenizers
import torch
from tokenizers import models as token_models
from tokenizers import pre_tokenizers
from transformers import MarianConfig, MarianMTModel

from jaxaug.augment.schemes import backtranslate, qcpg
from jaxaug.core.errors import UserError
from jaxaug.models.named import catalogue
from jaxaug.models.text import registry
from jaxaug.models.text.registry import draw_parameters
from jaxaug.models.tokenizers import hf
from jaxaug.paraphrase import decoder, generation, samplers

TEXTS = ["the name of the city", "a date in the near future", "the price of a room"]


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    """Writes a translation model in the published layout, with weights by seed."""
    folder = tmp_path_factory.mktemp("marian")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 4), model_prefix=str(folder / "source"),
        vocab_size=40, character_coverage=1.0, hard_vocab_limit=False, bos_id=-1,
        minloglevel=2,
    )  # fmt: skip
    model = (folder / "source.model").rename(folder / "source.spm")
    (folder / "target.spm").write_bytes(model.read_bytes())
    words = sentencepiece.SentencePieceProcessor(str(model))
    pieces = {words.id_to_piece(i) for i in range(words.get_piece_size())}
    pieces -= {"</s>", "<unk>"}
    ids = {p: i for i, p in enumerate(["</s>", "<unk>", *sorted(pieces), "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "eng", "target_lang": "fra"})
    )
    size = len(ids)
    config = MarianConfig(
        vocab_size=size, decoder_vocab_size=size, d_model=16, encoder_layers=1,
        decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
        pad_token_id=size - 1, eos_token_id=0, decoder_start_token_id=size - 1,
        scale_embedding=True, forced_eos_token_id=0, activation_function="swish",
    )  # fmt: skip
    torch.manual_seed(3)
    network = MarianMTModel(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    network.save_pretrained(folder)
    return str(folder)


def test_texts_go_there_and_back_through_the_beam(marian):
    found = backtranslate.candidates(
        TEXTS, pivots=["fr"], num=2, beams=2, models={"fr": (marian, marian)},
        max_length=8,
    )  # fmt: skip
    options = samplers.find("beam").complete({})
    setting = generation.Setting(marian, "beam", 2, options, None, 8)
    translate = functools.partial(generation.Paraphraser(0, 32), setting)
    pivot = [beam[0] for beam in translate(TEXTS)]
    back = translate(pivot)
    assert found == [list(dict.fromkeys(filter(None, beam))) for beam in back]
    assert len(set(pivot)) > 1 and max(map(len, found)) == 2


class Fake:
    """Translates by a table: (model, text) -> beam."""

    def __init__(self, table):
        self.table, self.asked = table, []

    def __call__(self, seed, batch_size):
        return self.outputs

    def outputs(self, setting, texts):
        self.asked.append((setting.model, setting.num, list(texts)))
        return [self.table[setting.model][text] for text in texts]


@pytest.fixture
def fake(monkeypatch):
    names = {f"marian-{a}": {} for a in ("en-zh", "en-ko", "en-ja", "en-fr", "en-ru")}
    table = {name: {"a": [name[-2:], "-"], "b": ["", ""]} for name in names}
    for language in ("zh", "ko", "ja", "fr", "ru"):
        own = {"zh": "A", "ko": "B", "ja": "A", "fr": "a", "ru": "C"}[language]
        table[f"marian-{language}-en"] = {language: [own, f"{own}2"], "": ["", "x"]}
    made = Fake(table)
    monkeypatch.setattr(backtranslate, "Paraphraser", made)
    return made


def test_three_and_five_pivots(fake):
    three = backtranslate.candidates(["a", "b"], pivots=3, beams=2)
    # Languages match, and a model may write nothing.
    assert three == [["A", "B"], []]
    assert [model for model, _, _ in fake.asked] == [
        "marian-en-zh", "marian-zh-en", "marian-en-ko", "marian-ko-en",
        "marian-en-ja", "marian-ja-en",
    ]  # fmt: skip
    assert {num for _, num, _ in fake.asked} == {2}
    five = backtranslate.candidates(["a"], pivots=5, beams=2)
    assert five == [["A", "B", "a", "C"]]
    two_each = backtranslate.candidates(["a", "b"], pivots=["fr", "ru"], num=2, beams=2)
    assert two_each == [["a", "a2", "C", "C2"], ["x"]]
    assert backtranslate.candidates(["a"], pivots="fr", beams=2) == [["a"]]
    assert set(backtranslate.PIVOTS[3]) < set(backtranslate.PIVOTS[5])


def test_all_named_pivots_are_in_the_catalogue():
    for language in backtranslate.PIVOTS[5]:
        assert f"marian-en-{language}" in catalogue.CATALOGUE
        assert f"marian-{language}-en" in catalogue.CATALOGUE


def test_wrong_arguments_of_back_translation(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    generation._loaded.cache_clear()
    with pytest.raises(UserError, match=r"pivots=4: there are sets of 3 and 5"):
        backtranslate.candidates(["a"], pivots=4)
    with pytest.raises(UserError, match=r"num=5 outputs of beams=4"):
        backtranslate.candidates(["a"], num=5)
    with pytest.raises(UserError, match=r"jaxaug models fetch marian-en-zh"):
        backtranslate.candidates(["a"])


@pytest.fixture(scope="module")
def controlled(tmp_path_factory):
    """Returns a T5 of random weights whose tokenizer has the control fields of QCPG."""
    folder = tmp_path_factory.mktemp("qcpg")
    fields = [
        f"COND_{name}_{value}"
        for name in ("SEMANTIC_SIM", "LEXICAL_DIV", "SYNTACTIC_DIV")
        for value in range(0, 101, 5)
    ]
    plain = sorted({word for text in TEXTS for word in text.split()})
    names = ["<pad>", "</s>", "<unk>", *plain]
    backend = tokenizers.Tokenizer(
        token_models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(["<pad>", "</s>", "<unk>", *fields])
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"})
    )
    words = hf.load(folder)
    base = registry.random_tiny()
    config = dataclasses.replace(
        base.module.config, num_encoder_layers=1, num_decoder_layers=1,
        vocab_size=words.vocab_size, emb_dim=16, mlp_dim=16,
    )  # fmt: skip
    module = type(base.module)(config)
    params = draw_parameters(module, words)
    # The model then writes words instead of control fields.
    kernel = params["decoder"]["logits_dense"]["kernel"]
    kernel[:, [i for i, name in enumerate(words.texts()) if name not in plain]] = 0.0
    first = tuple(
        words.backend.token_to_id(f)
        for f in catalogue.find("qcpg-sentences").input("").split()
    )
    return registry.TextModel("qcpg", module, params, words, words, False, first=first)


def test_controls_stand_before_the_text(controlled, monkeypatch):
    qcpg._model.cache_clear()
    monkeypatch.setattr(registry, "load", lambda name: controlled)
    grid = [{"lexical": 50}, {"semantic": 95, "lexical": 10, "syntactic": 0}]
    prefixes = [
        "COND_SEMANTIC_SIM_80 COND_LEXICAL_DIV_50 COND_SYNTACTIC_DIV_50",
        "COND_SEMANTIC_SIM_95 COND_LEXICAL_DIV_10 COND_SYNTACTIC_DIV_0",
    ]
    found = qcpg.candidates(TEXTS, grid=grid, num=2, beams=2, max_length=6)
    words = controlled.input_vocabulary
    sampler = samplers.find("beam")
    decode_fn = sampler.build(2, sampler.complete({}))
    run = decoder.Decoder(controlled, decode_fn, num=2, max_length=6, seed=0)
    expected = [{} for _ in TEXTS]
    for prefix in prefixes:
        fields = [words.backend.token_to_id(field) for field in prefix.split()]
        assert registry.control_tokens(words, prefix, "") == tuple(fields)
        inputs = [[*fields, *words.encode(text), words.eos_id] for text in TEXTS]
        for known, row in zip(expected, run(inputs), strict=True):
            known |= dict.fromkeys(o.text for o in row if o.text)
    assert found == [list(own) for own in expected]
    assert max(map(len, found)) > 2  # The controls change the output.
    qcpg._model.cache_clear()


def test_wrong_arguments_of_qcpg(controlled):
    with pytest.raises(UserError, match=r"no kind 'tweets': use one of sentences, que"):
        qcpg.candidates(["a"], kind="tweets")
    with pytest.raises(UserError, match=r"lexical=12; use a multiple of 5"):
        qcpg.candidates(["a"], grid=[{"lexical": 12}])
    with pytest.raises(UserError, match=r"grid of controls is empty"):
        qcpg.candidates(["a"], grid=[])
    with pytest.raises(UserError, match=r"num=0 outputs of beams=4"):
        qcpg.candidates(["a"], num=0)
    with pytest.raises(UserError, match=r"does not know the control field COND_TONE_5"):
        registry.control_tokens(controlled.input_vocabulary, "COND_TONE_5", "")


def test_the_grid_is_in_range():
    for kind in qcpg.KINDS:
        named = catalogue.find(f"qcpg-{kind}")
        assert len({named.input("", **controls) for controls in qcpg.GRID}) == 12
