"""Batches from token caches: features, epochs, hosts, and resumed runs."""

import itertools
import json

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.feed import tokens
from jaxaug.feed.batches import TokenBatches
from jaxaug.feed.order import Stage
from jaxaug.feed.tokens import Examples, TokenCache, collected

LENGTHS = {"inputs": 16, "targets": 4}


def cache_of(name, pairs):
    return collected(name, pairs, ("inputs", "targets"))


def toy(name, count, start=10):
    """Example i has i % 9 + 1 inputs, start + i, and the target start + i."""
    numbers = range(start, start + count)
    return Examples(
        name, cache_of(name, [([n] * ((n - start) % 9 + 1), [n]) for n in numbers])
    )


PAIRS = [([5, 6, 7, 8], [3]), ([9], [4, 2, 2])]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            {
                # Inputs are cut on the left, targets on the right; 1 ends both.
                "encoder_input_tokens": [[6, 7, 8, 1], [9, 1, 0, 0]],
                "decoder_target_tokens": [[3, 1, 0], [4, 2, 1]],
                "decoder_input_tokens": [[0, 3, 1], [0, 4, 2]],
                "decoder_loss_weights": [[1, 1, 0], [1, 1, 1]],
            },
        ),
        (
            {"layout": "prefix_lm"},
            {
                "decoder_target_tokens": [
                    [6, 7, 8, 1, 3, 1, 0],
                    [9, 1, 4, 2, 1, 0, 0],
                ],
                "decoder_input_tokens": [[0, 6, 7, 8, 1, 3, 1], [0, 9, 1, 4, 2, 1, 0]],
                "decoder_loss_weights": [[0, 0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 1, 0, 0]],
                "decoder_causal_attention": [
                    [1, 1, 1, 1, 1, 0, 0],
                    [1, 1, 1, 0, 0, 0, 0],
                ],
            },
        ),
    ],
)
def test_exact_batch(options, expected):
    batches = TokenBatches(
        [Examples("x", cache_of("x", PAIRS))],
        {"inputs": 4, "targets": 3},
        2,
        shuffle=False,
        **options,
    )
    batch = next(batches)
    assert {name: value.tolist() for name, value in batch.items()} == expected
    assert batches.element_spec.keys() == expected.keys()
    for name, spec in batches.element_spec.items():
        assert (batch[name].shape, batch[name].dtype) == (spec.shape, spec.dtype)
        assert spec.dtype == np.int32


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (tokens.keep_last_turns, {"inputs": [6, 7, 8, 9], "targets": [4, 9]}),
        (tokens.keep_left_end, {"inputs": [5, 6, 7, 8], "targets": [4, 2]}),
    ],
)
def test_cuts_and_ends(cut, expected):
    pairs = [([5, 6, 7, 8], [4, 2, 2]), ([], [3])]
    ends = {"inputs": 9, "targets": 9}
    found = Examples("x", cache_of("x", pairs), ends, cut=cut)
    lengths = {"inputs": 4, "targets": 2}
    assert {k: v.tolist() for k, v in found.get(0, lengths).items()} == expected
    bare = Examples("x", found.cache, {"inputs": None, "targets": 9}, cut=cut)
    short = {k: v.tolist() for k, v in bare.get(1, lengths).items()}
    assert short == {"inputs": [], "targets": [3, 9]}
    for task in (found, bare):
        for index in range(2):
            sizes = {k: v[index] for k, v in task.cut_lengths(lengths).items()}
            assert sizes == {k: len(v) for k, v in task.get(index, lengths).items()}


def seen(batches, count):
    return [
        int(row[0])
        for _ in range(count)
        for row in next(batches)["decoder_target_tokens"]
    ]


def test_every_epoch_is_another_permutation():
    batches = TokenBatches([toy("a", 12)], LENGTHS, 4, seed=1)
    epochs = [seen(batches, 3) for _ in range(3)]
    assert all(sorted(epoch) == list(range(10, 22)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_counted_epochs_end():
    assert len(list(TokenBatches([toy("a", 10)], LENGTHS, 4, num_epochs=2))) == 5
    assert len(list(TokenBatches([toy("a", 10)], LENGTHS, 4, num_epochs=1))) == 2


def mixture(shard=(0, 1), **options):
    tasks = [toy("a", 41), toy("b", 30, start=100), toy("c", 90, start=1000)]
    options = {"seed": 3, "pack": True, **options}
    return TokenBatches(tasks, LENGTHS, 8, shard=shard, **options)


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("layout", ["enc_dec", "prefix_lm"])
def test_the_order_does_not_depend_on_the_hosts(layout, pack):
    options = {"layout": layout, "pack": pack, "num_epochs": 6}
    one = list(mixture(**options))
    # The rarest task ends the epochs; 6 x 30 draws of a third each.
    assert 8 * len(one) > (180 if pack else 450)
    for hosts in (2, 4):
        parts = [list(mixture((i, hosts), **options)) for i in range(hosts)]
        assert [len(part) for part in parts] == [len(one)] * hosts
        for whole, *pieces in zip(one, *parts, strict=True):
            for name, rows in whole.items():
                joined = np.concatenate([piece[name] for piece in pieces])
                np.testing.assert_array_equal(joined, rows)


def reworded(word, different=()):
    """Returns examples whose target is i and whose inputs repeat the word."""
    rows = [
        ([word] * (word // 10 + i % 3), [i + 100 * (i in different)]) for i in range(20)
    ]
    return Examples(f"v{word}", cache_of(f"v{word}", rows))


@pytest.mark.parametrize("pack", [True, False])
def test_wordings_stand_in_consecutive_rows(pack, tmp_path):
    def batches(**options):
        tasks = [reworded(30), reworded(40), reworded(50, different=(3, 4))]
        return TokenBatches(tasks, LENGTHS, 8, pack=pack, wordings=2, **options)

    made = batches()
    first = [next(made) for _ in range(40)]
    words = set()
    for batch in first:
        for name in ("decoder_target_tokens", "decoder_loss_weights"):
            np.testing.assert_array_equal(batch[name][::2], batch[name][1::2])
        inputs = batch["encoder_input_tokens"]
        for pair in zip(inputs[::2, 0], inputs[1::2, 0], strict=True):
            words.add(pair)
    assert words >= set(itertools.permutations((30, 40, 50), 2))
    # An example with another target is repeated in its own wording.
    assert {(30, 30), (40, 40), (50, 50)} & words
    made.save(tmp_path / "position")
    rest = [next(made) for _ in range(3)]
    half = batches(shard=(1, 2))
    half.restore(tmp_path / "position")
    for batch in rest:
        assert same({name: rows[4:] for name, rows in batch.items()}, next(half))


def test_rates():
    tasks = [toy("a", 10), toy("b", 10, start=100)]
    batches = TokenBatches(tasks, LENGTHS, 50, stages=[Stage(1, (3, 1))])
    drawn = np.array(seen(batches, 100))
    assert 0.22 < np.mean(drawn >= 100) < 0.28


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("pack", [True, False])
def test_saved_position_resumes_exactly(tmp_path, pack):
    stages = [Stage(60, (1, 1, 0)), Stage(200, (0, 1, 3))]

    def batches(**options):
        return mixture(pack=pack, stages=stages, **options)

    whole = list(itertools.islice(batches(), 150))
    for stop in (0, 31, 32, 59, 60, 117):
        stream = batches()
        for _ in range(stop):
            next(stream)
        stream.save(tmp_path / "position")
        # Any host of any number of hosts can continue from it.
        other = batches(shard=(1, 2))
        next(other)
        other.restore(tmp_path / "position")
        for expected in whole[stop:]:
            half = {name: rows[4:] for name, rows in expected.items()}
            assert same(half, next(other))
        other.reset()
        first = {name: rows[4:] for name, rows in whole[0].items()}
        assert same(first, next(other))
    with pytest.raises(
        UserError, match="position.json: was saved with 'seed' 3, this run has 5. Use"
    ):
        batches(seed=5).restore(tmp_path / "position")
    with pytest.raises(UserError, match="nowhere.json: no such file. Start the data"):
        batches().restore(tmp_path / "nowhere")


def test_resuming_late_costs_a_block(tmp_path, monkeypatch):
    stream = mixture()
    for _ in range(500):
        next(stream)
    stream.save(tmp_path / "position")
    assert (tmp_path / "position.json").stat().st_size < 2000
    blocks = []
    draw = stream._order._draw
    again = mixture()
    monkeypatch.setattr(
        again._order, "_draw", lambda *args: blocks.append(args) or draw(*args)
    )
    again.restore(tmp_path / "position")
    assert same(next(stream), next(again))
    assert len(blocks) == 1


def test_damaged_positions_are_refused(tmp_path):
    stream = mixture()
    next(stream)
    stream.save(tmp_path / "position")
    file = tmp_path / "position.json"
    saved = json.loads(file.read_text())

    def refused(content):
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(UserError) as error:
            stream.restore(tmp_path / "position")
        return str(error.value)

    older = {k: v for k, v in saved["stream"].items() if k != "order"}
    assert "'order' None, this run has 3." in refused(saved | {"stream": older})
    newer = saved["stream"] | {"x" * 1000: 1}
    message = refused(saved | {"stream": newer})
    assert f"was saved with 'x{'x' * 75}... 1, this run has None." in message
    other = saved["stream"] | {"seed": "x" * 1000}
    assert len(refused(saved | {"stream": other})) < 500
    fix = "Start the data anew by not restoring the dataset."
    nothing = f"{file}: is no saved position of token batches"
    # A run cannot continue from a value that is not exact as a 64-bit number.
    for changes in (
        {"counts": [4]},
        *({"counts": [4, 1, bad]} for bad in (-4, True, "4", 1.5, 2**63)),
        {"row": -1},
        {"draws": 2**63},
        {"ended": True},
        {"waiting": [[], [], [90]]},
        {"waiting": [[], []]},
    ):
        message = refused(saved | {"position": saved["position"] | changes})
        assert message.startswith(f"{nothing}: ") and message.endswith(fix)
    assert "`$.used`" in refused(saved | {"used": -1})
    endless = json.dumps(saved).replace('"draws": 0', '"draws": 1e999', 1)
    assert "`$.position.draws`" in refused(endless)
    for content in ([], {}, saved | {"stream": []}):
        assert refused(content) == f"{nothing}. {fix}"
    assert "position.json: invalid JSON: nested too deeply." in refused("[" * 100_000)
    assert seen(stream, 1)


def test_wrong_settings():
    with pytest.raises(UserError, match="batch_size = 8 does not divide by 3 hosts"):
        mixture((0, 3))
    with pytest.raises(UserError, match="divide by 1 hosts times 3 wordings"):
        mixture(wordings=3)
    with pytest.raises(UserError, match="tasks of .41, 30, 90. examples: training on"):
        mixture(wordings=2)
    with pytest.raises(UserError, match="'prefixlm' is no layout .*'prefix_lm'"):
        mixture(layout="prefixlm")
    empty = TokenCache("e", {}, {"targets": np.array([0])})
    with pytest.raises(UserError, match="task 'e' has no example to train on"):
        TokenBatches([Examples("e", empty)], LENGTHS, 2)
