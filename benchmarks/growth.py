"""Growth of time and memory of `evaluate sgd` with the amount of data, as exponents.

    python benchmarks/growth.py [--data_dir DIR] [--factors 1 2 4 8]

The data are copies of the test split of a data folder, with new dialogue ids. Their
annotation in one file is scored as predictions.

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
from pathlib import Path

import numpy as np

from jaxaug.data.folders import resolve_data_dir

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


def evaluate(folder: Path, factor: int) -> int:
    """Scores a copy; returns the number of frames."""
    from jaxaug import cli

    data, out = folder / f"data{factor}", str(folder / "report.json")
    words = ["evaluate", "sgd", "--data_dir", str(data), "--split", "test"]
    words += ["--predictions", str(data / "predictions"), "--output", out]
    with contextlib.redirect_stdout(io.StringIO()):
        assert not cli.main(words)
    return json.loads(Path(out).read_text())["about"]["counts"]["frames"]


def measure(folder: Path, factor: int, repeats: int) -> dict:
    """Returns the number of frames, CPU seconds, and peak memory in MiB."""
    times, units = [], 0
    for _ in range(repeats):
        start = time.process_time()
        units = evaluate(folder, factor)
        times.append(time.process_time() - start)
    # `ru_maxrss` would include the memory of the parent process.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return {"units": units, "seconds": min(times), "peak": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", help="default: $JAXAUG_DATA_DIR, else MiniSGD")
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        factor, place = options.measure
        print(json.dumps(measure(Path(place), int(factor), options.repeats)))
        return
    print("factor   frames   CPU s  us/frame   peak MiB")
    rows = []
    with tempfile.TemporaryDirectory() as place:
        environment = os.environ | {"JAXAUG_CACHE_DIR": f"{place}/cache"}
        for factor in options.factors:
            copies(Path(resolve_data_dir(options.data_dir)), Path(place), factor)
            command = [sys.executable, __file__, "--measure", str(factor), place]
            command += ["--repeats", str(options.repeats)]
            done = subprocess.run(
                command, check=True, env=environment, stdout=subprocess.PIPE
            )
            rows.append(found := json.loads(done.stdout))
            rate = 1e6 * found["seconds"] / found["units"]
            print(
                f"{factor:6} {found['units']:8} {found['seconds']:7.2f} {rate:9.1f} "
                f"{found['peak']:10.0f}",
                flush=True,
            )
    of_time, of_peak = (
        np.polyfit(np.log(options.factors), np.log([row[name] for row in rows]), 1)[0]
        for name in ("seconds", "peak")
    )
    print(f"exponents: time {of_time:.2f}, memory {of_peak:.2f}")


if __name__ == "__main__":
    main()
