"""Programs of T5X measure their tasks before they start."""

import sys
import types

import pytest

pytest.importorskip("seqio")

import gin
import seqio
from t5x.start import feature_lengths

from jaxaug.core.errors import UserError
from jaxaug.feed import sets

CONFIG = """
from __gin__ import dynamic_registration
import measured_program
from t5x import utils
TASK_FEATURE_LENGTHS = {lengths}
train/utils.DatasetConfig:
  mixture_or_task_name = 'd3st_aug_2x'
  split = 'train'
infer_eval/utils.DatasetConfig:
  mixture_or_task_name = '{evaluated}'
  split = 'test'
utils.DatasetConfig:
  task_feature_lengths = %TASK_FEATURE_LENGTHS
  batch_size = 2
  shuffle = False
  seed = 0
measured_program.program.train_dataset_cfg = @train/utils.DatasetConfig()
measured_program.program.infer_eval_dataset_cfg = @infer_eval/utils.DatasetConfig()
"""


def program(train_dataset_cfg=None, infer_eval_dataset_cfg=None):
    raise AssertionError("only its arguments count")


# gin imports it as the module of a program.
MODULE = types.ModuleType("measured_program")
program.__module__ = MODULE.__name__
MODULE.program = program


@pytest.fixture
def configured(tasks, monkeypatch):
    """Returns a function of feature lengths, configured by gin with these lengths."""

    monkeypatch.setitem(sys.modules, MODULE.__name__, MODULE)

    def configure(lengths, evaluated="d3st_sgd"):
        with gin.unlock_config():
            gin.clear_config()
            gin.parse_config(CONFIG.format(lengths=lengths, evaluated=evaluated))
        return program

    yield configure
    gin.clear_config()


def longest(feature, *uses):
    """Returns the tokens of the longest example of (task, split) pairs, by SeqIO."""
    return max(
        len(example[feature])
        for name, split in uses
        for task in seqio.get_subtasks(seqio.get_mixture_or_task(name))
        for example in task.get_dataset(None, split, shuffle=False).as_numpy_iterator()
    )


USES = (("d3st_aug_2x", "train"), ("d3st_sgd", "test"))


def test_lengths_that_cut_stop_the_program_and_those_of_the_message_do_not(configured):
    program = configured("{'inputs': 40, 'targets': 48}")
    with pytest.raises(UserError) as caught:
        feature_lengths.check(feature_lengths.arguments_of(program), False)
    message = str(caught.value)
    assert message.startswith(
        "The feature lengths {'inputs': 40, 'targets': 48} would cut too many examples "
        "of d3st_aug_v1 train:\n  d3st_aug_v1 train: "
    )
    for name in ("d3st_sgd train", "d3st_sgd test"):
        assert f"\n  {name}: " in message
    start = '--gin.TASK_FEATURE_LENGTHS="'
    fitting = message.partition(start)[2].partition('"')[0]
    assert f"{start}'auto'\"\n--accept_truncation starts all the same." in message
    feature_lengths.check(feature_lengths.arguments_of(program), True)
    program = configured(fitting)
    feature_lengths.check(feature_lengths.arguments_of(program), False)


def test_an_evaluation_whose_answers_would_be_cut(configured):
    targets = longest("targets", ("d3st_aug_2x", "train")) - 1
    program = configured(f"{{'inputs': 400, 'targets': {targets}}}")
    with pytest.raises(UserError, match=rf"targets \(.*%\) exceed {targets} tokens"):
        feature_lengths.check(feature_lengths.arguments_of(program), False)


def test_auto_is_replaced_in_the_configuration(configured, capsys):
    program = configured("'auto'")
    arguments = feature_lengths.arguments_of(program)
    feature_lengths.check(arguments, False)
    found = arguments["train_dataset_cfg"].task_feature_lengths
    assert found == arguments["infer_eval_dataset_cfg"].task_feature_lengths
    for feature, length in found.items():
        assert 0 <= length - longest(feature, *USES) < 16
    assert f"TASK_FEATURE_LENGTHS = {found}" in gin.config_str().replace(" \\\n   ", "")
    assert f"feature lengths from the data: {found}\n" in capsys.readouterr().err


def test_auto_needs_tasks_that_know_their_tokens(configured):
    with pytest.raises(
        Exception, match=r"'auto' for 'none' \(test\): no task of it knows its token"
    ):
        feature_lengths.arguments_of(configured("'auto'", evaluated="none"))


def test_gin_files_can_accept_the_cut(configured, monkeypatch):
    monkeypatch.setattr(sets, "accept", lambda: {"accept_truncation": True})
    program = configured("{'inputs': 40, 'targets': 4}")
    feature_lengths.check(feature_lengths.arguments_of(program), False)
