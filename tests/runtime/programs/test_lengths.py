"""Batches without common padding: the same results, with fewer columns."""

import collections
import functools

import gin
import jax
import numpy as np
import pytest
from model_kit import (
    LM_PARAMS,
    T5_CONFIG,
    T5_PARAMS,
    VOCABULARY,
    language_model,
    t5_model,
)
from t5x import decoding, models, partitioning
from t5x.examples.t5 import network
from t5x.inference import lengths
from t5x.inference.runner import get_infer_fn

from jaxaug.decode import beam, dips, diverse, sample
from jaxaug.models.t5 import SourceEncoderDecoderModel

State = collections.namedtuple("State", ["params", "flax_mutables"])
WIDTH, TARGETS = 64, 20


class Examples(list):
    """An enumerated dataset of known length, without TensorFlow."""


def tokens(rng, size, width):
    row = np.zeros(width, np.int32)
    row[:size] = [*rng.integers(2, 20, size - 1), 1]
    return row


def examples(count, sizes):
    """Returns inputs of the given sizes, in 64 columns, with targets of other sizes."""
    rng = np.random.default_rng(0)
    found = Examples()
    for index in range(count):
        targets = tokens(rng, rng.integers(2, 8), TARGETS)
        features = {
            "encoder_input_tokens": tokens(rng, sizes[index % len(sizes)], WIDTH),
            "decoder_input_tokens": np.pad(targets, (1, 0))[:-1],
            "decoder_target_tokens": targets,
            "decoder_loss_weights": (targets != 0).astype(np.int32),
        }
        found.append((index, features))
    return found


def infer(step, ds, params, rng=None, **options):
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    infer_fn = get_infer_fn(step, 4, State(None, None), partitioner, **options)
    return infer_fn(ds, State(params, {}), rng)


def recorded(model):
    """Returns the model, and a list of the input widths that it compiles."""
    widths, inner = [], model._compute_kv_cache

    def compute(*args, encoder_input_tokens, **kwargs):
        widths.append(encoder_input_tokens.shape[1])
        return inner(*args, encoder_input_tokens=encoder_input_tokens, **kwargs)

    model._compute_kv_cache = compute
    return model, widths


def test_beams_are_those_of_whole_rows_in_order():
    ds = examples(43, sizes=[3, 9, 40, 12, 7, 30])
    model, widths = recorded(t5_model())
    step = model.predict_batch_with_aux
    expected, scores = infer(step, ds, T5_PARAMS(), trim_padding=False)
    assert widths == [WIDTH]
    found, found_scores = infer(step, ds, T5_PARAMS())
    # Two batches of inputs between 17 and 32 tokens do not justify a program.
    assert widths[1:] == [48, 16]
    assert found == expected
    np.testing.assert_allclose(found_scores["scores"], scores["scores"], rtol=1e-5)
    assert len({tuple(row) for _, row in found}) > 20


def test_scores_are_those_of_whole_rows():
    ds = examples(24, sizes=[3, 9, 12, 7, 30])
    expected = infer(t5_model().score_batch, ds, T5_PARAMS(), trim_padding=False)
    found = infer(t5_model().score_batch, ds, T5_PARAMS())
    assert [i for i, _ in found] == list(range(24))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_language_model_scores_shorter_rows():
    rng = np.random.default_rng(1)
    ds = Examples()
    for index in range(9):
        row = tokens(rng, rng.integers(3, 20), WIDTH)
        features = {
            "decoder_input_tokens": np.pad(row, (1, 0))[:-1],
            "decoder_target_tokens": row,
            "decoder_loss_weights": (np.arange(WIDTH) < 9).astype(np.float32),
        }
        ds.append((index, features))
    step = language_model().score_batch
    expected = infer(step, ds, LM_PARAMS(), trim_padding=False)
    np.testing.assert_allclose(infer(step, ds, LM_PARAMS()), expected, rtol=1e-5)
    # Its outputs end where the inputs leave no room, so the batch must not be narrowed.
    assert lengths.rule_of(language_model().predict_batch) is None


def test_samples_are_drawn_in_the_same_company():
    """All batches fit into 32 columns, in the order of the data: the same numbers."""
    ds = examples(10, sizes=[3, 30, 9])
    sampling = functools.partial(decoding.temperature_sample, topk=0)
    model, widths = recorded(t5_model(decode_fn=sampling))
    key = jax.random.PRNGKey(3)
    expected = infer(model.predict_batch, ds, T5_PARAMS(), key, trim_padding=False)
    found = infer(model.predict_batch, ds, T5_PARAMS(), key)
    assert found == expected
    assert widths == [WIDTH, 32]
    assert found != infer(model.predict_batch, ds, T5_PARAMS(), jax.random.PRNGKey(4))


class Pooling(network.Transformer):
    """A user-defined model that may read padding."""


class OwnModel(models.EncoderDecoderModel):
    """A user-defined model that may read the width of the inputs."""


def test_what_says_nothing_is_left_alone():
    def rule(make=models.EncoderDecoderModel, net=network.Transformer, **options):
        model = make(net(T5_CONFIG), VOCABULARY, VOCABULARY, None, **options)
        return lengths.rule_of(model.predict_batch)

    assert rule().sort
    assert rule(OwnModel) is rule(net=Pooling) is None
    assert lengths.rule_of(lambda params, batch: batch["x"]) is None
    source = functools.partial(rule, SourceEncoderDecoderModel)
    for fn, alone in (
        (beam.search, True),
        (functools.partial(diverse.decode, groups=2), True),
        (gin.external_configurable(beam.search, "test_lengths_search"), True),
        (dips.decode, False),
        (sample.sample, False),
    ):
        assert source(decode_fn=fn).sort == alone


@gin.configurable("test_lengths_chosen")
def chosen(functions):
    return functions


@pytest.fixture
def configuration():
    yield
    gin.clear_config()


CHOSEN = """
test_lengths_sample.topk = 0
cold/test_lengths_sample.temperature = 0.0
test_lengths_chosen.functions = [@test_lengths_sample, @cold/test_lengths_sample]
"""


def test_sampling_leaves_rows_alone_where_it_takes_the_most_probable_token(
    configuration,
):
    sampling = decoding.temperature_sample
    greedy = functools.partial(sampling, topk=1)
    gin.external_configurable(sampling, "test_lengths_sample")
    with gin.unlock_config():
        gin.parse_config(CHOSEN)
    drawing, cold = chosen()
    for fn, alone in (
        (sampling, True),
        (functools.partial(sampling, topk=0), False),
        (functools.partial(sampling, topk=0, temperature=0.0), True),
        (functools.partial(sampling, topk=0, temperature=np.array([0.0, 1.0])), False),
        (functools.partial(greedy, topk=5), False),
        (functools.partial(greedy, logit_callback_fn=lambda x, state: x), False),
        (functools.partial(greedy, state_callback_fn=lambda state: state), False),
        (drawing, False),
        (cold, True),
    ):
        assert lengths.rule_of(t5_model(decode_fn=fn).predict_batch).sort == alone


def test_features_that_nobody_knows_stay_whole():
    rows = np.arange(8, dtype=np.int32)
    features = {"encoder_input_tokens": np.ones((8, 64)), "mine": rows}
    rule = lengths.Rule(frozenset({"encoder_input_tokens"}), sort=True)
    found = list(lengths.batches([(rows, features)], 4, rule))
    assert [i.tolist() for i, _ in found] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert {b["encoder_input_tokens"].shape for _, b in found} == {(4, 64)}


def test_widths_are_quarters_off_by_turns_down_to_the_shortest():
    assert lengths._widths(160) == [160, 120, 80, 60, 40, 30, 20]
    assert lengths._widths(64) == [64, 48, 32, 24, 16, 16, 16]
    rows = np.stack([np.arange(160) < size for size in (160, 121, 120, 80, 61, 1)])
    cut = frozenset({"encoder_input_tokens"})
    steps = lengths._steps({"encoder_input_tokens": rows.astype(np.int32)}, cut)
    assert steps.tolist() == [0, 0, 1, 2, 2, 6]


def test_few_batches_are_no_program():
    def worthwhile(*steps):
        return lengths._worthwhile(np.array(steps)).tolist()

    assert worthwhile(0, 1, 1, 1, 1, 2, 3) == [0, 1, 1, 1, 1, 1, 1]
    assert worthwhile(0, 2, 3) == [0, 0, 0]
    assert worthwhile(2, 2, 3) == [2, 2, 2]
    assert worthwhile(1, 3, 3, 3, 3) == [1, 3, 3, 3, 3]


def test_all_processes_have_the_same_shapes(monkeypatch):
    """Two processes have different examples; equal shapes widen no batch."""
    rule = lengths.Rule(frozenset({"encoder_input_tokens"}), sort=True)
    rng = np.random.default_rng(2)
    windows = []
    for sizes in ([60, 9, 9, 9, 9, 9, 9, 9], [30, 30, 9, 9, 9, 0, 0, 0]):
        rows = [tokens(rng, size, WIDTH) if size else np.ones(WIDTH) for size in sizes]
        indices = np.array([i if size else -1 for i, size in enumerate(sizes)])
        windows.append((indices, {"encoder_input_tokens": np.stack(rows)}))
    said = []

    def run(window):
        return list(lengths.batches([window], 1, rule))

    monkeypatch.setattr(lengths, "greatest_of_all", lambda x: said.append(x) or x)
    for window in windows:
        run(window)
    both = np.max(said, axis=0)
    monkeypatch.setattr(lengths, "greatest_of_all", lambda x: both)
    found = [run(window) for window in windows]
    widths = [[b["encoder_input_tokens"].shape[1] for _, b in own] for own in found]
    assert widths[0] == widths[1] == [64, 64, 16, 16, 16, 16, 16, 16]
    for own, (indices, _) in zip(found, windows, strict=True):
        assert sorted(np.concatenate([i for i, _ in own])) == sorted(indices)
