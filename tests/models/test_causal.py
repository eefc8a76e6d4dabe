"""Decoder-only families, compared with Hugging Face models of random weights."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from t5x import models

from jaxaug.core.errors import UserError
from jaxaug.decode import beam, sample, warpers
from jaxaug.models import gpt2
from jaxaug.models.weights.keymap import tensors_from
from tests.models.causal_kit import (
    VARIANTS,
    Endless,
    Words,
    classes,
    draw,
    filled,
    forward,
    pair,
    stepper,
)
from tests.support import grids


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_equal_torch(variant: str):
    theirs, module, params = pair(variant)
    tokens = draw(3, 9)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(tokens).long()).logits.numpy()
    logits = forward(module, params, tokens)
    assert logits.dtype == jnp.float32
    assert np.std(expected) > 0.5
    np.testing.assert_allclose(logits, expected, atol=1e-4)


@grids.diagonal(
    "variant, side", ["gemma3", "qwen2-window", "llama-llama3"], ["left", "right"]
)
def test_padding_is_not_seen(variant: str, side: str):
    theirs, module, params = pair(variant)
    tokens = draw(3, 9)
    real = np.arange(9) < np.asarray([[9], [7], [2]])
    real = real[:, ::-1] if side == "left" else real
    positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)
    with torch.no_grad():
        expected = theirs(
            torch.from_numpy(tokens).long(),
            attention_mask=torch.from_numpy(real.astype(np.int64)),
            position_ids=torch.from_numpy(positions),
        ).logits.numpy()
    logits = forward(
        module, params, tokens, targets=tokens * real, decoder_positions=positions
    )
    np.testing.assert_allclose(logits[real], expected[real], atol=1e-4)


@pytest.mark.parametrize("variant", grids.first(2, ["gemma3", "gpt2", "llama-grouped"]))
def test_steps_after_prefill_equal_the_full_forward(variant: str):
    _, module, params = pair(variant)
    tokens = draw(2, 7)
    lengths = jnp.asarray([2, 5])
    full = forward(module, params, tokens)
    empty = filled(module, {"params": params}, tokens, decode=True)
    given = {"params": params, **empty}
    variables = filled(module, given, tokens, lengths, prefill=True)
    take = stepper(module, params)
    for step in range(2):
        token = jnp.take_along_axis(jnp.asarray(tokens), (lengths + step)[:, None], 1)
        logits, variables = take(variables, token)
        for row in range(2):
            np.testing.assert_allclose(
                logits[row, 0], full[row, int(lengths[row]) + step], atol=1e-4
            )


def t5x_batch(prompts: np.ndarray, length: int) -> dict[str, np.ndarray]:
    """Returns a batch whose prompts replace BOS and inputs; 0 is padding."""
    tokens = np.pad(prompts, ((0, 0), (0, length - prompts.shape[1])))
    return {
        "decoder_input_tokens": tokens,
        "decoder_causal_attention": (tokens != 0).astype(np.int32),
    }


def uneven_prompts() -> np.ndarray:
    prompts = draw(4, 5, seed=3)
    prompts[1, 3:] = prompts[2, 1:] = 0
    return prompts


@pytest.mark.parametrize(
    "variant",
    grids.first(
        3, ["llama-grouped", "gemma3", "gpt2-untied", "llama-tied", "mistral", "qwen3"]
    ),
)
def test_greedy_generation_equals_torch(variant: str):
    theirs, module, params = pair(variant)
    prompts, length = uneven_prompts(), 16
    greedy = functools.partial(sample.sample, warpers=(warpers.top_k(1),))
    model = models.DecoderOnlyModel(module, Words(), None, decode_fn=greedy)
    decodes = jax.jit(model.predict_batch)(params, t5x_batch(prompts, length))
    distinct = set()
    for prompt, decode in zip(prompts, np.asarray(decodes), strict=True):
        prompt = prompt[prompt != 0]
        with torch.no_grad():
            row = theirs.generate(
                torch.from_numpy(prompt).long()[None],
                do_sample=False,
                max_length=length,
                pad_token_id=0,
                eos_token_id=1,
            )[0].tolist()
        expected = row[len(prompt) :]
        assert decode[: len(expected)].tolist() == expected
        distinct.add(tuple(expected))
    assert len(distinct) == len(prompts)


@pytest.mark.parametrize("variant", ["llama-grouped", "gpt2"])
def test_beam_scores_equal_the_full_forward(variant: str):
    """They would differ if caches did not follow beams that change places."""
    _, module, params = pair(variant)
    # Id 0 is never drawn, and no beam ends.
    module = type(module)(dataclasses.replace(module.config, id_offset=1))
    prompts, length = uneven_prompts(), 12
    model = models.DecoderOnlyModel(module, Endless(), None, decode_fn=beam.search)
    predict = functools.partial(
        model.predict_batch_with_aux,
        num_decodes=3,
        return_all_decodes=True,
        decoder_params={"alpha": 0.0, "max_decode_steps": 6},
    )
    decodes, aux = jax.jit(predict)(params, t5x_batch(prompts, length))
    for prompt, beams, scores in zip(
        prompts, np.asarray(decodes), np.asarray(aux["scores"]), strict=True
    ):
        prompt = prompt[prompt != 0]
        drawn = beams[:, :6]
        assert len(np.unique(drawn, axis=0)) == 3
        tokens = np.zeros((3, length), np.int32)
        tokens[:, : len(prompt)] = prompt
        tokens[:, len(prompt) : len(prompt) + 6] = drawn
        log_probs = jax.nn.log_softmax(forward(module, params, tokens))
        at = np.arange(6) + len(prompt) - 1
        expected = log_probs[np.arange(3)[:, None], at, drawn].sum(axis=1)
        np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.parametrize("variant", grids.first(2, ["gemma3", "gpt2", "llama-grouped"]))
def test_packed_rows_equal_separate_ones(variant: str):
    _, module, params = pair(variant)
    first, second = draw(1, 4, seed=1), draw(1, 5, seed=2)
    packed = np.concatenate([first, second], axis=1)
    together = forward(
        module,
        params,
        packed,
        decoder_segment_ids=np.asarray([[1] * 4 + [2] * 5]),
        decoder_positions=np.asarray([[*range(4), *range(5)]]),
    )
    for tokens, part in ((first, together[:, :4]), (second, together[:, 4:])):
        alone = forward(module, params, tokens)
        np.testing.assert_allclose(part, alone, atol=2e-5)


@pytest.mark.parametrize("variant", ["llama-tied", "gpt2-untied"])
def test_id_offset_frees_id_zero(variant: str):
    _, module, params = pair(variant)
    tokens = draw(2, 6)
    tokens[:, 0] = module.config.bos_token_id
    plain = forward(module, params, tokens)
    shifted = tokens + 1
    shifted[:, 0] = 0
    config = dataclasses.replace(module.config, id_offset=1)
    logits = forward(type(module)(config), params, shifted, targets=tokens + 1)
    assert logits.shape == (2, 6, 62)
    np.testing.assert_allclose(logits[..., 1:], plain, atol=2e-5)
    np.testing.assert_array_equal(logits[..., 0], np.float32(-1e10))


@grids.diagonal("variant, id_offset", ["llama-tied", "gpt2-untied"], [0, 1])
def test_loss_in_parts_equals_the_loss_of_all_logits(variant: str, id_offset: int):
    """Value and gradients, with forbidden ids and smoothed targets."""
    _, module, params = pair(variant)
    config = dataclasses.replace(module.config, id_offset=id_offset)
    tokens = draw(2, 6) + id_offset
    batch = {
        "decoder_input_tokens": np.pad(tokens[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": tokens,
        "decoder_loss_weights": np.ones_like(tokens),
    }

    def loss_and_gradients(chunk: int) -> Any:
        model = models.DecoderOnlyModel(
            type(module)(config), Words(), None, label_smoothing=0.1, z_loss=1e-3,
            loss_chunk=chunk,
        )  # fmt: skip
        function = jax.value_and_grad(model.loss_fn, has_aux=True)
        # With all logits there are 2 * 6 rows of them, with parts only 2 * 2.
        compiled = jax.jit(lambda p: function(p, batch, None)).lower(params).compile()
        vocab = config.vocab_size
        assert (f"f32[2,6,{vocab}]" in compiled.as_text()) == (chunk == 0)
        (loss, _), gradients = compiled(params)
        return loss, gradients

    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=2e-5),
        loss_and_gradients(2),
        loss_and_gradients(0),
    )


def test_capped_logits_are_not_split():
    """The factors would give the logits without the cap."""
    _, module, params = pair("gemma2")
    tokens = draw(2, 6)
    batch = {
        "decoder_input_tokens": np.pad(tokens[:, :-1], ((0, 0), (1, 0))),
        "decoder_target_tokens": tokens,
        "decoder_loss_weights": np.ones_like(tokens),
    }
    losses = []
    for chunk in (0, 2):
        model = models.DecoderOnlyModel(module, Words(), None, loss_chunk=chunk)
        loss = jax.jit(lambda p, m=model: m.loss_fn(p, batch, None)[0])
        losses.append(loss(params))
    np.testing.assert_allclose(*losses, rtol=1e-6)


@pytest.mark.parametrize("variant", grids.first(1, ["llama-grouped", "gpt2"]))
def test_bfloat16_stays_near_float32(variant: str):
    _, module, params = pair(variant)
    tokens = draw(2, 6)
    full = forward(module, params, tokens)
    config = dataclasses.replace(module.config, dtype=jnp.bfloat16)
    half = forward(type(module)(config), params, tokens)
    assert half.dtype == jnp.float32
    error = np.sqrt(np.mean((half - full) ** 2) / np.mean(full**2))
    assert 1e-4 < error < 0.05


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_and_config_return(variant: str):
    theirs, module, params = pair(variant)
    family = VARIANTS[variant][0]
    tensors = tensors_from(params, family.key_map(module.config))
    state = theirs.state_dict()
    tied = {"lm_head.weight"} if module.config.tie_embeddings else set()
    assert set(tensors) == set(state) - tied
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, state[name].numpy())
    assert family.Config.from_hf(family.to_hf(module.config)) == module.config
    again = classes(variant)[0](**family.to_hf(module.config)).to_dict()
    # transformers turns these into others.
    old = {"rope_theta", "rope_scaling", "rope_local_base_freq"}
    known = family.to_hf(module.config).keys() - old
    ours = {k: v for k, v in again.items() if k in known | {"rope_parameters"}}
    expected = theirs.config.to_dict()
    if family is gpt2 and expected["n_inner"] is None:
        expected["n_inner"] = 4 * expected["n_embd"]
    expected["architectures"] = [type(theirs).__name__]
    assert ours == {name: expected[name] for name in ours}
    assert len(ours) > 10


def test_prefill_needs_lengths():
    _, module, params = pair("llama")
    tokens = draw(1, 3)
    with pytest.raises(ValueError, match="prefill=True needs prefill_lengths"):
        module.apply(
            {"params": params}, tokens, tokens, enable_dropout=False, prefill=True
        )


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [("num_layers", -1, 0), ("num_layers", 1.5, 0), ("emb_dim", 0, 1)],
)
def test_sizes_without_sense(name, value, least):
    sizes = dict.fromkeys(
        ("vocab_size", "emb_dim", "num_layers", "num_heads", "head_dim", "mlp_dim"), 8
    )
    with pytest.raises(UserError) as caught:
        gpt2.Config(**{**sizes, name: value})
    assert str(caught.value) == (
        f"gpt2.Config.{name} is {value!r}: give a whole number of at least {least}."
    )
