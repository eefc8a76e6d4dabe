"""Differences of two gin configurations, by name."""

import pytest
from t5x.logs import metrics_writer
from t5x.start import config_changes

OLD = """
import __main__ as train_script
BATCH = 8
RATE = 0.1
STEPS = 100
train_script.train.total_steps = %STEPS
utils.DatasetConfig.batch_size = %BATCH
train/utils.DatasetConfig.use_cached = False
scheduler.base_learning_rate = %RATE
network.T5Config.dtype = 'float32'
train_script.train.trainer_cls = @trainer.Trainer
"""


def differences(new, old=OLD):
    return [
        (c.name, c.before, c.after, c.harmless)
        for c in config_changes.changes(old, new)
    ]


def test_equal_configurations_have_none():
    assert differences(OLD) == []
    # Order, comments, and places of values do not matter.
    moved = OLD.replace("%RATE", "0.1").replace("RATE = 0.1\n", "")
    assert differences(moved + "# comment") == [("RATE", "0.1", "not set", False)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("= 0.1", "= 0.2"), [("RATE", "0.1", "0.2", False)]),
        (("BATCH = 8", "BATCH = 4"), [("BATCH", "8", "4", False)]),
        (("STEPS = 100", "STEPS = 9"), [("STEPS", "100", "9", True)]),
        (("= %RATE", "= 3"), [("scheduler.base_learning_rate", "0.1", "3", False)]),
        (("'float32'", "'bfloat16'"), [("network.T5Config.dtype", "'float32'",
         "'bfloat16'", False)]),
        (("@trainer.", "@my."), [("train_script.train.trainer_cls", "@trainer.Trainer",
         "@my.Trainer", False)]),
        (("train/utils.DatasetConfig.use_cached = False", ""),
         [("train/utils.DatasetConfig.use_cached", "False", "not set", False)]),
        (("= 8", "= 8\nNEW = %STEPS"), [("NEW", "not set", "100", True)]),
    ],
)  # fmt: skip
def test_each_change_is_listed_once_with_both_values(change, expected):
    assert OLD.count(change[0]) == 1
    assert differences(OLD.replace(*change)) == expected


@pytest.mark.parametrize(
    ("name", "is_harmless"),
    [
        ("train.eval_period", True),
        ("train_script.train.total_steps", True),
        ("utils.SaveCheckpointConfig.period", True),
        ("infer_eval/utils.DatasetConfig.batch_size", True),
        ("seqio.Evaluator.logger_cls", True),
        ("infer_eval/seqio.Evaluator.num_examples", True),
        ("evaluation.evaluator.num_examples", True),
        ("train.random_seed", False),
        ("train.use_hardware_rng", False),
        ("utils.SaveCheckpointConfig.dtype", False),
        ("trainer.Trainer.num_microbatches", False),
        ("pretrain.total_steps", False),
    ],
)
def test_lengths_periods_and_reports_alone_are_harmless(name, is_harmless):
    assert differences(f"{name} = 2", f"{name} = 1") == [(name, "1", "2", is_harmless)]


def test_a_macro_is_as_harmless_as_what_refers_to_it():
    text = "N = {}\nM = %N\ntrain.total_steps = %M\n"
    assert differences(text.format(2), text.format(1)) == [("N", "1", "2", True)]
    text += "schedule.decay_steps = [(%M, 0)]\n"
    assert differences(text.format(2), text.format(1)) == [("N", "1", "2", False)]


@pytest.mark.parametrize("note", [None, '{"digest": "other"}', "[", "[]"])
def test_a_file_that_was_edited_is_a_warning(tmp_path, monkeypatch, capfd, note):
    monkeypatch.setattr(
        config_changes.gin_config, "get_gin_config_str", lambda: "A = 1\n"
    )
    config_changes.gin_config.summarize_gin_config(
        str(tmp_path), metrics_writer.NullWriter(), 0
    )
    config_changes.report(str(tmp_path), 5)
    assert capfd.readouterr().err == ""
    if note is None:
        (tmp_path / "config.gin").write_text("A = 1  # edited\n")
    else:
        (tmp_path / "config_digest.json").write_text(note)
    config_changes.report(str(tmp_path), 5)
    assert capfd.readouterr().err == (
        f"warning: {tmp_path}/config.gin was changed after training wrote it. The run "
        "goes on with the settings of this command, not with those of the file.\n"
    )


def test_a_damaged_file_is_a_warning(tmp_path, monkeypatch, capfd):
    (tmp_path / "config.gin").write_text("A = = 3")
    monkeypatch.setattr(
        config_changes.gin_config, "get_gin_config_str", lambda: "A = 1\n"
    )
    config_changes.report(str(tmp_path), 5)
    err = capfd.readouterr().err
    assert err.startswith(f"warning: {tmp_path}/config.gin is damaged (")
    assert err.endswith("): settings are not compared.\n")
