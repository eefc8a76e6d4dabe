"""Growth of time and memory with the amount of data, as exponents.

    python benchmarks/growth.py [--data_dir DIR] [--factors 1 2 4 8] [--parts evaluate]

The data are copies of the test split of a data folder, with new dialogue ids. The parts
are: formatting it into a record cache, tokenizing this cache, and `evaluate sgd` of its
annotation in one file of predictions.

Each size runs in a separate process on one core. It reports CPU time (the fastest of
the repeats) and peak memory, both with imports. An exponent is the slope of a line
through the logarithms, by least squares: 0 is flat, 1 is proportional.
"""

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from jaxaug.data.folders import resolve_data_dir

PARTS = ("format", "tokens", "evaluate")
_ID = '"dialogue_id": "'


def copies(source: Path, folder: Path, factor: int) -> None:
    """Writes a data folder whose test split is repeated, and its predictions."""
    root = folder / f"data{factor}"
    (root / "train").mkdir(parents=True)
    (root / "test").mkdir()
    (root / "predictions").mkdir()
    for split in ("train", "test"):
        shutil.copy(source / split / "schema.json", root / split)
    lines = []
    for path in sorted((source / "test").glob("dialogues_*.json")):
        text = path.read_text()
        lines += [json.dumps(_prediction(one)) for one in json.loads(text)]
        for copy in range(factor):
            name = f"dialogues_{copy:03}{path.name.removeprefix('dialogues_')}"
            renamed = text.replace(_ID, f"{_ID}{copy}_")
            (root / "test" / name).write_text(renamed)
    repeated = (
        line.replace(_ID, f"{_ID}{copy}_", 1)
        for copy in range(factor)
        for line in lines
    )
    text = "[\n" + ",\n".join(repeated) + "\n]\n"
    (root / "predictions" / "dialogues.json").write_text(text)


def _prediction(dialogue: dict) -> dict:
    turns = [
        {
            "speaker": turn["speaker"],
            "utterance": turn["utterance"],
            "frames": [
                {"service": frame["service"], "state": frame["state"]}
                for frame in turn["frames"]
                if "state" in frame
            ],
        }
        for turn in dialogue["turns"]
    ]
    return dialogue | {"turns": turns}


def _records(folder: Path, factor: int, root: Path):
    from etils import epath

    from jaxaug.feed import cache
    from jaxaug.feed.parallel import Corpus
    from jaxaug.formats.d3st import D3STOptions

    corpus = Corpus(str(folder / f"data{factor}"), "test")
    recipe = cache.Recipe(corpus, D3STOptions(order="shuffled"))
    return cache.build(recipe, workers=1, root=epath.Path(root))


def format_part(folder: Path, factor: int) -> Callable[[], int]:
    def run() -> int:
        with tempfile.TemporaryDirectory(dir=folder) as root:
            return _records(folder, factor, Path(root)).examples

    return run


def tokens_part(folder: Path, factor: int) -> Callable[[], int]:
    from jaxaug.feed import tokens, vocabulary

    records = _records(folder, factor, folder / "records")
    model = vocabulary.model_file()

    def run() -> int:
        with tempfile.TemporaryDirectory(dir=folder) as root:
            return len(tokens.build(records, model, root))

    return run


def evaluate_part(folder: Path, factor: int) -> Callable[[], int]:
    from jaxaug import cli

    data = folder / f"data{factor}"

    def run() -> int:
        out = str(folder / "report.json")
        words = ["evaluate", "sgd", "--data_dir", str(data), "--split", "test"]
        words += ["--predictions", str(data / "predictions"), "--output", out]
        with contextlib.redirect_stdout(io.StringIO()):
            assert not cli.main(words)
        return json.loads(Path(out).read_text())["about"]["counts"]["frames"]

    return run


def measure(part: str, folder: Path, factor: int, repeats: int) -> dict:
    """Returns the number of units, CPU seconds, and peak memory in MiB."""
    run = globals()[f"{part}_part"](folder, factor)
    times, units = [], 0
    for _ in range(repeats):
        start = time.process_time()
        units = run()
        times.append(time.process_time() - start)
    # `ru_maxrss` would include the memory of the parent process.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return {"units": units, "seconds": min(times), "peak": peak}


def exponent(factors: list[int], values: list[float]) -> float:
    """Returns the slope of a line through the logarithms."""
    return float(np.polyfit(np.log(factors), np.log(values), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", help="default: $JAXAUG_DATA_DIR, else MiniSGD")
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        part, factor, place = options.measure
        print(json.dumps(measure(part, Path(place), int(factor), options.repeats)))
        return
    print("part       factor    units   CPU s   us/unit   peak MiB")
    with tempfile.TemporaryDirectory() as place:
        for factor in options.factors:
            copies(Path(resolve_data_dir(options.data_dir)), Path(place), factor)
        environment = os.environ | {"JAXAUG_CACHE_DIR": f"{place}/cache"}
        for part in options.parts:
            rows = []
            for factor in options.factors:
                command = [sys.executable, __file__, "--measure", part, str(factor)]
                command += [place, "--repeats", str(options.repeats)]
                done = subprocess.run(
                    command, check=True, env=environment, stdout=subprocess.PIPE
                )
                found = json.loads(done.stdout)
                rows.append(found)
                rate = 1e6 * found["seconds"] / found["units"]
                print(
                    f"{part:10} {factor:6} {found['units']:8} {found['seconds']:7.2f} "
                    f"{rate:9.1f} {found['peak']:10.0f}",
                    flush=True,
                )
            of_time, of_peak = (
                exponent(options.factors, [row[name] for row in rows])
                for name in ("seconds", "peak")
            )
            print(f"{part:10} exponents: time {of_time:.2f}, memory {of_peak:.2f}")


if __name__ == "__main__":
    main()
