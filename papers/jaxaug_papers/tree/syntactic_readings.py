"""Prints the syntactic paraphrases of both readings of Coca et al. (2023).

    python -m jaxaug_papers.tree.syntactic_readings OUT [--without_judge]

OUT is the folder of a run of `jaxaug augment` that ranks by a tree. The program prints
a line for each text that has candidates with the same words (Jaccard distance 0). The
line has the text, the candidate that the decisions select, and the candidate with the
lowest string similarity. --without_judge includes candidates that the judge dropped.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxaug.augment import tree
from jaxaug.augment.config import spec_of
from jaxaug.augment.judge.measures import FAITHFUL
from jaxaug.augment.output import records
from jaxaug.augment.selection import CONSTRAINT

LEAST = "string_similarity"
_JUDGE = f"{CONSTRAINT}: {FAITHFUL}"


def pools(out: Path, without_judge: bool) -> dict[str, dict[str, Any]]:
    """Returns text -> text of a candidate -> candidate."""
    found: dict[str, dict[str, Any]] = {}
    with (out / records.CANDIDATES).open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            reasons = [
                reason
                for reason in row["dropped"]
                if not (without_judge and reason.startswith(_JUDGE))
            ]
            if row["candidate"] and not reasons:
                found.setdefault(row["source"], {})[row["candidate"]] = row
    return found


def picks(rows: Sequence[Mapping[str, Any]], spec: tree.Spec) -> list[str]:
    """Returns the paraphrase of each reading; empty without candidates."""
    items = [tree.Item(r["candidate"], r["count"], r["metrics"]) for r in rows]
    same = [item for item in items if not spec.rounded(item, spec.diversity)]
    if not same:
        return []
    fields = {name: getattr(spec, name) for name in ("levels", "decisions", "decimals")}
    return [
        tree.rank(
            same, tree.Spec(**fields, constraints=(), syntactic=reading), 1
        ).selected[0].text
        for reading in (tree.BY_DECISIONS, LEAST)
    ]  # fmt: skip


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--without_judge", action="store_true")
    options = parser.parse_args()
    spec = spec_of(records.read_manifest(options.out)["config"]["tree"])
    texts = pools(options.out, options.without_judge)
    count = 0
    for text, rows in sorted(texts.items()):
        if found := picks([*rows.values()], spec):
            count += 1
            print("\t".join([text, *found]))
    print(f"{count} of {len(texts)} texts", file=sys.stderr)


if __name__ == "__main__":
    main()
