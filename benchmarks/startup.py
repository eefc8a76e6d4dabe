"""Startup time of training (to the first step) and of prediction (to an answer).

    python benchmarks/startup.py [--gin_file FILE.gin] [--rounds 3] [--only warm]

The program prints ratios to the start of Python with the libraries (`import jax,
seqio`), which is measured in the same run, alternating with the others. It measures
wall time, and the CPU time of all threads, which other work on the machine disturbs
less. For training both end with step 1. `--only` is a regular expression for the names
of the other rows.

`before` turns the optimizations off by flags and bindings: the allocator, XLA's flags,
the cache of compiled programs, and token caches. `cold` starts without compiled
programs, `warm` with the compiled programs of an earlier run. Record caches are built
in advance.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

OFF = (
    "--nokeep_memory",
    "--ynn_fusions",
    "--compilation_cache=none",
    "--gin.train.get_dataset_fn=@utils.get_dataset",
)


def seconds(*arguments: str, cache: str, until: bytes | None = None) -> list[float]:
    """Returns [wall, CPU] seconds of a program, up to a given output text if any.

    `cache` is the folder of compiled programs. All runs share record caches next to it.
    """
    given = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    start, before = time.perf_counter(), _children()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **given,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "XDG_CACHE_HOME": cache,
            "JAXAUG_CACHE_DIR": str(Path(cache).parent / "records"),
        },
    )
    assert process.stdout is not None
    found = None
    for line in process.stdout:
        if until and found is None and until in line:
            found = [time.perf_counter() - start, _used_by(process.pid)]
    status = process.wait()
    if status or (until and found is None):
        raise SystemExit(f"{' '.join(arguments)}: exit {status}")
    return found or [time.perf_counter() - start, _children() - before]


def _used_by(process: int) -> float:
    """Returns the CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measures(gin_file: str, folder: Path) -> dict[str, Callable[[], list[float]]]:
    """Returns the measurements in the order of a round."""
    cache, empty = str(folder / "cache"), str(folder / "empty")

    def train(*extra: str, cache: str = cache) -> list[float]:
        shutil.rmtree(folder / "run", ignore_errors=True)
        return seconds(
            "-m",
            "t5x.train",
            f"--gin_file={gin_file}",
            "--gin.TRAIN_STEPS=1",
            "--gin.EVAL_PERIOD=1",
            "--gin.train.infer_eval_dataset_cfg=None",
            f'--gin.MODEL_DIR="{folder}/run"',
            *extra,
            cache=cache,
            until=b"step 1",
        )

    def cold() -> list[float]:
        shutil.rmtree(empty, ignore_errors=True)
        return train(cache=empty)

    train()  # Records, tokens, compiled programs.
    return {
        "import jax, seqio": lambda: seconds(
            "-c", "import jax, seqio; jax.numpy.ones(1) + 1", cache=cache
        ),
        "t5x.train to step 1, before": lambda: train(*OFF),
        "t5x.train to step 1, cold": cold,
        "t5x.train to step 1, warm": train,
        "jaxaug --help": lambda: seconds("-m", "jaxaug.cli", "--help", cache=cache),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gin_file", default="configs/d3st.gin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measures(options.gin_file, Path(folder))
        best: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for name, measure in rows.items():
                if not (re.search(options.only, name) or name.startswith("import")):
                    continue
                times = measure()
                known = best.get(name, times)
                best[name] = [min(a, b) for a, b in zip(known, times, strict=True)]
    base = best["import jax, seqio"]
    print(f"{'':30} {'wall':>9} {'ratio':>7} {'CPU':>9} {'ratio':>7}")
    for name, (wall, cpu) in best.items():
        print(
            f"{name:30} {wall:7.2f} s {wall / base[0]:6.2f}x {cpu:7.2f} s "
            f"{cpu / base[1]:6.2f}x"
        )


if __name__ == "__main__":
    main()
