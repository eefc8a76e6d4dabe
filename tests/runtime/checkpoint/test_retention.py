"""Retention of checkpoints, and the steps at which one is due."""

import pytest
import tensorboardX
from checkpoint_kit import (
    Iterator,
    assert_same_state,
    folders,
    make_manager,
    make_state,
    save_steps,
)
from hypothesis import given
from hypothesis import strategies as st
from t5x import checkpoints
from t5x.checkpoint import retention


def test_keep_and_pinned(tmp_path):
    manager = make_manager(tmp_path, keep=2)
    save_steps(manager, 1, 2)
    (tmp_path / "checkpoint_1" / "PINNED").touch()
    save_steps(manager, 3, 4, 5)
    assert checkpoints.all_steps(tmp_path) == [1, 4, 5]
    assert folders(tmp_path) == ["checkpoint_1", "checkpoint_4", "checkpoint_5"]


def test_keep_dataset_checkpoints(tmp_path):
    manager = make_manager(tmp_path, Iterator(), keep_dataset_checkpoints=2)
    save_steps(manager, 1, 2, 3, 4)
    assert checkpoints.all_steps(tmp_path) == [1, 2, 3, 4]
    assert checkpoints.all_dataset_checkpoint_steps(tmp_path) == [3, 4]
    assert_same_state(manager.restore(step=4), make_state(4, seed=4))


def write_metric(folder, tag, values):
    with tensorboardX.SummaryWriter(str(folder)) as writer:
        for step, value in values.items():
            writer.add_scalar(tag, value, step)


JGA = {1: 0.2, 2: 0.9, 3: 0.1, 4: 0.8, 5: 0.3}


@pytest.mark.parametrize("tag", ["eval/jga", "jga"])
def test_best_checkpoints_by_dev_jga_are_kept(tmp_path, tag):
    write_metric(tmp_path / "inference_eval" / "d3st_sgd", tag, JGA)
    metric = "inference_eval/d3st_sgd/jga"
    manager = make_manager(tmp_path, keep=1, metric_name_to_monitor=metric)
    save_steps(manager, 1, 2, 3, 4, 5)
    assert checkpoints.all_steps(tmp_path) == [2, 5]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"metric_mode": "min"}, [3, 5]),
        ({"force_keep_period": 2}, [1, 2, 4, 5]),
        ({"keep_checkpoints_without_metrics": False}, [2, 5]),
    ],
)
def test_best_checkpoint_options(tmp_path, settings, expected):
    write_metric(tmp_path / "train", "accuracy", JGA)
    metric = {"metric_name_to_monitor": "train/accuracy"}
    manager = make_manager(tmp_path, keep=1, **metric, **settings)
    save_steps(manager, 1, 2, 3, 4, 5)
    assert checkpoints.all_steps(tmp_path) == expected


@pytest.mark.parametrize(
    ("keep_unknown", "expected"), [(True, [1, 2, 3, 4]), (False, [3, 4])]
)
def test_without_metrics(tmp_path, keep_unknown, expected):
    manager = make_manager(
        tmp_path,
        keep=1,
        metric_name_to_monitor="train/accuracy",
        keep_checkpoints_without_metrics=keep_unknown,
    )
    save_steps(manager, 1, 2, 3, 4)
    assert checkpoints.all_steps(tmp_path) == expected


@given(
    st.sets(st.integers(0, 50)), st.dictionaries(st.integers(0, 50), st.floats(0, 1))
)
def test_the_best_of_the_known_always_survives(steps, metrics):
    rule = checkpoints.Retention(keep=1, metric_name="a/b", keep_without_metrics=False)
    removed = rule.worst(sorted(steps), metrics)
    known = [s for s in steps if s in metrics]
    assert len(removed) == max(0, len(steps) - 1)
    if known:
        best = max(metrics[s] for s in known)
        (kept,) = steps - set(removed)
        assert metrics[kept] == best


def test_nan_metrics_do_not_count(tmp_path):
    write_metric(tmp_path / "train", "loss", {1: float("nan"), 2: 1.0})
    found = checkpoints.populate_metrics_for_steps(tmp_path, "train/loss", [1, 2])
    assert found == {2: 1.0}


def test_should_save(tmp_path):
    manager = make_manager(tmp_path, period=None, checkpoint_steps=[3, 7])
    assert [s for s in range(9) if manager.should_save(s)] == [3, 7]
    assert not manager.save(make_state(4), force=False)
    assert manager.all_steps() == []
    every = make_manager(tmp_path, period=4)
    assert [s for s in range(1, 9) if every.should_save(s)] == [4, 8]


def test_checkpoint_steps_with_and_without_period():
    find = retention.find_next_checkpoint_step
    # from step 10, 10 steps at a time; 15 is inside, 20 is saved by the period
    assert find(0, 10, False, 10, [5, 15, 20], 20, 5, 0) == (10, False)
    assert find(0, 10, False, 10, [5, 13, 20], 20, 5, 0) == (3, True)
    assert find(0, 10, False, 10, [5, 13, 20], 20, None, 0) == (3, True)
    assert find(0, 10, False, 10, [], 20, None, 0) == (10, False)
    assert find(0, 10, False, 10, [30], 20, None, 0) == (10, False)
    first = retention.find_first_checkpoint_step
    assert first(0, [5, 13, 20], 13, 6) == 2
    assert first(0, [5, 13], 0, 99) == 1
