"""Fits the judge of `jaxaug augment judge`, and says what to expect of it.

    python benchmarks/fit_judge.py --labelled judged.tsv [--adapter DIR] [--level NAME]

`judged.tsv` has no header: label (faithful, trivial, changed, broken), kind, original and
candidate, with tabs between; the file of this project is not in the repository. Beside it
stand the pairs of `papers/jaxaug_papers/tree/readings/judge.tsv` on which both readers agree. Writes
`jaxaug/augment/judge/coefficients.json`, the same bytes from the same files and models, and
prints a table for docs/augment.md, a row for each of the two files: nested
cross-validation over originals, so that no judge is asked about an original that it was
fitted, or had its threshold chosen, on.
Models: `jaxaug models fetch minilm smollm2`.
"""

import argparse
import csv
import itertools
import json
import random
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jaxaug.augment import descriptions
from jaxaug.augment.judge import fitting, verdicts
from jaxaug.augment.judge.features import Pair
from jaxaug.augment.judge.fitting import Labelled, Linear
from jaxaug.augment.judge.verdicts import Sight
from jaxaug.core import cache_folder
from jaxaug.data import folders, minisgd
from jaxaug.data.schema import read_schema

GOOD, TRIVIAL, BAD = "faithful", "trivial", ("changed", "broken")
# Of the folds: which originals are together is a matter of chance.
SEEDS = range(10)
# Pairs of MiniSGD that are judged at most.
MOST = 2000
ROOT = Path(__file__).resolve().parents[1]
READINGS = ROOT / "papers/jaxaug_papers/tree/readings/judge.tsv"
HEAD = "| judge | pairs | precision | faithful kept | changed or broken dropped |"
TITLES = {
    verdicts.WORDS: "rules",
    verdicts.SIMILARITY: "rules + MiniLM",
    verdicts.MODEL: "rules + MiniLM + SmolLM2",
    verdicts.ADAPTER: "rules + MiniLM + SmolLM2 with the adapter",
}


def read(path: Path) -> tuple[list[str], list[Pair]]:
    """Labels and pairs."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    return [row[0] for row in rows], [Pair(*row[1:]) for row in rows]


def read_readings(path: Path) -> tuple[list[str], list[Pair]]:
    """Labels and pairs of a file of two readers, where they agree."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    kept = [row for row in rows if (row["first"] == GOOD) is (row["second"] == GOOD)]
    pairs = [Pair(row["kind"], row["original"], row["candidate"]) for row in kept]
    return [row["first"] for row in kept], pairs


def labelled(labels: list[str], pairs: list[Pair], found: np.ndarray) -> Labelled:
    """Pairs that are good or bad; to judges, trivial ones are neither."""
    rules = np.array([bool(verdicts.rules(pair)) for pair in pairs])
    bad = np.isin(labels, BAD)
    chosen = np.array(labels) != TRIVIAL
    return Labelled(found, bad, [pair.original for pair in pairs], rules).only(chosen)


def table(level: str, data: Labelled, parts: Mapping[str, np.ndarray]) -> list[str]:
    """A line for the pairs of each file, judged by judges that had others."""
    kept = np.mean([fitting.kept_out_of_fold(data, seed) for seed in SEEDS], axis=0)
    lines = []
    for name, chosen in parts.items():
        part = data.only(chosen)
        found = fitting.shares(kept[chosen], part.bad, part.groups)
        cells = [f"{x:.0%} ({a:.0%} to {b:.0%})" for x, a, b in found]
        lines.append(f"| {TITLES[level]} | {name} | {' | '.join(cells)} |")
    return lines


def of_minisgd(judge: verdicts.Judge) -> str:
    """What becomes of MiniSGD's hand-written wordings, and of those of other items."""
    root = Path(minisgd.materialise(cache_folder.cache_dir()))
    own, others = set[Pair](), set[Pair]()
    for split in folders.SPLITS:
        schema = read_schema(folders.schema_path(root, split))
        originals = descriptions.descriptions(schema, split)
        for variant in folders.variant_names(folders.sgdx_folder(root)):
            path = folders.variant_schema_path(
                folders.sgdx_folder(root), variant, split
            )
            wordings = descriptions.descriptions(read_schema(path), split)
            for one, two in itertools.product(originals, wordings):
                same_kind = one.id.split("/")[:3] == two.id.split("/")[:3]
                if one.text.casefold() != two.text.casefold() and same_kind:
                    pair = Pair(one.kind, one.text, two.text)
                    (own if one.id == two.id else others).add(pair)
    shares = []
    for pairs in (own, others - own):
        order = sorted(pairs, key=lambda p: (p.kind, p.original, p.candidate))
        chosen = random.Random(0).sample(order, min(len(order), MOST))
        kept = np.mean([one.keep for one in judge.verdicts(chosen)])
        shares.append(f"{kept:.1%} of {len(chosen):,}")
    return f"hand-written wordings kept: {shares[0]}; of other items: {shares[1]}"


def main() -> None:
    """Fits and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labelled", type=Path, required=True)
    parser.add_argument("--readings", type=Path, default=READINGS)
    parser.add_argument("--adapter", help="folder of an adapter of smollm2")
    parser.add_argument(
        "--level", nargs="+", choices=tuple(TITLES), default=list(TITLES)
    )
    parser.add_argument("--out", type=Path, default=Path(str(verdicts.COEFFICIENTS)))
    arguments = parser.parse_args()
    labels, pairs = read(arguments.labelled)
    first = len(labels)
    more = read_readings(arguments.readings)
    labels, pairs = labels + more[0], pairs + more[1]
    is_first = (np.arange(len(labels)) < first)[np.array(labels) != TRIVIAL]
    parts = {arguments.labelled.name: is_first, arguments.readings.name: ~is_first}
    # Levels that are not asked for stay as they are.
    known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    judges: Mapping[str, Linear] = {
        level: verdicts.coefficients(level) for level in TITLES if level in known
    }
    sights = {
        verdicts.WORDS: (),
        verdicts.SIMILARITY: ("minilm",),
        verdicts.MODEL: ("minilm", "smollm2"),
        verdicts.ADAPTER: ("minilm", "smollm2", arguments.adapter or ""),
    }
    print(HEAD, "|---|---|---|---|---|", sep="\n", flush=True)
    for level in arguments.level:
        sight = Sight(*sights[level])
        if sight.level != level:
            continue  # No adapter was given.
        started = time.process_time()
        found = sight(pairs)
        seconds = time.process_time() - started
        data = labelled(labels, pairs, found)
        fitted = fitting.rounded(fitting.train(data))
        judges = {**judges, level: fitted}
        print(*table(level, data, parts), sep="\n", flush=True)
        of_trivial = [
            verdicts.rules(pair) != () or fitted.scores(one[None])[0] > 0
            for label, pair, one in zip(labels, pairs, found, strict=True)
            if label == TRIVIAL
        ]
        print(f"  trivial ones dropped: {np.mean(of_trivial):.0%}", flush=True)
        ordered = {name: judges[name] for name in TITLES if name in judges}
        arguments.out.write_text(verdicts.written(ordered), "utf-8")
        if level in (verdicts.WORDS, verdicts.SIMILARITY):  # The others take hours.
            print(f"  MiniSGD, {of_minisgd(verdicts.Judge(sight, fitted))}")
        print(f"  {len(pairs)} pairs seen in {seconds:.1f} s of CPU time", flush=True)


if __name__ == "__main__":
    main()
