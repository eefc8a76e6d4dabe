"""Dry runs of the T5X programs, each in a fork of a process with all imports.

    python tests/dry_runs.py JOBS OUT

JOBS is a JSON list of argument lists ["t5x.train", "--gin_file=...", ...]. Job n writes
its output to OUT/n.txt, with its exit status in the last line. The imports take ten
times as long as a dry run.
"""

import contextlib
import gc
import importlib
import json
import os
import re
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_IMPORT = re.compile(r"^(?:from (\S+) )?import (\S+)", re.MULTILINE)


# Libraries that a dry run imports in functions, once for each fork.
_LATER = ("matplotlib.backends.backend_agg", "sentencepiece.sentencepiece_model_pb2")


def import_early() -> None:
    """Imports the modules of gin files, and libraries that dry runs import later."""
    from tests.support.gin_files import gin_files

    names = [*_LATER]
    for path in gin_files().values():
        for package, name in _IMPORT.findall(path.read_text(encoding="utf-8")):
            if not package.startswith("__") and not name.startswith("__"):
                names.append(f"{package}.{name}" if package else name)
    for name in dict.fromkeys(names):
        # The dry run reports missing modules.
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)


def run(program: str, *flags: str) -> int:
    """Runs `python -m program --dry_run flags` here; returns its exit status."""
    sys.argv = [program, "--dry_run", *flags]
    try:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def run_in_fork(log: str, *job: str) -> None:
    # The fork would write what is still buffered a second time.
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        file = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 1)
        os.dup2(file, 2)
        # Lines of both streams are written in their order.
        sys.stdout.reconfigure(line_buffering=True)
        status = run(*job)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, status = os.waitpid(pid, 0)
    with open(log, "a") as end:
        end.write(f"\nexit status {os.waitstatus_to_exitcode(status)}\n")


def main(jobs: str, out: str) -> None:
    # `python -m` in the repository has the repository here. A script has its own
    # folder, tests/, whose `tasks` would hide the package of that name.
    sys.path[0] = str(ROOT)
    import_early()
    gc.freeze()  # Memory pages of uncollected objects stay shared.
    for number, job in enumerate(json.loads(Path(jobs).read_text())):
        run_in_fork(f"{out}/{number}.txt", *job)


if __name__ == "__main__":
    main(*sys.argv[1:])
