"""Types and ranges of public macros."""

import gin
import pytest
from t5x.errors import UserError
from t5x.start import macros


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
        "INITIAL_CHECKPOINT_PATH = ['a', 'b']",
    ):  # fmt: skip
        assert refused(line) == ""


def test_types_and_the_offending_number():
    assert "RANDOM_SEED = True: give a whole number" in refused("RANDOM_SEED = True")
    assert "TASK_FEATURE_LENGTHS['inputs'] = 0: give a whole number" in refused(
        "TASK_FEATURE_LENGTHS = {'inputs': 0}"
    )
    assert "STEPS_OF_STAGES = 2.5: give a whole" in refused(
        "STEPS_OF_STAGES = (5, 2.5)"
    )
