"""Only one run at a time uses a model folder."""

import contextlib
import json
import os
import signal
import socket
import subprocess

import pytest
from t5x.errors import UserError
from t5x.training import run_record

HOLDER = """
import os, sys
from t5x.training import run_record

with run_record.only_run_in(sys.argv[1]):
    print(os.getpid(), flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def holder(python, folder):
    """Starts a process that holds the lock until its input ends; yields its id."""
    with subprocess.Popen(
        [python, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_two_runs_in_one_folder(python, run_train, tmp_path):
    since = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d"
    with holder(python, tmp_path) as (other, pid):
        message = rf"{tmp_path} .*process {pid} on .*{socket.gethostname()} \({since}\)"
        with pytest.raises(UserError, match=f"{message}.*another MODEL_DIR"):
            run_train(tmp_path, steps=1)
        assert sorted(os.listdir(tmp_path)) == ["train.lock"]
        other.communicate("")
        assert os.listdir(tmp_path) == []
    assert run_train(tmp_path, steps=1)[0] == 1
    assert not (tmp_path / "train.lock").exists()


def test_a_killed_run_leaves_no_lock(python, tmp_path):
    with holder(python, tmp_path) as (other, pid):
        os.kill(pid, signal.SIGKILL)
        assert other.wait() == -signal.SIGKILL
    assert json.loads((tmp_path / "train.lock").read_text())["pid"] == pid
    with run_record.only_run_in(str(tmp_path)):
        assert json.loads((tmp_path / "train.lock").read_text())["pid"] == os.getpid()
    assert os.listdir(tmp_path) == []


def test_a_run_that_fails_releases_its_lock(run_train, tmp_path):
    def fail(number):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_train(tmp_path, on_batch=fail)
    assert not (tmp_path / "train.lock").exists()


def test_a_damaged_lock_names_nobody(tmp_path):
    for content in ("", "{", "[]", "[" * 100_000):
        (tmp_path / "train.lock").write_text(content)
        with run_record.only_run_in(str(tmp_path)):
            held = json.loads((tmp_path / "train.lock").read_text())
            assert held["pid"] == os.getpid()


def test_folders_with_a_url_are_not_locked():
    with run_record.only_run_in("gs://no-such-bucket/run"):
        pass
