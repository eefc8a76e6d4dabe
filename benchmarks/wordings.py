"""Measures benefit and cost of further wordings, constrained answers, and value checks.

    python benchmarks/wordings.py RUN [RUN ...] [--data_dir DIR] [--dialogues N] \\
        [--json FILE]

The program prints a Markdown table with means over the runs: JGA on the original
wording and on v1-5, SS, and predictions per second. A prediction is a frame. Inputs
that several settings share are decoded once for the scores. Speed is measured for each
setting separately on 32 dialogues.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxaug import Tracker
from jaxaug.data import folders, sgd
from jaxaug.metrics import benchmark, dst, sensitivity
from jaxaug.track.options import Robust

SETTINGS = {
    "one wording": Robust(),
    **{f"vote, N={n}": Robust(wordings=n) for n in (2, 4, 8)},
    "vote, N=4, early": Robust(wordings=4, early=True),
    "vote, N=8, early": Robust(wordings=8, early=True),
    **{
        f"likelihood, N={n}": Robust(wordings=n, combine="likelihood")
        for n in (2, 4, 8)
    },
    "familiar words": Robust(familiar="auto"),
    "constrained": Robust(constrained=True),
    "unsaid dropped": Robust(unsaid="drop"),
    "familiar words, constrained, unsaid dropped": Robust(
        familiar="auto", constrained=True, unsaid="drop"
    ),
}
TIMED = 32  # Number of dialogues for speed.


def scores(
    tracker: Tracker, data_dir: Any, robust: Robust, known: dict, count: int | None
) -> dict:
    """Returns the metrics of a setting on `count` dialogues; `known` caches outputs."""
    frames = {}
    for name in (None, *sensitivity.VARIANTS):
        reference = benchmark.load(data_dir, "test", name)
        about = tracker.about(reference.schema)
        about.robust = robust

        def write(
            inputs: Sequence[list[int]], about: Tracker = about
        ) -> list[list[int]]:
            place = about.restrictions and about.restrictions[0]
            outputs = known.setdefault(str(place), {})
            new = [item for item in inputs if tuple(item) not in outputs]
            outputs.update(zip(map(tuple, new), about.write_tokens(new), strict=True))
            return [outputs[tuple(item)] for item in inputs]

        dialogues = list(sgd.read_dialogues(data_dir, "test", name))[:count]
        states = {
            (one.dialogue.dialogue_id, frame.turn, frame.service): frame.state
            for one in about.predict_all(dialogues, write)
            for frame in one.frames
        }
        references = [reference.reference(key) for key in states]
        found = dst.frame_scores(references, [*states.values()], reference.schema)
        wording = name or sensitivity.ORIGINAL
        frames[wording] = benchmark.group_scores(reference, states, found)
    figures = sensitivity.robustness(frames)
    # Frames of services without slots have no score.
    single = {n: float(np.nanmean([*one[""].values()])) for n, one in frames.items()}
    main = {"orig": "jga_orig", "v1-5": "jga_v1_5", "SS": "ss_jga"}
    return {short: figures[name] for short, name in main.items()} | single


def rate(tracker: Tracker, dialogues: list, robust: Robust, rounds: int) -> float:
    """Returns frames per second, without compilation and without making wordings."""
    about = tracker.about(tracker.schema)
    about.robust = robust
    seconds = []
    for number in range(rounds + 1):
        start = time.perf_counter()
        found = about.predict_all(dialogues)
        if number:
            seconds.append(time.perf_counter() - start)
    return sum(len(one.frames) for one in found) / min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--data_dir", help="default: $JAXAUG_DATA_DIR, else MiniSGD")
    parser.add_argument("--json", help="file to write the figures of each run to")
    parser.add_argument("--rounds", type=int, default=3, help="of the speed; 0: none")
    parser.add_argument("--dialogues", type=int, help="of the test set (default: all)")
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    options = parser.parse_args()
    data_dir = folders.resolve_data_dir(options.data_dir)
    schema = sgd.read_schema_of(data_dir, "test", None)
    dialogues = list(sgd.read_dialogues(data_dir, "test"))[:TIMED]
    table: dict[str, dict[str, dict]] = {}
    for run in options.runs:
        tracker = Tracker.load(run, schema)
        known: dict = {}
        for name in options.only:
            found = scores(tracker, data_dir, SETTINGS[name], known, options.dialogues)
            if options.rounds:
                robust = SETTINGS[name]
                found["rate"] = rate(tracker, dialogues, robust, options.rounds)
            table.setdefault(name, {})[run] = found
            print(name, run, found, flush=True)
            if options.json:
                Path(options.json).write_text(json.dumps(table, indent=1) + "\n")
    print(
        "| setting | JGA orig | JGA v1-5 | SS | predictions/s |\n|---|---|---|---|---|"
    )
    for name, runs in table.items():
        means = {
            key: statistics.fmean(found.get(key, 0) for found in runs.values())
            for key in ("orig", "v1-5", "SS", "rate")
        }
        cells = [f"{100 * means[key]:.1f}" for key in ("orig", "v1-5", "SS")]
        print(f"| {name} | {' | '.join(cells)} | {means['rate']:.0f} |")


if __name__ == "__main__":
    main()
