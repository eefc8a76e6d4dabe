"""Contextual substitution with random language models, and with SmolLM2."""

import jax
import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import models as token_models
from tokenizers import pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM

from jaxaug.augment.language.lexicon import STOP_WORDS
from jaxaug.augment.schemes import contextual
from jaxaug.augment.schemes.contextual import Gap
from jaxaug.core.errors import UserError
from jaxaug.models.named import catalogue
from jaxaug.models.scorers import encoder
from jaxaug.models.text import language

WORDS = ["hotel", "city", "price", "cheap", "room", "Paris", "the", "of", "in", "x9"]
TEXT = "the price of the hotel in {city}."


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """Returns a masked language model of random weights; its tokens are whole words."""
    folder = tmp_path_factory.mktemp("bert")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##ly", "."]
    ids = {name: number for number, name in enumerate(names)}
    backend = tokenizers.Tokenizer(token_models.WordPiece(ids, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    backend.add_special_tokens(names[:5])
    backend.save(str(folder / "tokenizer.json"))
    roles = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    tokens = {f'"{role}_token": "{names[n]}"' for role, n in roles.items()}
    (folder / "tokenizer_config.json").write_text("{" + ", ".join(tokens) + "}")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(names), hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=24, max_position_embeddings=16,
    )  # fmt: skip
    model = BertForMaskedLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return str(folder), model


def test_masked_proposals_equal_torch(bert):
    folder, model = bert
    proposer = contextual._proposer(folder)
    ids = {word: number for number, word in enumerate(WORDS, 5)}
    sequence = [2, ids["the"], 4, ids["of"], ids["city"], 3]
    with torch.no_grad():
        logits = model(torch.tensor([sequence])).logits[0, 2]
    expected = torch.log_softmax(logits, -1).numpy()
    (found,) = proposer.propose([Gap("the ", " of city", ("fee",))], 3)
    allowed = ["hotel", "city", "price", "cheap", "room"]
    best = sorted(allowed, key=lambda word: -expected[ids[word]])[:3]
    assert [word for word, _ in found] == best
    np.testing.assert_allclose(
        [score for _, score in found], [expected[ids[w]] for w in best], atol=1e-4
    )


def test_words_are_drawn_by_their_probability(bert, monkeypatch):
    class Proposer:
        def propose(self, gaps, top):
            return [[("fee", np.log(0.6)), ("toll", np.log(0.2)), ("price", 9.0)]] * (
                len(gaps)
            )

    monkeypatch.setattr(contextual, "_proposer", lambda name: Proposer())
    ((*found,),) = contextual.candidates(["the price"], num=400)
    assert set(found) == {"the fee", "the toll"}  # Never the word itself.
    assert found.count("the fee") == pytest.approx(300, abs=30)
    ((*cold,),) = contextual.candidates(["the price"], num=400, temperature=0.5)
    assert cold.count("the fee") == pytest.approx(360, abs=24)


def test_only_words_of_content_are_substituted(bert):
    folder, _ = bert
    texts = [TEXT, "of the 12", ""]
    options = {"model": folder, "num": 4, "rate": 1.0, "top": 5}
    found = contextual.candidates(texts, **options)
    assert [len(outputs) for outputs in found] == [4, 4, 0]
    for output in found[0]:
        words = output.rstrip(".").split()
        assert [words[0], *words[2:4], *words[5:]] == [
            "the", "of", "the", "in", "{city}",
        ]  # fmt: skip
        assert words[1] != "price" and words[4] != "hotel" and output.endswith(".")
    assert set(found[1]) == {"of the 12"}
    (kept,) = contextual.candidates([TEXT], protected=["Price"], **options)
    assert all(output.startswith("the price of the ") for output in kept)


def test_a_text_does_not_depend_on_its_company(bert):
    folder, _ = bert
    options = {"model": folder, "num": 4, "rate": 0.1, "temperature": 30.0}
    together = contextual.candidates([TEXT, "of the hotel in {city}"], **options)
    assert contextual.candidates([TEXT], **options)[0] == together[0]
    others = {
        tuple(contextual.candidates([TEXT], seed=seed, **options)[0])
        for seed in range(4)
    }
    assert len(others) > 1


@pytest.fixture(scope="module")
def causal(tiny_lm):
    """Returns a proposer, and tokens -> logits of the next token at each place."""
    model = language.load(tiny_lm, "tiny")
    longest = 40

    @jax.jit
    def apply(tokens):
        inputs = np.zeros((1, 1), np.int32)
        inputs = jax.numpy.concatenate([inputs, tokens[:, :-1]], axis=1)
        return model.module.apply(
            {"params": model.params}, inputs, tokens, enable_dropout=False
        )

    def logits(text):
        tokens = [*model.vocabulary.encode(text)]
        padded = np.ones((1, longest), np.int32)
        padded[0, : len(tokens)] = tokens
        return tokens, np.asarray(apply(padded))[0, : len(tokens) + 1]

    return contextual._Causal(model), logits


def test_causal_scores_equal_whole_texts(causal):
    proposer, logits = causal
    # A vocabulary of bytes has no words, so only synonyms are proposed.
    gap = Gap("the ", " of a (room)", ("fee", "cost", "toll"))
    (found,) = proposer.propose([gap], 4)
    assert [word for word, _ in found] == ["fee", "cost", "toll"]
    for word, score in found:
        tokens, rows = logits(gap.left + word + gap.right)
        steps = jax.nn.log_softmax(rows[:-1])[np.arange(len(tokens)), tokens]
        assert score == pytest.approx(float(steps.sum()), abs=1e-3)


def test_next_words_are_whole_and_the_most_probable(causal, monkeypatch):
    proposer, logits = causal
    words = {40: "forty", 41: "fortyone", 90: "ninety"}
    monkeypatch.setattr(proposer, "_words", words)
    lefts = ["the", "", "a longer text on the left side"]
    found = proposer.propose([contextual.Gap(left, "", ()) for left in lefts], 2)
    for left, proposed in zip(lefts, found, strict=True):
        _, rows = logits(left)
        best = sorted(words, key=lambda i: -float(rows[-1, i]))[:2]
        assert [word for word, _ in proposed] == [words[i] for i in best]


def test_tokens_that_are_words():
    texts = [
        " hotel", "hotel", " the", " Hotel", " x9", " to", " caf\u00e9", "", " doesn",
    ]  # fmt: skip
    assert contextual._whole_words(texts, " ") == {0: "hotel", 6: "caf\u00e9"}


def test_wrong_arguments_and_models(bert, tmp_path, monkeypatch):
    for options, text in (
        ({"rate": 0}, r"rate=0: .* above 0, at most 1"),
        ({"temperature": 0}, r"temperature=0: .* above 0"),
        ({"top": 0}, r"top=0"),
        ({"num": 0}, r"num=0"),
    ):
        with pytest.raises(UserError, match=text):
            contextual.candidates(["a"], **options)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    with pytest.raises(UserError, match=r"jaxaug models fetch smollm2-135m"):
        contextual.candidates(["a hotel"], model="smollm2-135m")
    long = " ".join(["hotel"] * 20)
    with pytest.raises(UserError, match=r"a text of 22 tokens; it reads 16 at most"):
        contextual.candidates([long], model=bert[0])
    headless = encoder.load(bert[0])
    monkeypatch.setattr(
        encoder, "load", lambda folder: _WithHead(headless.tokenizer, "sentence")
    )
    contextual._proposer.cache_clear()
    with pytest.raises(UserError, match=r"head is 'sentence'; .* needs a causal"):
        contextual.candidates(["a hotel"], model=bert[0])


class _WithHead:
    def __init__(self, words, head):
        self.tokenizer = words
        self.config = type("Config", (), {"head": head})


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(
    not catalogue.find("smollm2").on_disk, reason="SmolLM2 is not on this machine"
)
def test_smollm2_writes_words_that_fit():
    contextual._proposer.cache_clear()
    text = "Name of the hotel where the user wants to stay"
    ((*found,),) = contextual.candidates([text], num=3, temperature=0.5, top=10)
    assert len(set(found)) > 1
    for output in found:
        old, new = text.split(), output.split()
        assert len(new) >= len(old) and new != old
        # The function words of the sentence are still there.
        assert [w for w in new if w in STOP_WORDS] == [
            w for w in old if w in STOP_WORDS
        ]
