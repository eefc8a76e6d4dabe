"""Growth of time and memory with 1, 4, and 16 times the data.

    python benchmarks/growth.py [--factors 1 4 16] [--dialogues 150] [--repeats 3]

The measured parts are: formatting MiniSGD into a record cache, `evaluate sgd` of
correct predictions, the shards of `jaxaug augment` with a scheme that appends words,
and the ranking of candidates in trees. Each size runs in a separate process on one
core. It reports its CPU time (the fastest of the repeats) and its peak memory. The
output is the time per unit and the peak memory, as ratios to the first factor.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PARTS = ("format", "evaluate", "augment", "tree")
_PER_TREE = 40  # Candidates per description.
_TREES = 250  # Number of trees at factor 1.
_TEXTS = 400  # Number of texts of the augment part at factor 1.


def data_of(folder: Path, dialogues: int, factor: int) -> Path:
    """Returns a MiniSGD with a number of test dialogues, in files of equal size."""
    from jaxaug_papers import minisgd

    root = folder / f"data{factor}"
    if not root.exists():
        minisgd.write(
            root,
            train_dialogues=5,
            dev_dialogues=2,
            test_dialogues=dialogues * factor,
        )
    return root


def format_part(folder: Path, dialogues: int, factor: int) -> Callable[[], int]:
    from etils import epath

    from jaxaug.feed import cache
    from jaxaug.feed.parallel import Corpus
    from jaxaug.formats.d3st import D3STOptions

    options = D3STOptions(order="shuffled")
    recipe = cache.Recipe(Corpus(str(folder / f"data{factor}"), "test"), options)

    def run() -> int:
        with tempfile.TemporaryDirectory(dir=folder) as root:
            return cache.build(recipe, workers=1, root=epath.Path(root)).examples

    return run


def evaluate_part(folder: Path, dialogues: int, factor: int) -> Callable[[], int]:
    from jaxaug.metrics.evaluate import evaluate_folder

    data = folder / f"data{factor}"

    def run() -> int:
        evaluate_folder(data, "test", data / "test")
        return dialogues * factor

    return run


def augment_part(folder: Path, dialogues: int, factor: int) -> Callable[[], int]:
    from jaxaug.core.shards import Shards, Stage

    texts = [f"text number {n} of a schema" for n in range(_TEXTS * factor)]

    def compute(block):
        return [[f"{text} {end}" for end in range(50)] for text in block]

    def run() -> int:
        with tempfile.TemporaryDirectory(dir=folder) as root:
            for name in ("candidates", "judged"):
                Shards(root).run(Stage(name, name, compute), texts)
        return len(texts)

    return run


def tree_part(folder: Path, dialogues: int, factor: int) -> Callable[[], int]:
    import random

    from jaxaug.augment import config as configs
    from jaxaug.augment import tree

    fields = {
        "scheme": "eda",
        "select": "tree",
        "metrics": {"string_similarity": {}, "jaccard": {}},
        "tree": {
            "levels": ("jaccard", "string_similarity"),
            "decisions": ("max", "min"),
            "diversity": "jaccard",
        },
    }
    spec = configs.of(fields, "growth").spec
    draw = random.Random(0)
    items = [
        [
            tree.Item(
                f"candidate {n}",
                1,
                {"jaccard": draw.random(), "string_similarity": draw.random()},
            )
            for n in range(_PER_TREE)
        ]
        for _ in range(_TREES)
    ]

    def run() -> int:
        for number in range(_TREES * factor):
            tree.rank(items[number % _TREES], spec, 5, number)
        return _TREES * factor

    return run


def measure(part: str, folder: Path, dialogues: int, factor: int, repeats: int) -> dict:
    """Returns seconds per unit, and peak memory in MiB above that after imports."""
    run = globals()[f"{part}_part"](folder, dialogues, factor)
    best = float("inf")
    units = 1
    for _ in range(repeats):
        start = time.process_time()
        units = run()
        best = min(best, time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"units": units, "seconds": best, "peak": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--dialogues", type=int, default=150, help="at factor 1")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--measure", nargs=3, metavar=("PART", "FACTOR", "DIR"))
    options = parser.parse_args()
    if options.measure:
        part, factor, place = options.measure
        found = measure(
            part, Path(place), options.dialogues, int(factor), options.repeats
        )
        print(json.dumps(found))
        return
    print("part       factor    units   us/unit   x per unit   peak MiB   x peak")
    with tempfile.TemporaryDirectory() as place:
        for factor in options.factors:
            data_of(Path(place), options.dialogues, factor)
        environment = os.environ | {"JAXAUG_CACHE_DIR": f"{place}/cache"}
        for part in options.parts:
            first = None
            for factor in options.factors:
                command = [sys.executable, __file__, "--measure", part, str(factor)]
                command += [place, "--dialogues", str(options.dialogues)]
                command += ["--repeats", str(options.repeats)]
                done = subprocess.run(
                    command, check=True, env=environment, stdout=subprocess.PIPE
                )
                found = json.loads(done.stdout)
                rate = found["seconds"] / found["units"]
                first = first or (rate, found["peak"])
                print(
                    f"{part:10} {factor:6} {found['units']:8} {1e6 * rate:9.1f} "
                    f"{rate / first[0]:12.2f} {found['peak']:10.0f} "
                    f"{found['peak'] / first[1]:8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
