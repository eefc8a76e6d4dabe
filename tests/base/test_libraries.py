"""Logs of TensorFlow and SeqIO are in the run folder and not on the screen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jaxaug_base import libraries

# C++ code writes to the file descriptor. SeqIO logs from one of its files.
PROGRAM = """
import os, sys
from importlib import util
from absl import logging
from t5x.start import program

def job(folder):
    def of_seqio(line):
        folder = os.path.dirname(util.find_spec('seqio').origin)
        place = os.path.join(folder, "evaluation.py")
        exec(compile(line, place, "exec"), {"logging": logging})

    from jaxaug_base import libraries
    libraries.keep_in(folder)
    print("to be read")
    of_seqio("logging.warning('too %s', 'long')")
    of_seqio("logging.error('of SeqIO, an error')")
    logging.warning("of ours, a warning")
    os.write(2, b"native, later\\n")
    raise ZeroDivisionError("a defect")

def noisy():
    os.write(2, b"I0000 oneDNN custom operations are on\\n")
    print("of ours, a message", file=sys.stderr)
    logging.warning("of ours, early")
    return job

program.define_flags()
program.run(noisy)
"""


@pytest.fixture
def run(tmp_path):
    def run(*flags):
        (tmp_path / "noisy.py").write_text(PROGRAM)
        flag = f"--gin_bindings=job.folder = '{tmp_path / 'run'}'"
        done = subprocess.run(
            # A fork of the warm interpreter would have TensorFlow's messages, too.
            [sys.executable, "noisy.py", flag, *flags],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_notes_are_kept_off_the_screen(run, tmp_path):
    status, out, err = run()
    kept = (tmp_path / "run" / libraries.NAME).read_text().splitlines()
    assert kept == [
        "I0000 oneDNN custom operations are on",
        "WARNING evaluation.py:1] too long",
    ]
    assert (status, out) == (1, "to be read\n")
    shown = [line.split("] ")[-1] for line in err.splitlines()]
    machine = next(line for line in shown if line.startswith("machine: "))
    assert shown[: shown.index(machine)] == ["of ours, a message", "of ours, early"]
    rest = shown[shown.index(machine) + 1 :]
    assert rest[:4] == [
        "of SeqIO, an error",
        "of ours, a warning",
        "native, later",
        "Traceback (most recent call last):",
    ]
    assert "ZeroDivisionError: a defect" in rest


def test_who_asks_for_notes_sees_them(run, tmp_path):
    _, _, err = run("--verbosity=0")
    assert "I0000 oneDNN custom operations are on\n" in err
    assert "] too long\n" in err
    assert not (tmp_path / "run").exists()


def test_a_crash_inside_is_shown():
    code = (
        "import os; from jaxaug_base import libraries\n"
        "with libraries.Notes().of_native_code(): os.abort()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == -6
    assert "Fatal Python error: Aborted" in done.stderr


def test_a_run_in_an_object_store_keeps_its_notes_here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    notes = libraries.Notes()
    with notes.of_native_code():
        os.write(2, b"one\n")
    assert not list(tmp_path.iterdir())
    notes.keep_in("gs://bucket/run")
    with notes.of_native_code():
        os.write(2, b"two\n")
    kept = Path(tmp_path, "t5x", libraries.NAME)
    assert kept.read_text() == "one\ntwo\n"
