"""Tokens that end an output of a published model, and their effect on outputs."""

import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import transformers

from jaxaug.core.errors import UserError
from jaxaug.models.text import language, registry
from jaxaug.paraphrase import decoder, samplers
from jaxaug.paraphrase.stream import decodes as streamed
from tests.support import compiled


def write(folder, **files):
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [
        ({"eos_token_id": 3}, None, (4,)),
        ({"eos_token_id": [3, 7]}, None, (4, 8)),
        # In transformers, generation_config.json has precedence.
        ({"eos_token_id": 3}, {"eos_token_id": [5, 6]}, (6, 7)),
        ({"eos_token_id": [3, 7]}, {"temperature": 1.0}, (4, 8)),
        ({"eos_token_id": -1}, None, ()),
        ({"eos_token_id": None}, None, ()),
        ({}, None, ()),
    ],
)
def test_all_listed_ids_are_read(tmp_path, config, generation, expected):
    write(tmp_path, config=config)
    if generation is not None:
        write(tmp_path, generation_config=generation)
    assert language.listed(tmp_path, 10, 1) == expected


@pytest.mark.parametrize("value", ["3", 10, [3, 10], [3, None], 2.0, True, -2])
def test_invalid_ids_are_named(tmp_path, value):
    write(tmp_path, generation_config={"eos_token_id": value})
    message = (
        r"generation_config.json: eos_token_id is .* has ids from 0 to 9. Take the"
    )
    with pytest.raises(UserError, match=message):
        language.listed(tmp_path, 10, 1)


def test_the_probabilities_of_all_ends_are_added_to_eos():
    logits = jnp.log(jnp.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]]))
    found = jax.nn.softmax(language.together(logits, (3, 2), 1))
    expected = [[0.1, 0.9, 0, 0], [0.7, 0.3, 0, 0]]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert language.together(logits, (1,), 1) is logits


LENGTH = 12


@pytest.fixture(scope="module")
def model():
    return registry.random_tiny()


def decode(model, source):
    chosen = samplers.find("greedy")
    greedy = chosen.build(1, chosen.complete({}))
    sources, ids = np.asarray([source], np.int32), np.arange(1, dtype=np.int32)
    key = jax.random.PRNGKey(0)
    (row,) = decoder.decode(
        model.bare, greedy, 1, LENGTH, model.params, sources, ids, key
    )
    tokens = np.asarray(row)
    (score,) = decoder.log_probabilities(model.bare, model.params, sources, tokens)
    inputs = [(0, source)]
    (found,) = streamed(
        model.bare, greedy, 1, LENGTH, model.params, key, inputs, len(source), 1
    )
    assert found[0].tolist() == tokens.tolist()
    return tokens[0].tolist(), float(score)


def log_probs(model, source, target):
    """Returns the log probability of each later token, by teacher forcing."""
    tokens = jnp.asarray([[0, *target]], jnp.int32)
    inputs = jnp.asarray([source]), tokens, jnp.ones_like(tokens)
    logits = compiled.apply(model.module, model.params, *inputs, enable_dropout=False)
    return np.asarray(jax.nn.log_softmax(logits[0].astype(jnp.float32)))


def test_an_encoder_decoder_ends_at_every_listed_token(model):
    source = model.encode("find a hotel in the north")
    plain, _ = decode(model, source)
    place, end = next(
        (i, t) for i, t in enumerate(plain) if i > 1 and t not in plain[:i]
    )
    assert end not in (0, model.output_vocabulary.eos_id)
    listed = dataclasses.replace(model, ends=(1, end))
    tokens, score = decode(listed, source)
    kept = plain[:place]
    assert tokens == [*kept, 1] + [0] * (LENGTH - place - 1)
    each = log_probs(model, source, kept)
    expected = sum(each[i, t] for i, t in enumerate(kept))
    expected += np.logaddexp(each[place, 1], each[place, end])
    np.testing.assert_allclose(score, expected, rtol=1e-4)
    assert listed.decode(tokens) == model.decode([*kept, 1])


def test_a_published_encoder_decoder_knows_its_ends(tmp_path, model):
    config = transformers.T5Config(
        vocab_size=model.module.config.vocab_size, d_model=8, d_kv=4, d_ff=16,
        num_layers=1, num_heads=2, eos_token_id=[1, 5], decoder_start_token_id=0,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    shutil.copy(model.input_vocabulary.path, tmp_path / "spiece.model")
    assert registry.load(str(tmp_path)).ends == (1, 5)
    told = {"eos_token_id": [1, 7], "decoder_start_token_id": 0}
    write(tmp_path, generation_config=told)
    assert registry.load(str(tmp_path)).ends == (1, 7)
