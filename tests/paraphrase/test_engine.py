"""Paraphrases by CTranslate2 equal those by JAX; draws have the same distribution."""

import json

import jax
import numpy as np
import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.models.text import registry
from jaxaug.paraphrase import engine, samplers
from jaxaug.paraphrase.decoder import Decoder
from jaxaug.paraphrase.engine import EngineDecoder
from tests.support import compiled

TEXTS = ("the city of the hotel", "how many people", "cost of two tickets", "a day")


@pytest.fixture(scope="module")
def model(small_world):
    return registry.load("random-tiny")


def _found(model, sampler, num, **options):
    """Returns (outputs of JAX, outputs of CTranslate2) for `TEXTS`."""
    chosen = samplers.find(sampler)
    every = chosen.complete(options)
    sizes = {"num": num, "max_length": 12}
    sequences = [model.encode(text) for text in TEXTS]
    ours = Decoder(model, chosen.build(num, every), seed=0, **sizes)
    theirs = EngineDecoder(
        model, engine.search(sampler, every, **sizes), precision="float32", seed=0,
        batch_size=3,
    )  # fmt: skip
    return ours(sequences), theirs(sequences)


@pytest.mark.parametrize(
    ("sampler", "num", "options"),
    [
        ("greedy", 1, {}),
        ("greedy", 1, {"min_length": 4}),
        ("top_k_top_p", 1, {"temperature": 0.0}),
        ("top_k_top_p", 3, {"temperature": 0.0, "k": 2000}),
        ("beam", 1, {"alpha": 0.0}),
        ("beam", 4, {"alpha": 0.0}),
    ],
)
def test_outputs_are_those_of_jax(model, sampler, num, options):
    ours, theirs = _found(model, sampler, num, **options)
    for own, other in zip(ours, theirs, strict=True):
        assert [one.text for one in own] == [one.text for one in other]
        np.testing.assert_allclose(
            [one.log_probability for one in own],
            [one.log_probability for one in other],
            atol=0.02,  # The unknown word has a share of 1 in 1,152 a token.
        )


def test_more_tokens_than_the_vocabulary_has(model):
    """A `k` above the number of words means all words."""
    _, found = _found(model, "top_k_top_p", 2, k=100_000)
    assert [len(own) for own in found] == [2] * len(TEXTS)


def test_draws_have_the_distribution_of_jax(model):
    """First tokens of 4,000 draws from the 8 most probable with a mass of 0.9."""
    options = samplers.find("top_k_top_p").complete(
        {"k": 8, "p": 0.9, "temperature": 1.7}
    )
    search = engine.search("top_k_top_p", options, num=4000, max_length=1)
    draw = EngineDecoder(model, search, precision="float32", seed=5, batch_size=1)
    tokens = model.encode(TEXTS[0])
    found = draw._engine([tokens], search)[0]
    firsts = [
        one.ids[0] if one.ids else model.output_vocabulary.eos_id for one in found
    ]
    source = np.array([tokens])
    start = np.array([[0]])
    inputs = source, start, start + 1
    logits = compiled.apply(model.module, model.params, *inputs, enable_dropout=False)
    logits = logits[0, 0]
    unwarped = np.asarray(jax.nn.log_softmax(logits))
    scores = [(one.ids[0], one.log_probability) for one in found if one.ids]
    np.testing.assert_allclose(
        [score for _, score in scores],
        [unwarped[token] for token, _ in scores],
        atol=0.01,
    )
    logits = np.array(logits / 1.7)
    logits[model.output_vocabulary.unk_id] = -1e9
    best = np.argsort(logits)[::-1][:8]
    shares = np.asarray(jax.nn.softmax(logits[best]))
    kept = np.cumsum(shares) - shares < 0.9
    shares = np.where(kept, shares, 0) / shares[kept].sum()
    drawn = np.array([firsts.count(token) for token in best]) / len(firsts)
    assert drawn.sum() == 1
    np.testing.assert_allclose(drawn, shares, atol=0.035)


def test_the_program_writes_a_file(small_world, tmp_path, capsys):
    """A second call with the file does nothing; a plain call chooses JAX itself."""
    file, out = tmp_path / "texts.txt", tmp_path / "out.jsonl"
    file.write_text("\n".join(TEXTS))
    call = [
        "paraphrase", "--in", str(file), "--out", str(out), "--engine", "ctranslate2",
    ]  # fmt: skip
    chosen = ["--model", "random-tiny", "--sampler", "greedy", "--precision", "int8"]
    assert cli.main([*call, *chosen]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["input"] for line in lines] == list(TEXTS)
    before = out.read_bytes()
    assert cli.main([*call, *chosen]) == 0
    assert out.read_bytes() == before
    assert cli.main(call) == 1
    assert "--engine: needs --sampler" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sampler", "options", "message"),
    [
        ("bottom_k", {}, "--sampler bottom_k with --engine ctranslate2"),
        ("dips", {}, "--sampler dips with --engine ctranslate2"),
        ("beam", {}, "Give --option alpha=0, or leave --engine out"),
        ("beam", {"alpha": 0.0, "temperature": 2.0}, "its beam search has none"),
        ("greedy", {"no_repeat_ngrams": 2}, "no_repeat_ngrams=2"),
    ],
)
def test_what_stays_with_jax_is_refused(sampler, options, message):
    every = samplers.find(sampler).complete(options)
    with pytest.raises(UserError, match=message):
        engine.search(sampler, every, num=1, max_length=8)


def test_precisions_that_it_lacks_are_refused():
    with pytest.raises(UserError, match="--precision bfloat16"):
        engine.check_precision("bfloat16")
