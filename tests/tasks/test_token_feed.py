"""Batches of the token feed: SeqIO's, and those of fuller rows."""

import collections
import types

import pytest

pytest.importorskip("seqio")

import numpy as np
import seqio

from jaxaug.core.errors import UserError

LENGTHS = {"inputs": 112, "targets": 48}


def config(name, batch_size, pack):
    """What T5X's DatasetConfig has."""
    return types.SimpleNamespace(
        mixture_or_task_name=name,
        task_feature_lengths=LENGTHS,
        split="train",
        batch_size=batch_size,
        shuffle=True,
        seed=3,
        use_cached=False,
        pack=pack,
        use_custom_packing_ops=False,
        trim_output_features=True,
    )


@pytest.mark.parametrize("name", ["d3st_sgd", "d3st_aug_4x"])
def test_data_without_examples(tasks, monkeypatch, name):
    from tasks import token_feed

    monkeypatch.setattr(token_feed.streams, "lines_of", lambda *_: [range(3, 3)])
    with pytest.raises(UserError, match="'d3st_.*' has no example of split 'train'"):
        token_feed.get_dataset(
            config(name, 8, True), 0, 1, seqio.EncDecFeatureConverter, otherwise=None
        )


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("kind", ["task", "mixture", "curriculum"])
def test_the_token_feed_is_seqio_to_the_bit(tasks, tmp_path, kind, pack):
    """Both hosts, and a stop in the middle."""
    from jaxaug.curriculum import mixture
    from tasks import token_feed

    name = {"task": "d3st_sgd", "mixture": "d3st_aug_4x"}.get(kind)
    if name is None:
        # All three stages come up: they end after 0.2 and 0.4 of 10 steps.
        name = mixture.prompt_curriculum("d3st_aug_2x", 10, 8, num_hosts=2)
    cfg = config(name, batch_size=8, pack=pack)
    shard = 1 if kind == "mixture" else 0
    expected = seqio.get_dataset(
        name,
        LENGTHS,
        seqio.EncDecFeatureConverter(pack=pack),
        num_epochs=None,
        shuffle=True,
        seed=3,
        shard_info=seqio.ShardInfo(shard, 2),
        batch_size=4,
    ).take(60)

    def feed():
        return token_feed.get_dataset(
            cfg, shard, 2, seqio.EncDecFeatureConverter, otherwise=None
        )

    ours = feed()
    for number, theirs in enumerate(expected.as_numpy_iterator()):
        if number == 40:
            ours.save(tmp_path / "position")
            ours = feed()
            next(ours)
            ours.restore(tmp_path / "position")
        batch = next(ours)
        assert batch.keys() == theirs.keys() == ours.element_spec.keys()
        for feature, value in theirs.items():
            assert batch[feature].dtype == value.dtype == np.int32
            np.testing.assert_array_equal(batch[feature], value, f"{number} {feature}")
    ours.reset()
    np.testing.assert_array_equal(
        next(ours)["encoder_input_tokens"], next(feed())["encoder_input_tokens"]
    )


def test_open_rows_hold_the_same_examples_in_fewer_rows(tasks, tmp_path):
    """Nothing is lost on the way, and a run that goes on has the batches of one that ran."""
    from tasks import token_feed

    cfg = config("d3st_aug_4x", batch_size=4, pack=True)

    def feed(number):
        return token_feed.get_dataset(
            cfg, 0, 1, seqio.EncDecFeatureConverter, otherwise=None, open_rows=number
        )

    def examples(batches):
        """(inputs, targets) of every example, and the share of input that is not padding."""
        found, full = [], []
        for batch in batches:
            full.append(np.mean(batch["encoder_segment_ids"] > 0))
            for row in range(4):
                for segment in range(1, batch["encoder_segment_ids"][row].max() + 1):
                    pair = []
                    for kind, tokens in (("encoder", "input"), ("decoder", "target")):
                        inside = batch[f"{kind}_segment_ids"][row] == segment
                        pair.append(
                            tuple(batch[f"{kind}_{tokens}_tokens"][row][inside])
                        )
                        places = batch[f"{kind}_positions"][row][inside]
                        np.testing.assert_array_equal(places, np.arange(len(places)))
                    found.append(tuple(pair))
        return collections.Counter(found), np.mean(full)

    fuller = feed(32)
    batches = [next(fuller) for _ in range(30)]
    ours, share = examples(batches)
    seqio_feed = feed(1)
    theirs, seqio_share = examples(next(seqio_feed) for _ in range(60))
    assert share > seqio_share + 0.05
    # 32 rows are still open; all others are among what SeqIO packs into more rows.
    assert sum((ours - theirs).values()) == 0

    again = feed(32)
    for _ in range(11):
        next(again)
    again.save(tmp_path / "position")
    again = feed(32)
    next(again)
    again.restore(tmp_path / "position")
    for number in range(11, 30):
        batch = next(again)
        for name, value in batches[number].items():
            np.testing.assert_array_equal(batch[name], value, f"{number} {name}")
    with pytest.raises(UserError, match="pack 32, this run has 16"):
        feed(16).restore(tmp_path / "position")
    with pytest.raises(UserError, match="open_rows = 0: must be a whole number"):
        feed(0)
