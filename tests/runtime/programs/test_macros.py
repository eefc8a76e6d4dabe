"""Types and ranges of public macros."""

import pathlib
import re

import gin
import pytest
from t5x.errors import UserError
from t5x.start import macros

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _clean():
    gin.clear_config()
    yield
    gin.clear_config()


def refused(line):
    gin.clear_config()
    gin.parse_config(line, skip_unknown=True)
    try:
        macros.check()
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
        "STEPS_OF_STAGES = (5, 7)", "TRAIN_STEPS = %OTHER\nOTHER = 'x'",
        "MODEL_DIR = %gin.REQUIRED", "USE_HARDWARE_RNG = False",
        "INITIAL_CHECKPOINT_PATH = ['a', 'b']", "INITIAL_CHECKPOINT_PATH = None",
        "CURRICULUM_STEPS = 'as written'", "CURRICULUM_STEPS = 900",
        "ORIGINAL_FRACTION = 1",
        "LOSS_NORMALIZING_FACTOR = 233472", "LOSS_NORMALIZING_FACTOR = None",
        "LOSS_NORMALIZING_FACTOR = 'num_real_target_tokens'",
        "TARGETS = 'all-linear'",
        "TARGETS = ['q_proj', 'v_proj']", "REMAT_POLICY = 'full'", "WANDB_MODE = None",
        "STEPS_OF_STAGES = (%OTHER, 7)\nOTHER = 5", "MODEL = %OTHER\nOTHER = 5",
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
