"""Worker processes: errors reach the parent, and workers do not rerun the program."""

import os
import pickle
import subprocess
import sys
import textwrap
import time

import pytest

from jaxaug.feed import workers
from jaxaug.feed.parallel import in_order
from jaxaug.feed.workers import LostWorkerError, Pool
from tests.support import grids

# It has no main guard, so importing it in a worker would print "started" again.
PROGRAM = textwrap.dedent("""
    import sys

    print("started")
    main = sys.modules["__main__"]
    from jaxaug.feed.parallel import in_order

    always = set()  # whether the program stays in its place, at every call
    sys.setprofile(lambda *_: always.add(sys.modules["__main__"] is main))
    print(*in_order(abs, [-1, -2, -3], 2, "test"))
    sys.setprofile(None)
    print(always)
""")


def start(arguments, folder, text=None):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, input=text, capture_output=True,
        check=False, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", grids.first(2, ["script", "-c", "-m", "-"]))
def test_from_any_program(tmp_path, how):
    (tmp_path / "own_program.py").write_text(PROGRAM)
    # A module of the working directory must not hide modules of a worker.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "pickle.py").write_text("raise SystemExit(3)")
    arguments = {
        "script": [str(tmp_path / "own_program.py")],
        "-": ["-P", "-"],
        "-m": ["-m", "own_program"],
        "-c": ["-P", "-c", PROGRAM],
    }[how]
    folder = tmp_path if how == "-m" else tmp_path / "elsewhere"
    printed = start(arguments, folder, PROGRAM if how == "-" else None)
    assert printed == "started\n1 2 3\n{True}\n"


def test_results_and_errors():
    with Pool(2) as pool:
        futures = [pool.submit(int, text) for text in ("1", "x", "3")]
        assert (futures[0].result(), futures[2].result()) == (1, 3)
        with pytest.raises(ValueError, match="invalid literal.*'x'") as caught:
            futures[1].result()
        (note,) = caught.value.__notes__
        assert note.startswith("in a worker process:\nTraceback")
        # The worker continues after an error.
        assert pool.submit(int, "7").result() == 7


def test_output_of_a_job_is_not_its_answer(capfd):
    with Pool(1) as pool:
        assert pool.submit(print, "hello").result() is None
    assert capfd.readouterr().err == "hello\n"


def test_a_job_that_reads_has_no_input():
    with Pool(1) as pool:
        assert isinstance(pool.submit(input, "").exception(), EOFError)


def test_a_function_that_cannot_be_found(monkeypatch):
    """A worker has another `__main__`."""

    def local(job):
        raise AssertionError

    local.__module__, local.__qualname__ = "__main__", "no_such_name"
    monkeypatch.setattr(sys.modules["__main__"], "no_such_name", local, raising=False)
    with Pool(1) as pool:
        error = pool.submit(local, 1).exception()
        assert isinstance(error, AttributeError) and "no_such_name" in str(error)
        assert pool.submit(abs, -1).result() == 1


def test_an_error_that_cannot_travel(monkeypatch):
    class LocalError(Exception):
        """Pickle cannot name it."""

    def fail(job):
        raise LocalError(job)

    fail.__module__, fail.__qualname__ = workers.__name__, "fail"
    monkeypatch.setattr(workers, "fail", fail, raising=False)
    answer = workers._answer(pickle.dumps((fail, "why")))
    result, error = pickle.loads(answer)
    assert result is None and type(error) is RuntimeError
    assert "LocalError: why" in str(error)


def test_a_worker_that_is_killed():
    with Pool(1) as pool:
        with pytest.raises(LostWorkerError) as caught:
            pool.submit(os._exit, 9).result()
        assert str(caught.value) == (
            "a worker process ended with status 9 before its job did (-9: it was "
            "killed, as for want of memory). Use fewer workers or free memory, and run "
            "the same command again."
        )
        assert pool.submit(abs, -1).result() == 1  # another takes its place


def test_leaving_early_ends_the_workers():
    started = time.monotonic()
    results = in_order(time.sleep, [0.0, 60.0, 60.0], 2, "test")
    assert next(results) is None
    results.close()
    assert time.monotonic() - started < 30
