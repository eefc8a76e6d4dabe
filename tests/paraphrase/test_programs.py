"""Compiled programs: shared by the decoders of a model, and freed with it."""

import dataclasses
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxaug.models import programs
from jaxaug.models.text import language, prompts, registry
from jaxaug.models.tokenizers import hf
from jaxaug.models.weights import hf_folder
from jaxaug.paraphrase import samplers
from jaxaug.paraphrase.decoder import Decoder
from tests.support import grids


@dataclasses.dataclass(frozen=True, eq=False)
class Scaled:
    """A model with one parameter."""

    size: int
    params: np.ndarray

    @property
    def bare(self):
        return dataclasses.replace(self, params=np.zeros(0))


def test_one_program_for_each_model():
    traced = []

    @programs.of_model(static_argnums=(0,))
    def times(model, static, params, x):
        """Docs."""
        traced.append((model.size, static, model.params.size, x.shape))
        return jnp.sum(params) * x * static

    assert times.__doc__ == "Docs."
    one, two = Scaled(1, np.ones(1)), Scaled(2, np.full(1, 2.0))
    for _ in range(2):
        assert times(one, 3, one.params, np.ones(2)).tolist() == [3, 3]
        assert times(two, 3, two.params, np.ones(2)).tolist() == [6, 6]
    assert times(one, 4, one.params, np.ones(1)).tolist() == [4]
    # The parameters are an argument, not a part of the program.
    assert traced == [(1, 3, 0, (2,)), (2, 3, 0, (2,)), (1, 4, 0, (1,))]


def test_one_program_for_all_numbers_of_a_sampler():
    traced = []

    @programs.of_model(static_argnums=(0, 1))
    def tokens(model, decode_fn, num, logits):
        traced.append(num)
        found, _ = decode_fn(
            inputs=jnp.zeros((1, 3), jnp.int32),
            cache={},
            tokens_to_logits=lambda state: (jnp.tile(logits, (num, 1)), state.cache),
            eos_id=1,
            num_decodes=num,
        )
        return found

    def drawn(name, **options):
        sampler = samplers.find(name)
        decode_fn = sampler.build(64, sampler.complete(options))
        return set(np.asarray(tokens(model, decode_fn, 64, logits))[0, :, 0].tolist())

    model, logits = Scaled(1, np.ones(1)), -jnp.arange(20.0)
    # EOS, which is token 1, must not come first.
    assert drawn("bottom_k", k=3, then_k=2, temperature=1e-3) == {4}
    assert drawn("bottom_k", k=5, then_k=4, temperature=1e-3) == {6}
    assert drawn("bottom_k", k=16, then_k=9, temperature=99.0) == {17, 18, 19}
    assert drawn("top_k_top_p", k=2, p=0.999, temperature=99.0) == {0, 1}
    assert drawn("top_k_top_p", k=4, p=0.999, temperature=99.0) == {0, 1, 2, 3}
    assert drawn("top_k_top_p", k=4, p=0.49, temperature=99.0) == {0, 1}
    assert traced == [64, 64]


def encoder_decoder(tiny_lm):
    return registry.load("random-tiny")


def decoder_only(tiny_lm):
    words = hf.load(tiny_lm, 1)
    published = hf_folder.load(tiny_lm)
    config = dataclasses.replace(published.config, id_offset=1)
    module = published.family.build(config)
    prompt = prompts.Prompt("Text:", " ", "\nOutput:")
    return language.LanguageModel("x", module, published.params, words, prompt)


@pytest.mark.parametrize("make", grids.first(1, [decoder_only, encoder_decoder]))
def test_a_model_goes_with_its_decoder(small_world, tiny_lm, make):
    model = dataclasses.replace(
        make(tiny_lm), params=jax.tree.map(np.array, make(tiny_lm).params)
    )
    sampler = samplers.find("greedy").build(1, {})
    decoder = Decoder(model, sampler, num=1, max_length=4, seed=0)
    tokens = model.encode("a")
    assert len(decoder([tokens])) == 1
    gone = [
        weakref.ref(thing)
        for thing in (
            model,
            model.bare,
            *jax.tree.leaves(model.params),
            *jax.tree.leaves(decoder._params),
        )
    ]
    del model, decoder
    gc.collect()
    assert [ref() is None for ref in gone] == [True] * len(gone)
