"""Feeds damaged files to readers, in a child process that may die, hang, or grow.

A test file of this folder holds `READERS`, name -> `Reader`, and calls
`Fuzzer.run(name)` for each. To repeat a single file by hand:

    python tests/fuzz/fuzz_kit.py tests/fuzz/test_X.py WORK NAME MATERIAL SEED
"""

import collections
import dataclasses
import json
import os
import random
import resource
import runpy
import select
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

# The child is started as a script, and tests of readers import `tests.support`.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from jaxaug_base.errors import UserError
from mutators import Mutator, damage

SHORT = 20
FILES = int(os.environ.get("JAXAUG_FUZZ_FILES", "200"))
WALL_SECONDS = 60
MEMORY = 2**30
_LONGEST_MESSAGE = 3000


@dataclasses.dataclass(frozen=True)
class Reader:
    """A reader, and the required result for a damaged file.

    Attributes:
        make: (empty folder, material of the test) -> the good file, or the folder whose
          files are damaged. It lies in the empty folder and is called `fuzzed`.
        read: (the file or folder, material) -> result of the reader under test;
          comparable with `==`.
        mutators: mutators of the file; JSON files of a folder are damaged as JSON.
        check: (result, result for the good file, damaged file) -> asserts that the
          result matches the file. None: only the result for the good file is right.
        seconds: maximum CPU time for one file.
    """

    make: Callable[[Path, Path], Path]
    read: Callable[[Path, Path], Any]
    mutators: Sequence[Mutator]
    check: Callable[[Any, Any, Path], None] | None = None
    seconds: float = 5.0


@dataclasses.dataclass
class Report:
    """The outcomes of the files: the number of each, and the defects."""

    counts: collections.Counter[str]
    defects: list[str]

    def text(self) -> str:
        """Returns the defects; equal ones are grouped, with the first seed of each."""
        first: dict[str, str] = {}
        times: collections.Counter[str] = collections.Counter()
        for defect in self.defects:
            seed, _, what = defect.partition(" ")
            kind = what.partition(": ")[0]
            first.setdefault(kind, f"seed {seed} {what}")
            times[kind] += 1
        lines = [f"{times[kind]} x {text}" for kind, text in first.items()]
        return f"{dict(self.counts)}\n" + "\n".join(lines)


class Fuzzer:
    """Drives the child process; restarts it if a file ended it."""

    def __init__(self, test_file: str, work: Path, python: str = sys.executable):
        """Creates the fuzzer; the child starts later.

        Args:
            test_file: the file with `READERS`.
            work: an empty folder.
            python: interpreter of the child.
        """
        self._command = [python, __file__, test_file, str(work)]
        self._log = work / "log.txt"
        self._child: subprocess.Popen[bytes] | None = None

    def run(self, name: str, material: Path, files: int) -> Report:
        """Feeds a number of damaged files to a reader, made from `material`."""
        report = Report(collections.Counter(), [])
        for seed in range(files):
            answer = self._ask([name, str(material), seed])
            report.counts[answer["outcome"]] += 1
            if answer["outcome"] == "defect":
                report.defects.append(f"{seed} {answer['what']} <- {answer['how']}")
        return report

    def close(self) -> None:
        """Ends the child."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child.stdin.close()
            self._child.stdout.close()
            self._child = None

    def _ask(self, question: list[Any]) -> dict[str, Any]:
        if self._child is None:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log.open("wb"),
                env=os.environ | {"JAX_PLATFORMS": "cpu"},
            )
            # The time limit excludes imports of the child.
            self._child.stdout.readline()
        child = self._child
        child.stdin.write(json.dumps(question).encode() + b"\n")
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], WALL_SECONDS)
        line = child.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        if ready:
            child.wait()
        self.close()
        status = child.returncode
        what = "no answer in a minute" if not ready else f"exit {status}"
        if status == -signal.SIGPROF:
            what = "too much time of the processor"
        elif status and status < 0 and ready:
            what = f"killed by {signal.Signals(-status).name}"
        tail = self._log.read_text(errors="replace")[-600:]
        return {"outcome": "defect", "what": what, "how": tail or "?"}


def try_one(
    reader: Reader, material: Path, good: tuple[Path, Any], bad: Path, seed: int
) -> dict[str, Any]:
    """Damages a copy of the good file, reads it, and judges the outcome."""
    path, expected = good
    shutil.rmtree(bad.parent, ignore_errors=True)
    bad.parent.mkdir(parents=True)
    copy = shutil.copytree if path.is_dir() else shutil.copyfile
    copy(path, bad)
    names = {bad.name, *(file.name for file in bad.rglob("*"))}
    how = damage(bad, reader.mutators, random.Random(seed))
    outcome, what = "refused", ""
    try:
        found = reader.read(bad, material)
        if found == expected:
            outcome = "same"
        else:
            outcome = "other"
            assert reader.check is not None, "another result than for the good file"
            reader.check(found, expected, bad)
    except BaseException as error:  # noqa: BLE001 - panics of Rust are no Exception
        if not isinstance(error, UserError):
            outcome = "defect"
            what = _place(error)
        elif complaint := _complaint(error, names):
            outcome, what = "defect", complaint
    return {"outcome": outcome, "what": what, "how": how}


def _place(error: BaseException) -> str:
    """Returns class, text, and last place in our code of an error."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename and "/lib/python" not in frame.filename
    ]
    last = frames[-1] if frames else None
    where = f"{Path(last.filename).name}:{last.lineno}" if last else "?"
    return f"{type(error).__name__} at {where}: {str(error)[:160]!r}"


def _complaint(error: BaseException, names: Iterable[str]) -> str:
    """Returns the fault of a message to the user about a damaged file, or ""."""
    text = str(error)
    if len(text) > _LONGEST_MESSAGE:
        return f"a message of {len(text)} characters"
    if not any(name in text for name in names):
        return f"the message does not name the file: {text[:160]!r}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return f"memory was asked for before it was refused: {text[:160]!r}"
        cause = cause.__cause__ or cause.__context__
    return ""


def _limit_memory() -> None:
    """Allows 1 GiB more than now; larger allocations raise MemoryError."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return
    (size,) = (line.split()[1] for line in status.splitlines() if "VmData" in line)
    limit = int(size) * 1024 + MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))


def serve(test_file: str, work: Path) -> Callable[[str, str, int], dict[str, Any]]:
    """Returns a function that tries one seed on one reader; caches good files."""
    readers: dict[str, Reader] = runpy.run_path(test_file)["READERS"]
    known: dict[str, tuple[Path, Any]] = {}

    def answer(name: str, material: str, seed: int) -> dict[str, Any]:
        reader = readers[name]
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2)
        if name not in known:
            folder = work / name / f"good{os.getpid()}"
            folder.mkdir(parents=True)
            good = reader.make(folder, Path(material))
            known[name] = good, reader.read(good, Path(material))
        bad = work / name / "bad" / known[name][0].name
        _limit_memory()
        # The signal kills the child at the time limit, even inside a library.
        signal.setitimer(signal.ITIMER_PROF, reader.seconds)
        try:
            return try_one(reader, Path(material), known[name], bad, seed)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    return answer


def _main() -> None:
    test_file, work, *one = sys.argv[1:]
    answer = serve(test_file, Path(work))
    if one:
        name, material, seed = one
        print(answer(name, material, int(seed)))
        return
    # Readers may print.
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    channel.write(b"ready\n")
    channel.flush()
    for line in sys.stdin:
        channel.write(json.dumps(answer(*json.loads(line))).encode() + b"\n")
        channel.flush()
    os._exit(0)


if __name__ == "__main__":
    _main()
