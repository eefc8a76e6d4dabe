"""The ends of programs: exit statuses, help, and a missing gin file."""

import subprocess

import pytest
from t5x.start import gin_config
from t5x.trainer import PreemptionError

ENDING = """
import atexit, os
from t5x import gin_utils
from t5x.errors import UserError
from t5x.trainer import PreemptionError

class Teardown:
    def __del__(self, write=os.write):
        write(2, b"torn down")

kept = Teardown()

def main(argv):
    atexit.register(print, "what the program registered")
    print("unflushed", end=" ")
    {end}

gin_utils.run(main)
"""


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ("75", 75, "Stopped.\n"),
        ("256", 0,
         "Stopped.\nwarning: T5X_STOPPED_STATUS=256 is no exit status (0 to 255).\n"),
    ],
)  # fmt: skip
def test_who_starts_runs_again_chooses_the_status_of_a_stop(
    monkeypatch, capfd, given, status, message
):
    def stop(argv):
        raise PreemptionError("Stopped.")

    def at_once(main, flags_parser):
        main([])

    monkeypatch.setenv("T5X_STOPPED_STATUS", given)
    monkeypatch.setattr(gin_config.app, "run", at_once)
    monkeypatch.setattr(gin_config.atexit, "register", lambda function: None)
    with pytest.raises(SystemExit) as left:
        gin_config.run(stop)
    assert left.value.code == status
    assert capfd.readouterr().err == message


@pytest.mark.parametrize(
    ("end", "status", "message", "torn"),
    [
        ("raise PreemptionError('Stopped.')", 0, "Stopped.", False),
        ("raise UserError('Wrong.')", 1, "error: Wrong.", False),
        ("raise ZeroDivisionError('Defect.')", 1, "ZeroDivisionError: Defect.", True),
        ("return", 0, "", True),
    ],
)
def test_a_program_that_is_cut_short_ends_without_teardown(
    python, end, status, message, torn
):
    """Remaining threads inside TensorFlow would crash the teardown."""
    done = subprocess.run(
        [python, "-c", ENDING.format(end=end)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert done.stdout == "unflushed what the program registered\n"
    assert ("torn down" in done.stderr) == torn


def test_a_program_without_a_gin_file_says_what_it_needs(run_program, tmp_path):
    status, _, err = run_program("train", cwd=tmp_path)
    assert status == 1
    assert err.splitlines()[-1] == (
        "error: no --gin_file is given: name the gin file of an experiment, such as "
        "--gin_file=configs/d3st_aug.gin. --help lists all flags."
    )


def test_help_lists_the_flags(run_program, tmp_path):
    _, out, err = run_program("infer", "--help", cwd=tmp_path)
    for flag in ("--gin_file", "--[no]dry_run", "--process_count", "--[no]keep_memory"):
        assert f"  {flag}: " in out + err


def test_a_dry_run_refuses_a_macro_that_nothing_uses(run_program, tmp_path):
    (tmp_path / "run.gin").write_text(
        "from __gin__ import dynamic_registration\nfrom t5x import utils\n"
        "TRAIN_STEPS = 3\nutils.DatasetConfig.batch_size = %TRAIN_STEPS\n"
    )
    flags = ("--gin_file=run.gin", "--gin.TRAIN_STEP=4", "--dry_run")
    status, out, err = run_program("train", *flags, cwd=tmp_path)
    assert status == 1
    assert "did you mean 'TRAIN_STEPS'?" in err
    assert "valid" not in out + err
