"""Batches from tokenised caches: epochs, hosts, rates, and a run that goes on."""

import itertools
import json

import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.feed.batches import TokenBatches, TokenCache


def toy(name, count, start=10):
    """Example i has i + 1 inputs, start + i, and the target start + i."""
    inputs = [[start + i] * (i + 1) for i in range(count)]
    targets = [[start + i] for i in range(count)]
    return TokenCache(
        name,
        {
            "inputs": np.concatenate(inputs).astype(np.int32),
            "targets": np.concatenate(targets).astype(np.int32),
        },
        {
            "inputs": np.cumsum([0, *map(len, inputs)]),
            "targets": np.cumsum([0, *map(len, targets)]),
        },
    )


def test_exact_batch():
    ids = np.array([5, 6, 7, 8, 9], np.int32)
    item = TokenCache(
        "x",
        {"inputs": ids, "targets": np.array([3, 4, 2, 2], np.int32)},
        {"inputs": np.array([0, 4, 5]), "targets": np.array([0, 1, 4])},
    )
    batches = TokenBatches([item], {"inputs": 4, "targets": 3}, 2, shuffle=False)
    expected = {
        # Inputs lose their left end, targets their right one; 1 ends both.
        "encoder_input_tokens": [[6, 7, 8, 1], [9, 1, 0, 0]],
        "decoder_target_tokens": [[3, 1, 0], [4, 2, 1]],
        "decoder_input_tokens": [[0, 3, 1], [0, 4, 2]],
        "decoder_loss_weights": [[1, 1, 0], [1, 1, 1]],
    }
    assert batches.peek()["encoder_input_tokens"].tolist() == [
        [6, 7, 8, 1],
        [9, 1, 0, 0],
    ]
    batch = next(batches)
    assert {name: value.tolist() for name, value in batch.items()} == expected
    for name, spec in batches.element_spec.items():
        assert (batch[name].shape, batch[name].dtype) == (spec.shape, spec.dtype)


LENGTHS = {"inputs": 16, "targets": 4}


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
    assert epochs[0] == seen(TokenBatches([toy("a", 12)], LENGTHS, 4, seed=1), 3)
    assert epochs[0] != seen(TokenBatches([toy("a", 12)], LENGTHS, 4, seed=2), 3)


def test_hosts_share_each_epoch():
    parts = [
        seen(TokenBatches([toy("a", 12)], LENGTHS, 3, seed=5, shard=(i, 2)), 2)
        for i in range(2)
    ]
    assert sorted(itertools.chain(*parts)) == list(range(10, 22))


def test_counted_epochs_end():
    batches = TokenBatches([toy("a", 10)], LENGTHS, 4, num_epochs=2)
    assert len(list(batches)) == 5
    batches = TokenBatches([toy("a", 10)], LENGTHS, 4, num_epochs=1)
    assert len(list(batches)) == 2


def mixture(shard, batch_size, **options):
    return TokenBatches(
        [toy("a", 41), toy("b", 30, start=100), toy("c", 90, start=1000)],
        LENGTHS | {"inputs": 99},
        batch_size,
        shard=shard,
        seed=3,
        **options,
    )


@pytest.mark.parametrize("shuffle", [True, False])
def test_the_order_does_not_depend_on_the_hosts(shuffle):
    one = [batch for batch in mixture((0, 1), 8, shuffle=shuffle, num_epochs=2)]
    # The rarer caches end the epoch; 2 x 30 draws of a third each.
    assert 150 < 8 * len(one) < 200
    for hosts in (2, 4):
        parts = [
            list(mixture((i, hosts), 8 // hosts, shuffle=shuffle, num_epochs=2))
            for i in range(hosts)
        ]
        assert [len(part) for part in parts] == [len(one)] * hosts
        for whole, *pieces in zip(one, *parts, strict=True):
            for name, rows in whole.items():
                joined = np.concatenate([piece[name] for piece in pieces])
                np.testing.assert_array_equal(joined, rows)


def test_every_host_has_the_same_number_of_batches():
    # 11 examples: one host had three batches of two, the other two.
    parts = [
        list(TokenBatches([toy("a", 11)], LENGTHS, 2, shard=(i, 2), num_epochs=1))
        for i in range(2)
    ]
    assert [len(part) for part in parts] == [2, 2]


def test_caches_are_drawn_with_seeds_of_their_own(monkeypatch):
    """No seed serves both the choice of a cache and the order within one."""
    used = []
    real = np.random.default_rng

    def default_rng(seed):
        used.append(seed)
        return real(seed)

    monkeypatch.setattr(np.random, "default_rng", default_rng)
    seen(mixture((0, 1), 8), 400)
    assert len(used) == len(set(used)) > 8
    # Trailing zeros make no difference to NumPy.
    stripped = {tuple(np.trim_zeros(np.array(seed), "b").tolist()) for seed in used}
    assert len(stripped) == len(used)


def test_a_negative_seed():
    with pytest.raises(UserError, match="^seed -1 of the data order: use 0 or more.$"):
        TokenBatches([toy("a", 3)], LENGTHS, 1, seed=-1)


def test_rates():
    caches = [toy("a", 10), toy("b", 10, start=100)]
    batches = TokenBatches(caches, LENGTHS, 50, rates=[3, 1])
    drawn = np.array(seen(batches, 100))
    assert 0.22 < np.mean(drawn >= 100) < 0.28


def test_saved_position_goes_on_exactly(tmp_path):
    def batches(seed=4):
        return TokenBatches(
            [toy("a", 11), toy("b", 7, start=100)], LENGTHS, 4, seed=seed
        )

    stream = batches()
    seen(stream, 300)
    stream.peek()  # A batch that was only looked at is still to come.
    stream.save(tmp_path / "position")
    expected = seen(stream, 300)
    other = batches()
    seen(other, 2)
    other.restore(tmp_path / "position")
    assert seen(other, 300) == expected
    other.reset()
    assert seen(other, 3) == seen(batches(), 3)
    with pytest.raises(
        UserError, match="position.json: was saved with 'seed' 4, this run has 5. Use"
    ):
        batches(seed=5).restore(tmp_path / "position")
    with pytest.raises(UserError, match="nowhere.json: no such file. Start the data"):
        batches().restore(tmp_path / "nowhere")


def test_damaged_positions_are_refused(tmp_path):
    stream = TokenBatches([toy("a", 11), toy("b", 7, start=100)], LENGTHS, 4, seed=4)
    stream.save(tmp_path / "position")
    file = tmp_path / "position.json"
    saved = json.loads(file.read_text())

    def refused(content):
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(UserError) as error:
            stream.restore(tmp_path / "position")
        return str(error.value)

    # A position of the time when every host had an order of its own.
    older = {k: v for k, v in saved["stream"].items() if k != "order"}
    assert "'order' None, this run has 2." in refused(saved | {"stream": older})
    newer = saved["stream"] | {"x" * 1000: 1}
    message = refused(saved | {"stream": newer})
    assert f"was saved with 'x{'x' * 75}... 1, this run has None." in message
    other = saved["stream"] | {"seed": "x" * 1000}
    assert len(refused(saved | {"stream": other})) < 500
    fix = "Start the data anew by not restoring the dataset."
    # What is not exact as a 64-bit number cannot be gone on from.
    for drawn in ([4], [4, -4], [4, True], [4, "4"], [4, 1.5], [4, 2**63]):
        assert refused(saved | {"drawn": drawn}) == (
            f"{file}: is no saved position of a token iterator: {drawn} are no numbers "
            f"of examples of 2 caches. {fix}"
        )
    endless = json.dumps(saved).replace("[0, 0]", "[0, 1e999]", 1)
    assert ": [0, inf] are no numbers of examples of 2" in refused(endless)
    nothing = f"{file}: is no saved position of a token iterator. {fix}"
    for content in ([], {}, saved | {"drawn": 1}, saved | {"stream": []}):
        assert refused(content) == nothing
    assert "position.json: invalid JSON: nested too deeply." in refused("[" * 100_000)
    assert seen(stream, 1)


def test_fewer_examples_than_hosts():
    with pytest.raises(UserError, match="cache a has 2 examples for 3 hosts"):
        TokenBatches([toy("a", 2)], LENGTHS, 1, shard=(0, 3))
