"""BART, Pegasus, and Marian, compared with PyTorch."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from t5x import adafactor, decoding, models

from jaxaug.core.errors import UserError
from jaxaug.decode import beam, sample, warpers
from jaxaug.models import bart
from jaxaug.models.weights import hf_folder
from tests.models import torch_kit
from tests.models.bart_kit import (
    BART,
    CASES,
    LENGTH,
    SIZES,
    STARTS,
    VOCAB,
    keys,
    ours,
    rows,
    shifted,
    torch_model,
)
from tests.models.torch_kit import LABELS, loaded
from tests.support import compiled, grids

every_case = pytest.mark.parametrize("name, options", [*CASES, *STARTS])
# Rows of different lengths, in ids of the published vocabulary; -1 is padding.
SOURCE_LENGTHS, TARGET_LENGTHS = np.array([7, 3, 5]), np.array([6, 6, 2])


SOURCES, TARGETS = rows(SOURCE_LENGTHS, 0), rows(TARGET_LENGTHS, 1)


def theirs(published: np.ndarray, options: dict) -> dict:
    ids = np.where(published < 0, options["pad_token_id"], published)
    return {
        "input_ids": torch.tensor(ids),
        "attention_mask": torch.tensor(published >= 0),
    }


def torch_logits(model, options: dict) -> np.ndarray:
    pad, start = options["pad_token_id"], options["decoder_start_token_id"]
    targets = np.where(TARGETS < 0, pad, TARGETS)
    inputs = np.pad(targets, ((0, 0), (1, 0)), constant_values=start)[:, :-1]
    with torch.no_grad():
        return model(
            **theirs(SOURCES, options), decoder_input_ids=torch.tensor(inputs)
        ).logits.numpy()


def full_logits(module: bart.Bart, params: dict) -> np.ndarray:
    sources, targets = ours(SOURCES, module.config), ours(TARGETS, module.config)
    return np.asarray(applied(module)(params, sources, targets))


def applied(module: bart.Bart):
    @jax.jit
    def apply(params, sources, targets):
        return module.apply(
            {"params": params}, sources, shifted(targets), targets, enable_dropout=False
        )

    return apply


@every_case
def test_logits_equal_torch(name, options, tmp_path):
    model = torch_model(name, options)
    module, params = loaded(model, tmp_path)
    offset = module.config.id_offset
    # BART begins texts with token 0.
    assert offset == (options["pad_token_id"] != 0 or name.startswith("Bart"))
    logits = full_logits(module, params)
    assert np.all(logits[..., :offset] == -1e10)
    here = TARGETS >= 0
    np.testing.assert_allclose(
        logits[here][:, offset:],
        torch_logits(model, options)[here],
        atol=1e-4,
        rtol=1e-5,
    )


def model_of(module: bart.Bart, options: dict, decode_fn) -> models.EncoderDecoderModel:
    class Words:
        eos_id = options["eos_token_id"] + module.config.id_offset
        vocab_size = VOCAB + module.config.id_offset

    return models.EncoderDecoderModel(
        module, Words(), Words(), adafactor.Adafactor(), decode_fn
    )


def batch_of(module: bart.Bart) -> dict:
    return {
        "encoder_input_tokens": ours(SOURCES, module.config),
        "decoder_input_tokens": jnp.zeros((len(SOURCES), LENGTH), jnp.int32),
    }


def published(decoded: jax.Array, module: bart.Bart) -> list[list[int]]:
    offset = module.config.id_offset
    return [[int(t) - offset for t in row if t] for row in np.asarray(decoded)]


def torch_generate(model, options: dict, beams: int) -> list[list[int]]:
    with torch.no_grad():
        out = model.generate(
            **theirs(SOURCES, options),
            max_new_tokens=LENGTH,
            num_beams=beams,
            do_sample=False,
            length_penalty=0.0,
        )
    rows = []
    for row in out[:, 1:].tolist():
        if options["eos_token_id"] in row:
            row = row[: row.index(options["eos_token_id"]) + 1]
        rows.append(row)
    return rows


def greedy(**kwargs):
    return decoding.temperature_sample(**kwargs, temperature=0.0)


@pytest.mark.parametrize(
    "name, options", grids.first(2, [CASES[5], CASES[3], CASES[7], CASES[0], *STARTS])
)
def test_greedy_decoding_equals_torch(name, options, tmp_path):
    options = options | {"bad_words_ids": [[options["pad_token_id"]]]}
    model = torch_model(name, options)
    model.generation_config.bad_words_ids = options["bad_words_ids"]
    module, params = loaded(model, tmp_path)
    module = bart.Bart(dataclasses.replace(module.config, never_pad=True))
    predict = jax.jit(model_of(module, options, greedy).predict_batch)
    decoded = predict(params, batch_of(module))
    expected = torch_generate(model, options, 1)
    assert published(decoded, module) == expected
    assert len({tuple(row) for row in expected}) > 1


FORCED = {"forced_bos_token_id": 7, "forced_eos_token_id": 2}


@grids.diagonal("file, beams", ["generation_config.json", "config.json"], [1, 3])
def test_forced_tokens_equal_torch(file, beams, tmp_path):
    """They come from generation_config.json, or else from config.json."""
    name, options = CASES[0]
    model = torch_model(name, options)
    model.generation_config.update(**FORCED, bad_words_ids=[[1]])
    model.save_pretrained(tmp_path)
    if file == "config.json":
        (tmp_path / "generation_config.json").unlink()
        path = tmp_path / file
        told = FORCED | {"bad_words_ids": [[1]]}
        path.write_text(json.dumps(json.loads(path.read_text()) | told))
    found = hf_folder.load(tmp_path)
    decode_fn = functools.partial(beam.search, alpha=0.0) if beams > 1 else greedy
    predict = model_of(found.module, options, decode_fn).predict_batch_with_aux
    predict = jax.jit(functools.partial(predict, num_decodes=beams))
    decoded, _ = predict(found.params, batch_of(found.module))
    expected = torch_generate(model, options, beams)
    assert published(decoded, found.module) == expected
    assert all(row[0] == 7 and row[-1] == 2 for row in expected)
    assert max(map(len, expected)) == LENGTH


def test_forced_tokens_of_a_config():
    config = settings()
    del config["forced_eos_token_id"]
    for family, architecture, token in (
        ("bart", "BartModel", 2),
        ("pegasus", "PegasusForConditionalGeneration", 1),
        ("marian", "MarianMTModel", 0),
    ):
        own = config | {"model_type": family, "architectures": [architecture]}
        # As transformers fills it in.
        assert bart.Config.from_hf(own).forced_eos_token_id == token
        assert bart.Config.from_hf(own | FORCED).forced_bos_token_id == 7
        null = bart.Config.from_hf(own | {"forced_eos_token_id": None})
        assert null.forced_eos_token_id is null.forced_bos_token_id is None
    listed = bart.Config.from_hf(config | {"forced_eos_token_id": [4]})
    assert listed.forced_eos_token_id == 4


def test_sampling_does_not_count_forced_tokens(tmp_path):
    """Bottom-k applies to the first token that the model chooses."""
    name, options = CASES[0]
    module, params = loaded(torch_model(name, options), tmp_path)
    config = dataclasses.replace(module.config, forced_bos_token_id=7)

    def second(chain):
        decode_fn = functools.partial(sample.sample, warpers=chain)
        model = model_of(bart.Bart(config), options, decode_fn)
        tokens = jax.jit(model.predict_batch)(params, batch_of(module))
        assert (np.asarray(tokens)[:, 0] == 8).all()
        return np.asarray(tokens)[:, 1].tolist()

    best = warpers.top_k(1)
    most_probable = second([best])
    others = second([warpers.bottom_k(1, 1, then=(best,)), best])
    assert all(a != b for a, b in zip(most_probable, others, strict=True))


def test_the_classifier_equals_torch(tmp_path):
    model = torch_model("BartForSequenceClassification", BART | {"id2label": LABELS})
    module, params = loaded(model, tmp_path)
    assert module.config.labels == tuple(LABELS.values())
    ids = SOURCES.copy()
    ids[np.arange(3), SOURCE_LENGTHS - 1] = BART["eos_token_id"]
    with torch.no_grad():
        expected = model(**theirs(ids, BART)).logits.numpy()
    inputs = ours(ids, module.config)
    logits = compiled.apply(module, params, inputs, method="classify")
    np.testing.assert_allclose(logits, expected, atol=1e-4, rtol=1e-5)
    assert np.ptp(expected, axis=0).min() > 0.01


@pytest.mark.parametrize(
    "name, options",
    grids.first(
        5,
        [
            ("BartModel", BART),
            ("BartForSequenceClassification", BART | {"num_labels": 4}),
            *CASES[2::2],
            CASES[-1],
            CASES[0],
        ],
    ),
)
def test_round_trip_of_weights_and_config_is_exact(name, options, tmp_path):
    module, _ = loaded(torch_model(name, options), tmp_path)
    unread = torch_kit.unread_after_round_trip(tmp_path)
    assert all("embed_positions" in name for name in unread)
    assert bool(unread) <= (not module.config.learned_positions)


def test_packed_rows_equal_separate_rows(tmp_path):
    module, params = loaded(torch_model(*CASES[0]), tmp_path)
    sources, targets = ours(SOURCES, module.config), ours(TARGETS, module.config)
    pieces = {
        "encoder": [sources[1, :3], sources[2, :5]],
        "decoder": [targets[1, :6], targets[2, :2]],
    }
    packed, segments, positions = {}, {}, {}
    for side, (first, second) in pieces.items():
        packed[side] = jnp.concatenate([first, second])[None]
        lengths = [len(first), len(second)]
        segments[side] = jnp.repeat(jnp.array([1, 2]), np.array(lengths))[None]
        positions[side] = jnp.concatenate([jnp.arange(n) for n in lengths])[None]
    inputs = jnp.concatenate([jnp.pad(p, (1, 0))[:-1] for p in pieces["decoder"]])[None]
    logits = compiled.apply(
        module, params, packed["encoder"], inputs, packed["decoder"],
        *segments.values(), *positions.values(), enable_dropout=False,
    )  # fmt: skip
    alone = full_logits(module, params)
    expected = np.concatenate([alone[1, :6], alone[2, :2]])
    np.testing.assert_allclose(logits[0], expected, atol=1e-4, rtol=1e-5)


def test_the_published_bias_gets_no_gradient(tmp_path):
    module, params = loaded(torch_model(*CASES[5]), tmp_path)
    sources, targets = ours(SOURCES, module.config), ours(TARGETS, module.config)
    run = applied(module)
    total = jax.grad(lambda p: run(p, sources, targets)[..., 3].sum())
    gradient = jax.jit(total)(params)
    assert not gradient["final_logits_bias"].any()
    assert gradient["token_embedder"]["embedding"].any()


def settings(**changes) -> dict:
    return (
        SIZES | BART | {"model_type": "bart", "architectures": ["BartModel"]} | changes
    )


def test_errors_name_the_wrong_part():
    module = bart.Bart(bart.Config.from_hf(settings()))
    ids = jnp.ones((1, 4), jnp.int32)
    with pytest.raises(UserError, match=r"no classifier.*ForSequenceClassification"):
        module.apply({}, ids, method="classify")
    encoded = jnp.zeros((1, 4, 12))
    with pytest.raises(UserError, match=r"segment ids of one side only"):
        module.apply({}, encoded, ids, ids, ids, ids, method="decode")
    with pytest.raises(UserError, match=r"leave out the segment ids"):
        arguments = (encoded, ids, ids, ids, ids, ids)
        module.apply({}, *arguments, decode=True, method="decode")
    for family in ("bart", "marian"):
        architecture = {"bart": "BartModel", "marian": "MarianMTModel"}[family]
        changes = {"model_type": family, "architectures": [architecture]}
        other = bart.Bart(bart.Config.from_hf(settings(**changes)))
        long = jnp.ones((1, 17), jnp.int32)
        with pytest.raises(UserError, match=r"16 positions.*17 long"):
            jax.eval_shape(lambda m=other, t=long: m.init(keys(), t, t, t))
