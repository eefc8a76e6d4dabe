"""The table of samplers, and their options on the command line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.decode import beam, dips, diverse, dpp, sample, ssr, warpers
from jaxaug.paraphrase import samplers
from tests.support import grids

NAMES = ["greedy", "sampling", "top_k_top_p", "bottom_k", "beam", "diverse_beam"]
NAMES += ["dips", "dpp", "ssr"]


def test_names():
    assert list(samplers.SAMPLERS.data) == NAMES
    for name, sampler in samplers.SAMPLERS.items():
        assert sampler.name == name


@pytest.mark.parametrize("name", NAMES)
def test_options_have_a_default_that_tells_the_type(name):
    options = samplers.find(name).options
    assert options
    for option, parameter in options.items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        known = (int, float, bool, tuple, str, type(None))
        assert type(parameter.default) in known, option


def chain(monkeypatch, name, **options):
    """Returns the warpers of a sampler, as (factory, arguments)."""
    for factory in ("temperature", "top_k", "top_p", "bottom_k", "min_length"):
        monkeypatch.setattr(warpers, factory, lambda *a, f=factory: (f, *a))
    monkeypatch.setattr(warpers, "held_back", lambda *a: ("min_length", *a))
    for factory in ("repetition_penalty", "no_repeat_ngrams"):
        monkeypatch.setattr(warpers, factory, lambda *a, f=factory: (f, *a))
    samplers._made.cache_clear()  # Cached warpers would be found.
    sampler = samplers.find(name)
    decode_fn = sampler.build(1, sampler.complete(options))
    samplers._made.cache_clear()
    if decode_fn.func is sample.sample:
        return decode_fn.keywords["warpers"]
    monkeypatch.setattr(sample, "sample", lambda **arguments: arguments)
    called = decode_fn(eos_id=7)
    assert called["eos_id"] == 7
    return called["warpers"]


BLOCKING = {"min_length": 3, "repetition_penalty": 1.5, "no_repeat_ngrams": 2}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("greedy", {}, [("top_k", 1)]),
        ("sampling", {"temperature": 0.5}, [("temperature", 0.5)]),
        ("top_k_top_p", {"k": 9, "p": 0.5, "temperature": 2.0},
         [("temperature", 2.0), ("top_k", 9), ("top_p", 0.5)]),
        ("bottom_k", {"k": 4, "n_steps": 2, "then_k": 9, "then_p": 0.5,
         "temperature": 2.0}, [("temperature", 2.0), ("bottom_k", 4, 2, (("top_k", 9),
         ("top_p", 0.5)))]),
    ],
)  # fmt: skip
def test_chains_of_warpers(monkeypatch, name, options, expected):
    plain = chain(monkeypatch, name, **options)
    assert [*plain] == [("min_length", 1, 7)] * (name == "bottom_k") + expected
    assert [*chain(monkeypatch, name, **options, **BLOCKING)] == [
        ("min_length", 3, 7),
        ("repetition_penalty", 1.5),
        ("no_repeat_ngrams", 2),
        *expected,
    ]
    assert samplers.find(name).options.keys() == options.keys() | BLOCKING.keys()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sampling", []),
        ("top_k_top_p", [("top_k", 120), ("top_p", 0.95)]),
        ("bottom_k", [("min_length", 1, 7), ("bottom_k", 2, 1, (("top_k", 120),
         ("top_p", 0.95)))]),
    ],
)  # fmt: skip
def test_a_temperature_of_zero_comes_last(monkeypatch, name, expected):
    """Before bottom_k it would leave nothing to remove."""
    found = chain(monkeypatch, name, temperature=0.0)
    assert [*found] == [*expected, ("temperature", 0.0)]


def first_tokens(name, **options):
    """Tests 200 outputs; the most probable tokens are 3, EOS, 2."""
    logits = jnp.log(jnp.array([0.01, 0.3, 0.1, 0.4, 0.19]))
    sampler = samplers.find(name)
    tokens, _ = sampler.build(200, sampler.complete(options))(
        inputs=jnp.zeros((1, 2), jnp.int32),
        cache={},
        tokens_to_logits=lambda state: (jnp.tile(logits, (200, 1)), state.cache),
        eos_id=4,
        num_decodes=200,
    )
    return set(np.asarray(tokens)[0, :, 0].tolist())


def test_temperature_zero_is_greedy_among_remaining_tokens():
    assert first_tokens("sampling", temperature=0.0) == {3}
    assert first_tokens("top_k_top_p", temperature=0.0) == {3}
    assert first_tokens("bottom_k", temperature=0.0) == {2}


def test_bottom_k_gives_no_empty_output_unless_asked_to():
    assert first_tokens("bottom_k", k=1) == {0, 1, 2}
    assert first_tokens("bottom_k", k=1, min_length=0) == {0, 1, 2, 4}


@grids.diagonal("name, least", NAMES, [0, 3])
def test_the_contract_of_t5x_holds_by_place_and_by_name(name, least):
    """inputs, cache, tokens_to_logits, eos_id, num_decodes; EOS is the most likely."""
    logits = jnp.log(jnp.array([0.01, 0.1, 0.2, 0.29, 0.4]))
    options = {"mu": (1.0, 0.0, 1.0, 1.0)} if name == "dips" else {}
    sampler = samplers.find(name)
    if "min_length" in sampler.options:
        options["min_length"] = least
    decode_fn = sampler.build(1, sampler.complete(options))
    inputs = jnp.zeros((1, 5), jnp.int32)

    def model(state):
        return jnp.tile(logits, (len(state.cur_token), 1)), state.cache

    named = decode_fn(
        inputs=inputs, cache={}, tokens_to_logits=model, eos_id=4, num_decodes=1
    )
    for place in (
        lambda: decode_fn(inputs, {}, model, 4, num_decodes=1),
        lambda: decode_fn(inputs, {}, model, 4, 1),
    ):
        shapes = jax.tree.map(lambda leaf: leaf.shape, jax.eval_shape(place))
        assert shapes == (named[0].shape, named[1].shape)
    if "min_length" in options:
        assert 4 not in np.asarray(named[0])[0, 0, :least].tolist()
    assert named[0].shape == (1, 1, 5) and named[1].shape == (1, 1)


@pytest.mark.parametrize(
    ("name", "function", "options"),
    [
        ("beam", beam.search, {"temperature": 1.5, "alpha": 0.1}),
        ("diverse_beam", diverse.decode, {"groups": 2, "strength": 0.1, "ngram": 3,
         "alpha": 0.1}),
        ("dips", dips.decode, {"mode": "final", "lam": 0.1, "probability": 0.2,
         "width": 6, "mu": (1.0, 0.0, 1.0, 1.0), "rbf_sigma": 2.0, "unit": False,
         "variant": "program", "alpha": 0.1}),
        ("dpp", dpp.decode, {"mode": "final", "probability": 0.2, "width": 6,
         "quality": 2.0, "alpha": 0.1}),
        ("ssr", ssr.decode, {"mode": "final", "probability": 0.2, "width": 6,
         "alpha": 0.1}),
    ],
)  # fmt: skip
def test_beams_get_their_options(name, function, options):
    sampler = samplers.find(name)
    # The table of embeddings depends on the model, so `paraphrase` passes it.
    assert sampler.options.keys() - {"embeddings"} == options.keys()
    decode_fn = sampler.build(2, sampler.complete(options))
    assert decode_fn.func is function
    assert decode_fn.keywords == options


def test_equal_options_give_the_same_function():
    sampler = samplers.find("beam")
    first, same, other = (sampler.build(2, {"alpha": a}) for a in (0.5, 0.5, 0.6))
    assert first is same is not other


def test_no_groups_and_no_ngram_leave_the_choice_to_the_decoder():
    sampler = samplers.find("diverse_beam")
    keywords = sampler.build(2, sampler.complete({})).keywords
    assert keywords["groups"] is None and keywords["ngram"] is None


def test_parse_by_type():
    assert samplers.parse("bottom_k", ["k=3", "then_p=1", "min_length=2"]) == {
        "k": 3,
        "then_p": 1.0,
        "min_length": 2,
    }
    assert samplers.parse(
        "dips", ["variant=program", "unit=false", "mu=1,0,.5,1", "lam=1"]
    ) == {
        "variant": "program",
        "unit": False,
        "mu": (1.0, 0.0, 0.5, 1.0),
        "lam": 1.0,
    }
    assert samplers.parse("greedy", []) == {}


def test_defaults_equal_the_papers():
    options = samplers.find("bottom_k").complete({"k": 4})
    assert options["k"] == 4 and options["min_length"] == 1
    assert (options["n_steps"], options["then_k"], options["then_p"]) == (1, 120, 0.95)
    assert samplers.find("bottom_k").complete({})["k"] == 2
    assert samplers.find("beam").complete({}) == {
        "temperature": 1.0,
        "alpha": 0.6,
    }


@pytest.mark.parametrize(
    ("sampler", "texts", "message"),
    [
        ("buttom_k", [], r"'buttom_k' is not a sampler; did you mean 'bottom_k'"),
        ("xyz", [], "'xyz' is not a sampler; known: beam, bottom_k, dips"),
        ("bottom_k", ["n_step=1"],
         "sampler 'bottom_k' has no option 'n_step'; did you mean 'n_steps'"),
        ("beam", ["k=1"], "sampler 'beam' has no option 'k'; known: alpha"),
        ("bottom_k", ["k"], "option 'k': write it as name=value"),
        ("bottom_k", ["k=1", "k=2"], "option 'k' comes twice"),
        ("bottom_k", ["k=2.5"], "option: k='2.5': expected a whole number."),
        ("beam", ["alpha=big"], "option: alpha='big': expected a finite number."),
        ("dips", ["unit=1"], "unit='1': expected True or False or None."),
        ("dips", ["mu=1,2,3"], r"mu=.*: expected \(a finite number, .*\)"),
        ("dips", ["mu=1,x"], "mu=.*: expected .a finite number, "),
    ],
)  # fmt: skip
def test_wrong_options(sampler, texts, message):
    with pytest.raises(UserError, match=message):
        samplers.parse(sampler, texts)


@pytest.mark.parametrize(
    ("name", "num", "options", "message"),
    [
        ("greedy", 2, {}, "'greedy' gives one output of each input, --num is 2"),
        ("sampling", 1, {"temperature": float("inf")},
         "sampler 'sampling': option: temperature=inf: expected a finite number."),
        ("bottom_k", 1, {"min_length": -1}, "min_length: n=-1: .* of at least 1."),
        ("top_k_top_p", 1, {"p": 1.5}, "top_p: p=1.5: .* above 0, at most 1."),
        ("beam", 1, {"alpha": float("nan")}, "alpha=nan: expected a finite number."),
        ("top_k_top_p", 1, {"k": 10**30}, "k=1000.*: expected a whole number .at most"),
        ("top_k_top_p", 1, {"k": True}, "k=True: expected a whole number"),
        ("sampling", 1, {"temperature": "1"},
         "temperature='1': expected a finite number"),
        ("dips", 1, {"mu": (1.0, 1.0)}, r"mu=\(1.0, 1.0\): expected \(a"),
        ("dips", 1, {"mu": (1, 1, 1, float("inf"))},
         "mu=.*: expected .a finite number"),
        ("dips", 1, {"mode": "all"}, "mode='all': expected 'step' or 'final'."),
        ("ssr", 1, {"mode": 1}, "mode=1: expected 'step' or 'final'."),
        ("dips", 1, {"variant": "paper"}, "variant='paper': expected 'equation3'"),
        ("sampling", 100_000, {},
         ("--num is 100000: the outputs of an input are decoded together, 1024 "
         "at most")),
    ],
)  # fmt: skip
def test_options_out_of_range(name, num, options, message):
    sampler = samplers.find(name)
    with pytest.raises(UserError, match=message):
        sampler.build(num, sampler.complete(options))
