"""Latency and throughput of a trained tracker.

    python benchmarks/predict.py RUN [--data_dir DIR] [--dialogues 64] [--rounds 2]

The first part prints the seconds from the start of `jaxaug predict` to its answer to a
dialogue of one turn, as ratios to `import jax`. It is measured with an empty cache
folder, and with the compiled programs and the converted model of an earlier run. The
second part prints dialogues per second on the test set, as a ratio to one dialogue per
call of JAX. Its programs are compiled before the measurement. Both parts run with JAX
and with CTranslate2, and the last line counts the dialogues with equal states.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax

from jaxaug import Tracker
from jaxaug.data import folders, sgd
from jaxaug.track.base import BaseTracker
from jaxaug.track.engine import EngineTracker


def seconds(arguments: list[str], cache: str) -> float:
    """Returns the wall time of a program; `cache` is its cache folder."""
    given = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        capture_output=True,
        env={**given, "XDG_CACHE_HOME": cache, "JAXAUG_CACHE_DIR": f"{cache}/jaxaug"},
    )
    return time.perf_counter() - start


def best(measure: Callable[[], float], rounds: int) -> float:
    return min(measure() for _ in range(rounds))


def starts(
    run: str, schema: str, service: str, rounds: int, engine: str
) -> dict[str, float]:
    """Returns the seconds of each start with an engine."""
    with tempfile.TemporaryDirectory() as folder:
        talk = Path(folder, "talk.txt")
        call = ["-m", "jaxaug.cli", "predict", "--run", run, "--schema", schema]
        call += ["--services", service, "--in", str(talk), "--engine", engine]
        number = 0

        def answer(cache: str) -> float:
            nonlocal number
            number += 1  # Earlier answers would be reused.
            talk.write_text(f"USER: i need {number} of them\n")
            return seconds(call, cache)

        def cold() -> float:
            with tempfile.TemporaryDirectory() as empty:
                return answer(empty)

        answer(folder)
        return {
            f"{engine}: first answer, cold": best(cold, rounds),
            f"{engine}: first answer, warm": best(lambda: answer(folder), rounds),
        }


def rates(
    tracker: BaseTracker, dialogues: list, rounds: int, engine: str
) -> dict[str, float]:
    """Returns dialogues per second: with one dialogue per call, and with one call."""

    def alone() -> float:
        start = time.perf_counter()
        for dialogue in dialogues:
            tracker.predict_all([dialogue])
        return time.perf_counter() - start

    def together() -> float:
        start = time.perf_counter()
        tracker.predict_all(dialogues)
        return time.perf_counter() - start

    found = {}
    for name, measure in (("one a call", alone), ("all in one call", together)):
        measure()
        found[f"{engine}: {name}"] = len(dialogues) / best(measure, rounds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--data_dir", help="default: $JAXAUG_DATA_DIR, else MiniSGD")
    parser.add_argument("--dialogues", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    folder = folders.resolve_data_dir(options.data_dir)
    schema = folders.schema_path(folder, "test")
    trackers = {
        "jax": Tracker.load(options.run, schema),
        "ctranslate2": EngineTracker.load(options.run, schema),
        "ctranslate2 int8": EngineTracker.load(options.run, schema, precision="int8"),
    }
    dialogues = list(sgd.read_dialogues(folder, "test"))[: options.dialogues]
    turns = sum(turn.speaker == "USER" for one in dialogues for turn in one.turns)
    service = trackers["jax"].schema.services[0].name
    times = {"import jax": best(lambda: seconds(["-c", "import jax"], "/nowhere"), 2)}
    for engine in ("jax", "ctranslate2"):
        given = options.run, str(schema), service, options.rounds, engine
        times |= starts(*given)
    speeds: dict[str, float] = {}
    answers = {}
    for engine, tracker in trackers.items():
        speeds |= rates(tracker, dialogues, options.rounds, engine)
        answers[engine] = tracker.predict_all(dialogues)
    print(f"{jax.default_backend()}, {os.cpu_count()} cores")
    for name, found in times.items():
        ratio = found / times["import jax"]
        print(f"{name:32} {found:7.2f} s {ratio:6.2f}x import jax")
    for name, speed in speeds.items():
        ratio = speed / speeds["jax: one a call"]
        print(f"{name:32} {speed:7.2f} dialogues/s {ratio:6.2f}x")
    print(f"{len(dialogues)} dialogues, {turns} turns of users; equal to JAX:")
    for engine, states in answers.items():
        equal = sum(a == b for a, b in zip(states, answers["jax"], strict=True))
        print(f"{engine:32} {equal} of {len(dialogues)}")


if __name__ == "__main__":
    main()
