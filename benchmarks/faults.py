"""Injects random faults into programs and checks that no result is lost.

    python benchmarks/faults.py --faults 300 --seed 0 --work_dir runs/faults

The program injects faults into `t5x.train`, `jaxaug augment`, `paraphrase`, `levels`,
and `fewshot` with small data and models (see fault_programs.py). After each fault it
reruns the same command and compares the result with an undisturbed run. It prints a
table of fault by program, and exits with 1 if a result was lost.

WORK_DIR/faults.jsonl records every fault. The same command resumes after the last
recorded fault. Fault number i of a seed is always the same, except for the times of
kills.

The faults are:

- kill: SIGKILL at a random moment.
- term: SIGTERM at a random moment; train saves and ends with status 0.
- damage: A file of the cache, a checkpoint, or partial work is damaged. A bit is
  flipped, or the file is cut off or removed. The fault follows a kill, or the end of a
  run whose outputs are removed (except for train).
- output: A bit of a finished output is flipped.
- full: Files cannot grow beyond a random size (RLIMIT_FSIZE), as on a full disk.
- readonly: The folders of output, cache, or both are read-only. The program runs
  without root's capability to override permissions.
- odd: Like damage, but the file becomes a pipe without a writer, or JSON that is
  nested 100,000 deep or has an integer of 5,000 digits.
- two: The same command runs twice, the second time after a random delay.

A fault is survived if the next run gives the same result. For damage, odd, and output,
the next run may also refuse the damaged file in a message. It must then give the same
result without the file or folder that the message names.

A result is lost if it differs, if the next run fails, or if both of two runs fail. A
traceback counts as unclear, and as lost if it ends the last run. Programs are forked
from one process that has imported the libraries and has no threads, so runs start
quickly.
"""

import argparse
import collections
import contextlib
import ctypes
import dataclasses
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

# Before anything imports JAX or NumPy.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # Its threads do not survive a fork.

from fault_programs import PROGRAMS, compared, make_material, warm_up

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
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
            return Ended(1, f"hangs: no end in {LONGEST:.0f} s", LONGEST)
        return ended

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
            os.environ["JAXAUG_CACHE_DIR"] = str(self.place / "cache")
            os.environ["JAXAUG_DATA_DIR"] = str(self._material / "data")
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
        os.kill(child.pid, number)
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


def _damage(
    trial: Trial, longest: float, spoil: Callable[[Path, Random], str] = _spoil
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
    "damage": _damage,
    "odd": lambda trial, longest: _damage(trial, longest, _become_odd),
    "output": _output,
    "full": _full,
    "readonly": _readonly,
    "two": _two,
}


Undisturbed = tuple[dict[str, str], float]
"""The result of an undisturbed run, and its seconds."""


def undisturbed(program: str, base: Path, material: Path) -> Undisturbed:
    """Runs a program twice and checks that both results are equal.

    Raises:
        RuntimeError: the program fails, or its results differ.
    """
    results, seconds = [], 0.0
    for _ in range(2):
        trial = Trial(program, base / "straight", material, random.Random(0))
        ended = trial.run()
        results.append(trial.result())
        seconds = ended.seconds  # Of the second one, which compiles nothing.
        trial.close()
        if ended.status or not results[-1]:
            raise RuntimeError(f"{program}: {ended.status}\n{ended.text[-3000:]}")
    if results[0] != results[1]:
        raise RuntimeError(f"{program}: two undisturbed runs differ")
    return results[0] or {}, seconds


def inject(
    program: str, kind: str, left_alone: Undisturbed, trial: Trial
) -> dict[str, Any]:
    """Injects a fault, reruns the program, and returns a record of the outcome."""
    result, seconds = left_alone
    fault = KINDS[kind](trial, seconds)
    record = {"program": program, "kind": kind, "detail": fault.detail}
    if not fault.detail:
        return record | {"outcome": "too late", "what": ""}
    ended = [*fault.ended, trial.run()]
    outcome, what = "survived", ""
    while ended[-1].status and fault.may_refuse and len(ended) < 5:
        outcome, what = "refused", ended[-1].last_line
        if not ended[-1].is_clear or not remove_named(ended[-1], trial.place):
            break
        ended.append(trial.run())
    if ended[-1].status:
        outcome, what = "lost", ended[-1].last_line
    elif difference := compared(trial.result() or {}, result):
        outcome, what = "lost", difference
    if fault.lost:
        outcome, what = "lost", fault.lost
    unclear = [one.last_line for one in ended if not one.is_clear]
    if unclear:
        what = f"{what}; unclear: {unclear[0]}".lstrip("; ")
    return record | {
        "outcome": outcome,
        "unclear": len(unclear),
        "statuses": [one.status for one in ended],
        "what": what,
    }


def remove_named(refused: Ended, place: Path) -> bool:
    """Removes the first path that a message names; returns whether there was one."""
    inside = rf"{re.escape(str(place))}/\w+/[^\s:,;()'\"]*"
    for name in re.findall(inside, refused.text):
        path = Path(name.rstrip("."))
        if path.is_dir():
            shutil.rmtree(path)
            return True
        if path.exists():
            path.unlink()
            return True
    return False


def table(
    records: Sequence[dict[str, Any]], programs: Sequence[str], kinds: Sequence[str]
) -> str:
    """Returns a table of survived/injected by fault and program, and the failures."""
    cells: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for record in records:
        if record["outcome"] != "too late":
            for key in (record["program"], "all"):
                for row in (record["kind"], "all"):
                    cells[row, key][record["outcome"]] += 1
                    cells[row, key]["unclear"] += bool(record["unclear"])
    lines = [["fault", *programs, "all"]]
    for kind in [*kinds, "all"]:
        row = [kind]
        for program in [*programs, "all"]:
            counts = cells[kind, program]
            good = counts["survived"] + counts["refused"]
            text = f"{good}/{good + counts['lost']}"
            text += f" ({counts['refused']} refused)" if counts["refused"] else ""
            text += f" {counts['lost']} LOST" if counts["lost"] else ""
            text += f" {counts['unclear']} unclear" if counts["unclear"] else ""
            row.append(text)
        lines.append(row)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in lines
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=[*PROGRAMS])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--work_dir", help="kept if given (default: a temporary one)")
    return parser.parse_args()


def main() -> int:
    options = parse()
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(options.work_dir or scratch).resolve()
        base.mkdir(parents=True, exist_ok=True)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(base / "compiled")
        warm_up()
        return run(options, base)


def run(options: argparse.Namespace, base: Path) -> int:
    """Injects the faults that the log lacks, and prints the table."""
    log, material = base / "faults.jsonl", base / "material"
    if not (material / "encoder").exists():
        shutil.rmtree(material, ignore_errors=True)
        material.mkdir()
        if answer_of(lambda: make_material(material) or 1) is None:
            raise RuntimeError("the inputs cannot be made")
    records = [json.loads(line) for line in log.open()] if log.exists() else []
    key = f"{options.seed}|{' '.join(options.programs)}|{' '.join(options.kinds)}"
    records = [record for record in records if record["run"] == key]
    straight: dict[str, Undisturbed] = {}
    order = [(p, k) for k in options.kinds for p in options.programs]
    random.Random(options.seed).shuffle(order)
    injected = sum(record["outcome"] != "too late" for record in records)
    number = len(records)
    while injected < options.faults:
        # What came too late is made up for later in the same order.
        program, kind = order[number % len(order)]
        if program not in straight:
            straight[program] = undisturbed(program, base, material)
            print(f"{program}: {straight[program][1]:.1f} s alone", flush=True)
        rng = random.Random(f"{options.seed}|{number}|{program}|{kind}")
        trial = Trial(program, base / "trial", material, rng)
        try:
            record = inject(program, kind, straight[program], trial)
        finally:
            trial.close()
        record |= {"run": key, "number": number, "seed": options.seed}
        with log.open("a") as file:
            file.write(json.dumps(record) + "\n")
        records.append(record)
        number += 1
        injected += record["outcome"] != "too late"
        print(
            f"{injected}/{options.faults} {program} {kind} {record['detail']}: "
            f"{record['outcome']} {record['what']}",
            flush=True,
        )
    text = table(records, options.programs, options.kinds)
    print(f"\nseed {options.seed}: survived/injected\n{text}")
    return int(any(record["outcome"] == "lost" for record in records))


if __name__ == "__main__":
    sys.exit(main())
