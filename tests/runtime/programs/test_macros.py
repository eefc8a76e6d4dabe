"""Types and ranges of public macros."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from gin import config_parser
from t5x import losses
from t5x.errors import UserError
from t5x.start import gin_files, macros

ROOT = pathlib.Path(__file__).parents[3]


def refused(text):
    bindings = config_parser.ConfigParser(text, gin_files.Delegate())
    try:
        macros.check_bindings(bindings)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", sorted(macros._MACROS))
def test_odd_values(name):
    odd = ("-1", "[]", "{}", "''", "(1, 'x')", "1e400")
    for value in odd:
        if (name, value) == ("FINETUNE_ACTIONS", "{}"):
            continue  # No action in any mode.
        message = refused(f"{name} = {value}")
        assert message.startswith(f"gin configuration: {name} = "), (name, value)
        assert ": give " in message


def test_valid_values():
    for line in (
        "TRAIN_STEPS = 1e6", "TRAIN_STEPS = 0", "LEARNING_RATE = 0",
        "RANDOM_SEED = None",
        "TASK_FEATURE_LENGTHS = {'inputs': 'auto', 'targets': 9}",
        "STEPS_OF_STAGES = (5, 7)", "TRAIN_STEPS = %OTHER\nOTHER = 3",
        "TRAIN_STEPS = %UNKNOWN", "TRAIN_STEPS = 'x'\nTRAIN_STEPS = 5",
        "TRAIN_STEPS = %OTHER\nOTHER = %TRAIN_STEPS", "a.random_seed = None",
        "MODEL_DIR = %gin.REQUIRED", "USE_HARDWARE_RNG = False",
        "INITIAL_CHECKPOINT_PATH = ['a', 'b']", "INITIAL_CHECKPOINT_PATH = None",
        "CURRICULUM_STEPS = 'as written'", "CURRICULUM_STEPS = 900",
        "ORIGINAL_FRACTION = 1",
        "LOSS_NORMALIZING_FACTOR = 233472", "LOSS_NORMALIZING_FACTOR = None",
        "LOSS_NORMALIZING_FACTOR = 'num_real_target_tokens'",
        "TARGETS = 'all-linear'",
        "TARGETS = ['q_proj', 'v_proj']", "REMAT_POLICY = 'full'", "WANDB_MODE = None",
        "STEPS_OF_STAGES = (%OTHER, 7)\nOTHER = 5", "MODEL = %OTHER\nOTHER = @f()",
        "FINETUNE_ACTIONS = {'INFER_EVAL': [@trainer.EarlyStoppingAction()]}",
    ):  # fmt: skip
        assert refused(line) == ""


def test_every_macro_of_the_configs_has_a_rule():
    files = [
        file
        for folder in ("configs", "runtime/t5x")
        for file in (ROOT / folder).rglob("*.gin")
    ]
    found = {
        name
        for file in files
        for name in re.findall(r"^([A-Z][A-Z0-9_]+) *=", file.read_text(), re.MULTILINE)
    }
    assert len(found) > 60
    assert found - set(macros._MACROS) == set()


def test_types_and_the_offending_number():
    assert "RANDOM_SEED = True: give a whole number" in refused("RANDOM_SEED = True")
    assert "TASK_FEATURE_LENGTHS['inputs'] = 0: give a whole number" in refused(
        "TASK_FEATURE_LENGTHS = {'inputs': 0}"
    )
    assert "give one of 'none', 'minimal', 'full'" in refused("REMAT_POLICY = 'all'")
    assert "MODEL = 't5': give a reference" in refused("MODEL = 't5'")
    assert "NUM_TOTAL_TARGET_TOKENS" in refused("LOSS_NORMALIZING_FACTOR = 'tokens'")
    assert "below 1" in refused("ORIGINAL_FRACTION = 1.5")
    assert "STEPS_OF_STAGES = 2.5: give a whole" in refused(
        "STEPS_OF_STAGES = (5, 2.5)"
    )
    assert "TRAIN_STEPS = 'x': give" in refused("TRAIN_STEPS = %A\nA = %B\nB = 'x'")
    assert "f.random_seed = 'x': give" in refused("a/b.f.random_seed = 'x'")
    assert set(macros._FACTORS) == set(losses.SpecialLossNormalizingFactor.__members__)


@pytest.mark.parametrize("program", ["train", "eval", "infer", "main"])
def test_a_wrong_value_in_an_include_ends_a_program_before_jax_is_imported(
    tmp_path, program
):
    (tmp_path / "jax.py").write_text("raise SystemExit('jax was imported')")
    (tmp_path / "inner.gin").write_text("TRAIN_STEPS = -1\n")
    (tmp_path / "run.gin").write_text("import tasks\ninclude 'inner.gin'\n")
    command = [sys.executable, "-m", f"t5x.{program}", "--dry_run", "--gin_file"]
    refused = "error: gin configuration: TRAIN_STEPS = -1: give a whole number"
    cases = {"A = 1": refused, "TRAIN_STEPS = 2": "jax was imported"}
    for binding, expected in [*cases.items()][: 1 + (program == "train")]:
        ended = subprocess.run(
            [*command, "run.gin", f"--gin_bindings={binding}"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        assert ended.returncode == 1
        assert ended.stderr.startswith(expected)
