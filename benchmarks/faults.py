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
import dataclasses
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Before anything imports JAX or NumPy.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # Its threads do not survive a fork.

from fault_kinds import KINDS, Ended, Trial, answer_of
from fault_programs import PROGRAMS, compared, make_material, warm_up


@dataclasses.dataclass
class Undisturbed:
    """An undisturbed run: its result and its duration."""

    result: dict[str, str]
    seconds: float


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
    return Undisturbed(results[0], seconds)


def inject(
    program: str, kind: str, left_alone: Undisturbed, trial: Trial
) -> dict[str, Any]:
    """Injects a fault, reruns the program, and returns a record of the outcome."""
    fault = KINDS[kind](trial, left_alone.seconds)
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
    elif difference := compared(trial.result() or {}, left_alone.result):
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
            print(f"{program}: {straight[program].seconds:.1f} s alone", flush=True)
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
