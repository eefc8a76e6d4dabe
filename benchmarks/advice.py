"""Measures what advised wordings are worth on dialogues that were not used to choose.

    python benchmarks/advice.py RUN [--data_dir DIR] [--dialogues N] [--variants v1 ...]

Of the first N test dialogues every other one is given to `jaxaug advise` without its
annotation. The others are scored under the wording of the variant as it is, with
`--familiar`, and as advised, with each order of the options. Prints a Markdown table.
"""

import argparse
import dataclasses
import statistics

import numpy as np

from jaxaug import Tracker
from jaxaug.augment import rewording
from jaxaug.core import compiled
from jaxaug.data import folders
from jaxaug.metrics import benchmark, dst
from jaxaug.metrics.sensitivity import VARIANTS
from jaxaug.track import advise, rewordings, trained
from jaxaug.track import run as predicting
from jaxaug.track.advise import AdviseOptions, Option


def _shared(option: Option) -> float:
    return -(option.agreement or 0.0)


def _likely(option: Option) -> float:
    return advise.rank(option)[1]


RANKS = {
    "agreement, familiarity, likelihood": lambda o: (_shared(o), o.unknown, _likely(o)),
    "familiarity, agreement, likelihood": lambda o: (o.unknown, _shared(o), _likely(o)),
    "likelihood": lambda o: (_likely(o),),
    "familiarity": lambda o: (o.unknown,),
    "familiarity, likelihood (`advise`)": advise.rank,
}


def measure(run: str, data_dir: str, variant: str | None, count: int) -> dict:
    """JGA under each wording, per cent, on the second half of the dialogues."""
    reference = benchmark.load(data_dir, "test", variant)
    schema = reference.schema
    every = list(reference.dialogues.values())[:count]
    tracker, known = Tracker.load(run, schema), trained.frequent_words(run, data_dir)
    found, _ = advise.advise(
        tracker, every[::2], known, AdviseOptions(), predicting.resumed
    )
    schemas = {"as it is": schema, "`--familiar`": rewording.familiar(schema, known)}
    for name, key in RANKS.items():
        ranked = [
            dataclasses.replace(
                one,
                options=tuple(
                    sorted(one.options, key=lambda o: (key(o), o != one.given))
                ),
            )
            for one in found
        ]
        schemas[name] = advise.advised(schema, ranked)
    scores = {}
    for name, worded in schemas.items():
        about = tracker.about(worded)
        predicted = rewordings.states(about, every[1::2], predicting.resumed)
        references = [
            reference.reference((every[1::2][number].dialogue_id, turn, service))
            for number, turn, service in predicted
        ]
        goals = dst.frame_scores(references, [*predicted.values()], schema)
        scores[name] = 100 * float(np.nanmean(goals.values[dst.JGA]))
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--data_dir", help="default: $JAXAUG_DATA_DIR, else MiniSGD")
    parser.add_argument("--dialogues", type=int, default=200, help="of the test set")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    options = parser.parse_args()
    compiled.keep_programs()
    data_dir = str(folders.resolve_data_dir(options.data_dir))
    table: dict[str, dict] = {}
    for variant in options.variants:
        table[variant] = measure(options.run, data_dir, variant, options.dialogues)
        print(variant, {k: round(v, 1) for k, v in table[variant].items()}, flush=True)
    print(f"| wording | {' | '.join(table)} | mean |")
    for name in next(iter(table.values())):
        values = [one[name] for one in table.values()]
        cells = " | ".join(f"{v:.1f}" for v in (*values, statistics.fmean(values)))
        print(f"| {name} | {cells} |")


if __name__ == "__main__":
    main()
