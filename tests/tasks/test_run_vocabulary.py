"""A run owns its vocabulary: later additions to the data do not change it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("seqio")

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.core.files import write_bytes, write_text
from jaxaug.feed import run_choices, run_vocabulary, vocabulary
from jaxaug.models.text import checkpoint
from jaxaug_papers import minisgd

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TINY = """
from __gin__ import dynamic_registration
from t5x.examples.t5 import network
network.T5Config:
  emb_dim = 8
  num_heads = 2
  head_dim = 4
  mlp_dim = 16
  num_encoder_layers = 1
  num_decoder_layers = 1
TASK_FEATURE_LENGTHS = {'inputs': 152, 'targets': 32}
EVAL_MIXTURE = 'd3st_sgd'
"""
TRAIN = """
from __gin__ import dynamic_registration
MIXTURE_OR_TASK_NAME = 'd3st_sgd'
TRAIN_STEPS = 2
EVAL_PERIOD = 2
BATCH_SIZE = 2
LEARNING_RATE = 0.5
from t5x import utils
train/utils.DatasetConfig.mixture_or_task_name = 'd3st_sgd'
"""


def call(python, program, folder, *arguments, **variables):
    """Runs a program of T5X to its end; returns its output."""
    done = subprocess.run(
        [python, "-m", f"t5x.{program}", *arguments], cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu",
         "JAXAUG_DATA_DIR": str(folder / "data"),
         "JAXAUG_CACHE_DIR": str(folder / "cache"), **variables},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stderr


def train(python, folder, run, *arguments, **variables):
    return call(
        *(python, "train", folder, "--gin_file=configs/d3st.gin"),
        "--gin_file=configs/runs/from_nothing.gin",
        f"--gin_file={folder}/tiny.gin",
        f"--gin_file={folder}/train.gin",
        f"--gin.MODEL_DIR='{run}'",
        *arguments,
        **variables,
    )


def evaluate(python, folder, run, **variables):
    status, said = call(
        *(python, "eval", folder, "--gin_file=configs/models/t5_scratch.gin"),
        "--gin_file=configs/runs/robustness.gin",
        f"--gin_file={folder}/tiny.gin",
        f"--gin.CHECKPOINT_PATH='{run}'",
        **variables,
    )
    return status, said, answers(run / "eval")


def answers(folder):
    """Returns the lines with inputs and predictions of the evaluation in a folder."""
    found = sorted((folder / "inference_eval").glob("*d3st_sgd*.jsonl"))
    return [line for path in found for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, python):
    """Returns a folder with `data` and a small `run` that was trained on it."""
    folder = tmp_path_factory.mktemp("owned")
    minisgd.write(folder / "data", train_dialogues=6, dev_dialogues=1, test_dialogues=5)
    (folder / "tiny.gin").write_text(TINY)
    (folder / "train.gin").write_text(TRAIN)
    status, said = train(python, folder, folder / "run")
    assert status == 0, said
    return folder


@pytest.fixture(scope="module")
def grown(trained):
    """Returns the same with new words in variants of the data, and a moved run."""
    words = vocabulary.train_words(trained / "data", trained / "cache")
    kept = trained / "run" / run_vocabulary.NAME
    assert kept.read_bytes() == words.read_bytes()
    schema = json.loads((trained / "data/train/schema.json").read_text())
    for service in schema:
        for number, slot in enumerate(service["slots"]):
            slot["description"] = f"aardvark aback{number} abacus"
    mine = trained / "data/variants/mine/v1/train/schema.json"
    mine.parent.mkdir(parents=True)
    mine.write_text(json.dumps(schema))
    after = vocabulary.train_words(trained / "data", trained / "cache")
    assert vocabulary.load(after).encode("abacus") != vocabulary.load(words).encode(
        "abacus"
    )
    shutil.move(trained / "run", trained / "moved")
    return trained


@pytest.mark.long
def test_evaluation_after_the_data_grew(grown, python):
    run = grown / "moved"
    before = answers(run)
    assert len(before) > 5
    status, said, after = evaluate(python, grown, run)
    assert status == 0, said
    assert after == before


def test_a_tracker_answers_as_the_run_did(grown, tmp_path, monkeypatch, capsys):
    """It reads dialogues alone; the run was moved and its data folder deleted."""
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(tmp_path / "gone"))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    dialogues = json.loads((grown / "data/test/dialogues_001.json").read_text())
    for dialogue in dialogues:
        for turn in dialogue["turns"]:
            turn["frames"] = [{"service": f["service"]} for f in turn["frames"]]
    (tmp_path / "bare.json").write_text(json.dumps(dialogues))
    command = f"predict --run {grown}/moved --schema {grown}/data/test/schema.json"
    command += f" --in {tmp_path}/bare.json --out {tmp_path}/pred"
    assert cli.main(command.split()) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path}/pred/dialogues.json\n"
    (own,) = (grown / "moved/inference_eval/predictions").glob("d3st-*/original/*.json")
    assert (tmp_path / "pred/dialogues.json").read_text() == own.read_text()


def test_a_run_that_goes_on_keeps_its_vocabulary(grown, python):
    run = grown / "again"
    shutil.copytree(grown / "moved", run)
    kept = (run / run_vocabulary.NAME).read_bytes()
    status, said = train(python, grown, run, "--gin.TRAIN_STEPS=4")
    assert status == 0 and "step 2  restored" in said, said
    assert (run / run_vocabulary.NAME).read_bytes() == kept
    # Each checkpoint names the ids it was trained with.
    noted = (run / run_vocabulary.NOTES).read_text()
    checkpoints = sorted(run.glob("checkpoint_*"))
    assert checkpoints
    assert [(c / run_vocabulary.NOTES).read_text() for c in checkpoints] == [
        noted for _ in checkpoints
    ]


def test_models_are_loaded_with_their_own_words(grown, tmp_path, monkeypatch):
    """Several models share a process, without their data folders."""
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(tmp_path / "gone"))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    run = checkpoint.load(grown / "moved")
    own = grown / "moved" / run_vocabulary.NAME
    assert (
        run.model.input_vocabulary.path == run.model.output_vocabulary.path == str(own)
    )
    table = run.params["token_embedder"]["embedding"]
    size = vocabulary.load(own).get_piece_size()
    assert len(table) == -(-size // 128) * 128


def test_a_run_without_a_copy_has_the_older_vocabulary(grown, tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(grown / "data"))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    write_text(tmp_path / "run" / "config.gin", "MODEL = 1\n")
    older = vocabulary.train_words(grown / "data", tmp_path, older=True)
    assert vocabulary.of_run(tmp_path / "run") == str(older)
    assert vocabulary.of_run(tmp_path / "run/checkpoint_5") == str(older)
    assert vocabulary.of_run(tmp_path / "run", "named.model") == "named.model"
    assert vocabulary.of_run(tmp_path) == str(vocabulary.model_file())
    assert vocabulary.of_run(tmp_path) != str(older)


def test_a_checkpoint_of_another_run(tmp_path):
    for run, words in (("one", b"1"), ("two", b"2")):
        write_bytes(tmp_path / "words.model", words)
        run_vocabulary.keep(tmp_path / run, tmp_path / "words.model")
        own = run_vocabulary.of_run(tmp_path / run)
        (tmp_path / run / "checkpoint_5").mkdir()
        shutil.copy(tmp_path / run / run_vocabulary.NOTES, own.parent / "checkpoint_5")
        assert run_vocabulary.of_run(tmp_path / run / "checkpoint_5") == own
    shutil.move(tmp_path / "two/checkpoint_5", tmp_path / "one/checkpoint_7")
    assert run_vocabulary.of_run(tmp_path / "one/checkpoint_5")
    for folder in ("one", "one/checkpoint_7"):
        with pytest.raises(UserError, match=r"checkpoint_7 was trained with the vocab"):
            run_vocabulary.of_run(tmp_path / folder)


def test_choices_are_compared(tmp_path, monkeypatch):
    for name in run_choices.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAXAUG_TEXT_DIR", "texts")
    run_choices.keep("run")
    noted = json.loads(Path("run", run_choices.NAME).read_text())
    assert noted == {"JAXAUG_TEXT_DIR": f"{tmp_path}/texts"}
    # The same folder by another name.
    monkeypatch.setenv("JAXAUG_TEXT_DIR", f"{tmp_path}/runs/../texts")
    run_choices.keep("run")
    monkeypatch.setenv("JAXAUG_RENDERINGS", "3")
    monkeypatch.delenv("JAXAUG_TEXT_DIR")
    with pytest.raises(UserError) as error:
        run_choices.keep("run")
    assert (
        f"$JAXAUG_TEXT_DIR was {tmp_path}/texts and is unset; $JAXAUG_RENDERINGS was "
        "unset and is 3. Set what it was"
    ) in str(error.value)
    Path("run", run_choices.NAME).write_text("[]")
    with pytest.raises(UserError, match="expected an object of variables and values"):
        run_choices.keep("run")


def test_a_start_that_failed_fixes_nothing(tmp_path, monkeypatch):
    for name in run_choices.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(run_vocabulary, "_trained_folder", lambda: tmp_path)
    monkeypatch.setattr(run_vocabulary, "_restored_folder", lambda: None)
    for name in ("one", "two"):
        write_text(tmp_path / f"{name}.model", name)
    own = tmp_path / run_vocabulary.NAME
    for name, texts in (("one", "texts"), ("two", "others")):
        monkeypatch.setenv("JAXAUG_TEXT_DIR", f"/{texts}")
        used = run_vocabulary.owned(str(tmp_path / f"{name}.model"), str)
        assert used == str(own) and own.read_text() == name
        assert run_choices.read(tmp_path) == {"JAXAUG_TEXT_DIR": f"/{texts}"}
    # From its first step on the run stores both.
    write_text(tmp_path / "config.gin", "")
    one, noted = tmp_path / "one.model", (tmp_path / run_vocabulary.NOTES).read_text()
    with pytest.raises(UserError) as error:
        run_vocabulary.owned(str(one), str)
    assert (
        f"{own} (digest {json.loads(noted)['digest']}), and {one} is another one "
        f"(digest {run_vocabulary.file_digest(one)}). Name no vocabulary"
    ) in str(error.value)
    monkeypatch.setenv("JAXAUG_TEXT_DIR", "/texts")
    with pytest.raises(UserError, match="TEXT_DIR was /others and is /texts"):
        run_vocabulary.owned("", str)


def test_a_dry_run_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(run_vocabulary, "_trained_folder", lambda: tmp_path / "run")
    monkeypatch.setattr(run_vocabulary, "_restored_folder", lambda: None)
    monkeypatch.setattr(run_choices, "is_dry_run", lambda: True)
    assert run_vocabulary.owned("words.model", str) == "words.model"
    assert not (tmp_path / "run").exists()


def test_every_variable_that_chooses_data_is_kept():
    others = {
        *("JAXAUG_CACHE_DIR", "JAXAUG_PACKAGES", "JAXAUG_TRUSTED_MODULES"),
        "JAXAUG_ACCEPT_CHANGED_CONFIG",
        "JAXAUG_OFFLINE",
        "JAXAUG_VOCABULARY",  # Kept as a file.
    }
    found = set()
    for path in (*ROOT.glob("jaxaug/**/*.py"), *ROOT.glob("tasks/**/*.py")):
        found |= set(re.findall(r'VARIABLE = "(JAXAUG_\w+)"', path.read_text()))
    assert found == {*run_choices.VARIABLES, *others}


def test_a_damaged_copy(tmp_path, grown):
    for name in (run_vocabulary.NAME, run_vocabulary.NOTES):
        shutil.copy(grown / "moved" / name, tmp_path)
    path = run_vocabulary.of_run(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="but the run was trained with .* Restore the"):
        run_vocabulary.of_run(tmp_path)
