"""Valid results of an inference, and the search for checkpoints."""

import json
import types

import pytest
from etils import epath
from t5x import checks
from t5x import eval as eval_lib
from t5x.checkpoint.settings import CheckpointConfig, RestoreCheckpointConfig
from t5x.errors import UserError
from t5x.inference.output import Origin, facts_of
from t5x.training import setup


def dataset(split="test", inputs=8):
    lengths = {"inputs": inputs, "pairs": (3, 2)}  # a tuple, as SeqIO allows
    return types.SimpleNamespace(split=split, task_feature_lengths=lengths)


def origin(folder, checkpoint="r/checkpoint_6", rows=4, **data):
    facts = facts_of(checkpoint, dataset(**data))
    return Origin(str(folder), "out", "tmp", facts, rows)


def chunk(folder, *more):
    for name in ("out-chunk00000.COMPLETED", *more):
        (folder / "tmp" / name).write_text("")


OTHERS = [
    ({"checkpoint": "r/checkpoint_3"}, "results of checkpoint 'r/checkpoint_6', this"),
    ({"split": "dev"}, "results of split 'test', this job has 'dev'"),
    ({"inputs": 9}, "results of lengths {'inputs': 8, 'pairs': [3, 2]}, this job has"),
]


@pytest.mark.parametrize(("changes", "message"), OTHERS)
@pytest.mark.parametrize("is_complete", [True, False])
def test_results_of_something_else(tmp_path, changes, message, is_complete):
    (tmp_path / "tmp").mkdir()
    first = origin(tmp_path)
    first.check()
    first.note()
    # Nothing is done yet, so another job may start.
    origin(tmp_path, **changes).check()
    chunk(tmp_path)
    if is_complete:
        first.complete()
    origin(tmp_path).check()
    with pytest.raises(UserError, match="Name another output_dir") as error:
        origin(tmp_path, **changes).check()
    assert message in str(error.value)


def test_chunks_of_another_size(tmp_path):
    (tmp_path / "tmp").mkdir()
    origin(tmp_path).note()
    chunk(tmp_path)
    with pytest.raises(
        UserError, match="its chunks have 4 examples, those of this job 6"
    ):
        origin(tmp_path, rows=6).check()
    chunk(tmp_path, "input.ckpt.index")  # the file with the position of the data
    origin(tmp_path, rows=6).check()


@pytest.mark.parametrize(
    "text", ["", "4", "{", "[" * 100_000, '{"a": 1, "a": 2}', "1" * 5000]
)
def test_markers_of_others_say_nothing(tmp_path, text):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "out.COMPLETED").write_text(text)
    (tmp_path / "tmp/origin.json").write_text(text)
    chunk(tmp_path)
    origin(tmp_path).check()
    origin(tmp_path).complete()
    assert json.loads((tmp_path / "out.COMPLETED").read_text())["split"] == "test"


@pytest.mark.parametrize("name", ["lr[0.1]", "a*", "what?"])
def test_folders_that_patterns_do_not_find(tmp_path, name):
    with pytest.raises(
        UserError, match=r"MODEL_DIR = .*cannot be found. Give it another"
    ):
        checks.output_folder("MODEL_DIR", tmp_path / name)
    assert not (tmp_path / name).exists()
    restore = RestoreCheckpointConfig(path=str(tmp_path / name / "checkpoint_1"))
    with pytest.raises(UserError, match=r"RestoreCheckpointConfig.path = .*cannot be"):
        setup.find_checkpoint(CheckpointConfig(restore=restore), str(tmp_path))
    assert checks.output_folder("MODEL_DIR", tmp_path / "a b {}é%")


def test_checkpoints_in_a_folder_with_a_blank_are_known(tmp_path):
    file = epath.Path(tmp_path / "done")
    assert eval_lib._evaluated(file) == set()
    paths = {"/x/with blank/checkpoint_3", "/x/with blank/checkpoint_6"}
    for path in sorted(paths):
        eval_lib._note_evaluated(file, path)
    assert eval_lib._evaluated(file) == paths


def test_a_folder_without_the_checkpoint_that_is_asked_for(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "empty").mkdir()
    restore = RestoreCheckpointConfig(path=str(tmp_path / "empty"), mode="latest")
    found = setup.find_checkpoint(
        CheckpointConfig(restore=restore), str(tmp_path / "run")
    )
    assert found.path is None
    assert f"warning: {tmp_path}/empty holds no checkpoint" in capsys.readouterr().err
    setup.find_checkpoint(CheckpointConfig(), str(tmp_path / "run"))
    assert capsys.readouterr().err == ""
