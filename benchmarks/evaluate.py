"""Compares the time of `jaxaug evaluate sgd` with a pure-Python scorer in one run.

    python benchmarks/evaluate.py [--data_dir DIR] [--split test] [--repeats 3]

Both read the same files (references and damaged predictions) and give the same report,
which is checked. The other scorer is the oracle of the tests
(`tests/metrics/oracle.py`: json, loops, and rapidfuzz). A second pair of times excludes
reading of files.
"""

import argparse
import importlib.util
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxaug.data.folders import resolve_data_dir
from jaxaug.metrics import benchmark, dst
from jaxaug.metrics.evaluate import evaluate_folder
from jaxaug.metrics.predictions import read_predictions

ROOT = Path(__file__).resolve().parent.parent


def load_oracle() -> Any:
    """Returns the oracle, the second scorer, from the folder of the tests."""
    path = ROOT / "tests" / "metrics" / "oracle.py"
    spec = importlib.util.spec_from_file_location("oracle", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def damage(dialogues: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Returns a copy in which a fifth of the values lacks its last character."""
    rng = random.Random(seed)
    result = json.loads(json.dumps(dialogues))
    for dialogue in result.values():
        for turn in dialogue["turns"]:
            for frame in turn["frames"]:
                frame.pop("slots", None)
                values = frame.get("state", {}).get("slot_values", {})
                for slot, options in values.items():
                    if rng.random() < 0.2:
                        values[slot] = [options[0][:-1]]
    return result


def fastest(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Returns (seconds of the fastest call, result)."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    """Measures and prints the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", help="default: $JAXAUG_DATA_DIR, else MiniSGD")
    parser.add_argument("--split", default="test")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    data_dir = resolve_data_dir(options.data_dir)
    oracle = load_oracle()
    folder = Path(data_dir) / options.split
    services = oracle.read_services(folder / "schema.json")
    train = oracle.read_services(Path(data_dir) / "train" / "schema.json")
    seen = services.keys() & train.keys()
    with tempfile.TemporaryDirectory() as temporary:
        predictions = Path(temporary)
        for path in sorted(folder.glob("dialogues_*.json")):
            dialogues = {d["dialogue_id"]: d for d in json.loads(path.read_text())}
            text = json.dumps(list(damage(dialogues).values()))
            (predictions / path.name).write_text(text)

        def ours() -> Any:
            return evaluate_folder(data_dir, options.split, predictions)[0]

        def theirs() -> Any:
            references = oracle.read_dialogues(folder)
            guesses = oracle.read_dialogues(predictions)
            return oracle.evaluate(references, guesses, services, seen)

        whole, report = fastest(ours, options.repeats)
        whole_loop, expected = fastest(theirs, options.repeats)
        loaded = benchmark.load(data_dir, options.split)
        read = read_predictions(predictions, loaded)
        references = oracle.read_dialogues(folder)
        guesses = oracle.read_dialogues(predictions)

        def score() -> Any:
            scores = dst.frame_scores(read.references, read.states, loaded.schema)
            return dst.aggregate(scores, loaded.seen_services)

        scoring, _ = fastest(score, options.repeats)
        scoring_loop, _ = fastest(
            lambda: oracle.evaluate(references, guesses, services, seen),
            options.repeats,
        )
    for group, metrics in expected.items():
        for name, value in metrics.items():
            assert abs(report[group][name] - value) < 1e-9, (group, name)
    print(f"{data_dir} {options.split}: {len(read.states)} frames, equal reports")
    for what, a, b in (
        ("files to report", whole, whole_loop),
        ("scoring alone", scoring, scoring_loop),
    ):
        print(f"{what}: {a:.2f} s, pure Python {b:.2f} s: {b / a:.1f} times as fast")


if __name__ == "__main__":
    main()
