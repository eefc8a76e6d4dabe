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


def level_mixture(steps):
    """A mixture whose level is the original schema, then v1, then v2."""
    from jaxaug.curriculum import mixture, schedule

    stages = schedule.gradual(steps, levels=2, original_fraction=0.0)
    levels = ["d3st_sgd", "d3st_aug_v1", "d3st_aug_v2"]
    # The batch size is wrong: the reader has its own.
    return mixture.level_mixture(levels, stages, batch_size=400)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("open_rows", [0, 1, 16])  # 0: not packed
def test_stages_change_at_their_step(tasks, monkeypatch, shards, open_rows):
    from tasks import token_feed

    drawn = []
    fill = token_feed.streams.StreamBatches._fill

    def note(self, batch, number, row):
        drawn.append({cache for cache, _ in row})
        fill(self, batch, number, row)

    monkeypatch.setattr(token_feed.streams.StreamBatches, "_fill", note)
    cfg = config(level_mixture(60), batch_size=16, pack=open_rows > 0)
    batches = token_feed.get_dataset(
        cfg, shards - 1, shards, seqio.EncDecFeatureConverter, otherwise=None,
        open_rows=max(open_rows, 1),
    )  # fmt: skip
    rows = 16 // shards
    for _ in range(180):
        next(batches)
    # Tasks in the order of their names: d3st_aug_v1, d3st_aug_v2, d3st_sgd.
    first = {
        level: next(n for n, caches in enumerate(drawn) if caches & {cache}) // rows
        for level, cache in ((0, 2), (1, 0), (2, 1))
    }
    if open_rows:
        # Rows that are open take examples of the next stage early or late.
        assert first[0] == 0
        assert 54 <= first[1] <= 64 and 112 <= first[2] <= 125
    else:
        assert first == {0: 0, 1: 60, 2: 120}


@pytest.mark.parametrize(
    "kind",
    [
        "seqio",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("windows", "prefix_lm")),
    ],
)
def test_examples_in_rows_of_other_readers_are_counted(tasks, kind):
    from t5x import utils
    from t5x.feed import packed_converters

    from tasks import curriculum, token_feed

    converter = {
        "seqio": seqio.EncDecFeatureConverter,
        "windows": packed_converters.enc_dec,
        "prefix_lm": packed_converters.prefix_lm,
    }[kind]
    plan = {}

    def reader(cfg, *arguments):
        plan[str(getattr(cfg.mixture_or_task_name, "name", ""))] = cfg
        return utils.get_dataset(cfg, *arguments)

    cfg = utils.DatasetConfig(
        level_mixture(300), LENGTHS, "train", 8, shuffle=True, seed=3, pack=True
    )
    batches = curriculum.get_dataset(cfg, 0, 1, converter, otherwise=reader)
    assert isinstance(cfg.mixture_or_task_name, str)
    found = plan[cfg.mixture_or_task_name].mixture_or_task_name
    rates = found.examples_per_row
    ends = found._sample_fn.scheduled.ends
    assert ends == tuple(np.rint(np.cumsum(300 * 8 * np.array(rates))).astype(int))
    # What the first stage reads are rows of level 0.
    rows = [
        count
        for batch in batches.take(300).as_numpy_iterator()
        for count in batch["decoder_segment_ids"].max(axis=1)
    ]
    assert np.mean(rows) == pytest.approx(rates[0], rel=0.03)
    if kind == "seqio":
        level = config("d3st_sgd", 8, True)
        assert token_feed._count(level, 1) == pytest.approx(rates[0], rel=0.03)
    else:
        assert rates[0] > 1.2


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
