"""Seconds from the start of a process to its first training step, and to an answer.

    python benchmarks/startup.py

Prints each as a ratio to starting Python with the libraries alone (`import jax, seqio`),
which is what any such program pays. The caches of records are built before.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time


def seconds(*arguments: str, until: bytes | None = None) -> float:
    """Wall time of a program, or until it prints a text (it is then ended)."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert process.stdout is not None
    found = None
    for line in process.stdout:
        if until and found is None and until in line:
            found = time.perf_counter() - start
    status = process.wait()
    if status or (until and found is None):
        raise SystemExit(f"{' '.join(arguments)}: exit {status}")
    return found if found is not None else time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gin_file", default="configs/d3st_aug.gin")
    gin_file = parser.parse_args().gin_file
    with tempfile.TemporaryDirectory() as folder:

        def train(name: str) -> float:
            return seconds(
                "-m",
                "t5x.train",
                f"--gin_file={gin_file}",
                "--gin.TRAIN_STEPS=1",
                "--gin.EVAL_PERIOD=1",
                "--gin.train.infer_eval_dataset_cfg=None",
                f'--gin.MODEL_DIR="{folder}/{name}"',
                until=b"step 1",
            )

        train("warm")
        baseline = seconds("-c", "import jax, seqio; jax.numpy.ones(1) + 1")
        rows = {
            "import jax, seqio": baseline,
            "t5x.train to the end of step 1": train("timed"),
            "jaxaug --help": seconds("-m", "jaxaug.cli", "--help"),
        }
    for name, wall in rows.items():
        print(f"{name:32} {wall:6.2f} s   {wall / baseline:5.2f}x")


if __name__ == "__main__":
    main()
