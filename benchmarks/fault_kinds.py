"""The faults of `faults.py`, and the processes and folders in which they occur."""

import contextlib
import ctypes
import dataclasses
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from fault_programs import PROGRAMS, environment

LONGEST = 300.0  # Seconds that a run may take.
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


@dataclasses.dataclass
class Ended:
    """The end of a run: its output, and status as of `os.waitstatus_to_exitcode`."""

    status: int
    text: str
    seconds: float

    @property
    def is_clear(self) -> bool:
        """The run succeeded, was killed, or failed with an error message."""
        return self.status <= 0 or (
            "error:" in self.text and "Traceback (most recent" not in self.text
        )

    @property
    def last_line(self) -> str:
        """The last line of the output."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        errors = [line for line in lines if "rror:" in line]
        return (errors or lines or [""])[-1][:300]


class Child:
    """A function in a forked process; its output is collected through a pipe."""

    def __init__(self, function: Callable[[], int | None]):
        """Forks; `function` returns an exit status, where None means 0."""
        sys.stdout.flush()
        self._started = time.monotonic()
        self._pipe, end = os.pipe()
        self._text = b""
        self._status: int | None = None
        self.pid = os.fork()
        if not self.pid:
            os.setsid()
            os.dup2(end, 1)
            os.dup2(end, 2)
            _end_with(function)
        os.close(end)

    def wait(self, seconds: float = LONGEST) -> Ended | None:
        """Returns the end of the process, or None if it is still running."""
        until = time.monotonic() + seconds
        while self._status is None:
            left = until - time.monotonic()
            if left <= 0:
                return None
            ready, _, _ = select.select([self._pipe], [], [], min(left, 0.05))
            if ready:
                self._text += os.read(self._pipe, 1 << 16)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        while select.select([self._pipe], [], [], 0)[0]:
            if not (data := os.read(self._pipe, 1 << 16)):
                break
            self._text += data
        seconds = time.monotonic() - self._started
        return Ended(self._status, self._text.decode(errors="replace"), seconds)

    def end(self) -> Ended:
        """Returns the end of the process; a hanging run is killed and has failed."""
        if (ended := self.wait()) is None:
            self.kill(signal.SIGKILL)
            self.wait()
            return Ended(1, f"hangs: no end in {LONGEST:.0f} s", LONGEST)
        return ended

    def kill(self, number: int) -> None:
        """Sends a signal."""
        os.kill(self.pid, number)

    def close(self) -> None:
        """Ends the remaining processes of its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self._pipe)


def _end_with(function: Callable[[], int | None]) -> None:
    status: Any = 1
    try:
        status = function()
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def answer_of(function: Callable[[], Any]) -> Any:
    """Returns the JSON result of a function in a child, or None if it fails."""
    with tempfile.NamedTemporaryFile("r") as file:
        child = Child(lambda: Path(file.name).write_text(json.dumps(function())) * 0)
        ended = child.end()
        child.close()
        return json.load(file) if ended.status == 0 else None


class Trial:
    """One fault: a program in a separate folder."""

    def __init__(self, program: str, place: Path, material: Path, rng: Random):
        """Creates an empty folder."""
        self.program, self.place, self.rng = PROGRAMS[program], place, rng
        self.is_train = program == "train"
        self._material = material
        self._children: list[Child] = []
        shutil.rmtree(place, ignore_errors=True)
        (place / "out").mkdir(parents=True)
        (place / "cache").mkdir()

    def start(self, before: Callable[[], None] = lambda: None) -> Child:
        """Starts the program; `before` is called in its process first."""

        def run() -> int:
            os.environ.update(environment(self.place, self._material))
            before()
            arguments = self.program.arguments(self.place, self._material)
            return self.program.start(arguments)

        self._children.append(Child(run))
        return self._children[-1]

    def run(self, before: Callable[[], None] = lambda: None) -> Ended:
        """Runs the program to its end."""
        return self.start(before).end()

    def result(self) -> dict[str, str] | None:
        """Returns the digests of the outputs, or None if they cannot be read."""
        return answer_of(lambda: self.program.result(self.place))

    def kill(self, number: int, longest: float) -> Ended | None:
        """Kills a run at a random moment; returns None if the run ended before."""
        child = self.start()
        delay = self.rng.uniform(0, longest)
        if child.wait(delay) is not None:
            return None
        child.kill(number)
        return child.end()

    def files(self, *folders: str) -> list[Path]:
        """Returns the non-empty files in some folders."""
        found = (p for f in folders for p in (self.place / f).rglob("*"))
        return sorted(p for p in found if p.is_file() and p.stat().st_size)

    def close(self) -> None:
        """Ends all processes."""
        for child in self._children:
            child.close()


@dataclasses.dataclass
class Fault:
    """An injected fault.

    Attributes:
        detail: description of the fault; empty if it came too late.
        ended: ends of the disturbed runs.
        may_refuse: whether the next run may refuse damaged files.
        lost: reason if the work is already lost.
    """

    detail: str
    ended: list[Ended]
    may_refuse: bool = False
    lost: str = ""


Kind = Callable[[Trial, float], Fault]


def _killed(number: int) -> Kind:
    def fault(trial: Trial, longest: float) -> Fault:
        ended = trial.kill(number, longest)
        name = signal.Signals(number).name
        if ended is None:
            return Fault("", [])
        return Fault(f"{name} after {ended.seconds:.2f} s", [ended])

    return fault


def _flip(path: Path, rng: Random) -> str:
    data = bytearray(path.read_bytes())
    place = rng.randrange(len(data))
    data[place] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"a bit of byte {place} flipped"


def _spoil(path: Path, rng: Random) -> str:
    choice = rng.random()
    if choice < 0.7:
        return _flip(path, rng)
    if choice < 0.85:
        os.truncate(path, rng.randrange(path.stat().st_size))
        return "cut off"
    path.unlink()
    return "removed"


def _damaged(spoil: Callable[[Path, Random], str]) -> Kind:
    def fault(trial: Trial, longest: float) -> Fault:
        return _damage(trial, longest, spoil)

    return fault


def _damage(
    trial: Trial, longest: float, spoil: Callable[[Path, Random], str]
) -> Fault:
    if trial.rng.random() < 0.5:
        trial.kill(signal.SIGKILL, longest)
        state = "after a kill"
    else:
        trial.run()
        state = "after the end"
        if not trial.is_train:
            shutil.rmtree(trial.place / "out")
    files = trial.files("cache", "out")
    if not files:
        return Fault("", [])
    sizes = [path.stat().st_size for path in files]
    (path,) = trial.rng.choices(files, trial.rng.choice([sizes, None]))
    what = spoil(path, trial.rng)
    return Fault(f"{path.relative_to(trial.place)}: {what} {state}", [], True)


def _become_odd(path: Path, rng: Random) -> str:
    if path.suffix == ".json" and rng.random() < 0.8:
        deep = rng.random() < 0.5
        path.write_text("[" * 100_000 if deep else '{"a": ' + "9" * 5000 + "}")
        return "nested deeply" if deep else "an integer of 5,000 digits"
    path.unlink()
    os.mkfifo(path)
    return "a pipe"


def _output(trial: Trial, longest: float) -> Fault:
    trial.run()
    path = trial.rng.choice(trial.files("out"))
    detail = f"{path.relative_to(trial.place)}: {_flip(path, trial.rng)}"
    return Fault(detail, [], True)


def _full(trial: Trial, longest: float) -> Fault:
    limit = int(2 ** trial.rng.uniform(0, 18))

    def before() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    ended = trial.run(before)
    return Fault(f"files of at most {limit} bytes", [ended])


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def _obey_permissions() -> None:
    """Drops root's capability to override permissions (Linux)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = _Header(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(ctypes.byref(header), data)
    for bit in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        data[0] &= ~(1 << bit)  # Effective,
        data[1] &= ~(1 << bit)  # permitted.
    if libc.capset(ctypes.byref(header), data):
        raise OSError(ctypes.get_errno(), "capset")


def _set_writable(folder: Path, yes: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        bits = path.stat().st_mode
        path.chmod(bits | 0o200 if yes else bits & ~0o222)


def _readonly(trial: Trial, longest: float) -> Fault:
    state = "fresh"
    if trial.rng.random() < 0.5:
        trial.kill(signal.SIGKILL, longest)
        state = "after a kill"
    names = trial.rng.choice([("out",), ("cache",), ("out", "cache")])
    folders = [trial.place / name for name in names if (trial.place / name).exists()]
    for folder in folders:
        _set_writable(folder, False)
    ended = trial.run(_obey_permissions)
    for folder in folders:
        _set_writable(folder, True)
    return Fault(f"{' and '.join(names)} {state}", [ended])


def _two(trial: Trial, longest: float) -> Fault:
    first = trial.start()
    delay = trial.rng.uniform(0, longest / 2)
    if first.wait(delay) is not None:
        return Fault("", [])
    second = trial.start()
    ended = [first.end(), second.end()]
    lost = f"both ended: {ended[0].last_line}" if all(e.status for e in ended) else ""
    return Fault(f"the second {delay:.2f} s later", ended, lost=lost)


KINDS: dict[str, Kind] = {
    "kill": _killed(signal.SIGKILL),
    "term": _killed(signal.SIGTERM),
    "damage": _damaged(_spoil),
    "odd": _damaged(_become_odd),
    "output": _output,
    "full": _full,
    "readonly": _readonly,
    "two": _two,
}
