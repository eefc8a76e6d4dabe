"""The table of decoders on Twitter's pairs, from rows of `quora_table --out`."""

import json
import statistics
from pathlib import Path

STORE = Path(__file__).resolve().parent.parent / "results/decoders"
# Kumar et al. (2019), Tables 3 and 4: BLEU, METEOR, and distinct-1 to 4 on Twitter.
PAPER = {
    "SBS": ("51.1", "23.5", "20.0", "30.9", "38.1", "44.6"),
    "DBS": ("47.1", "22.1", "25.8", "40.7", "48.2", "53.9"),
    "VAE-SVG": ("46.7", "25.2", "19.3", "28.2", "33.3", "37.2"),
    "RbM": ("47.7", "29.3", "-", "-", "-", "-"),
    "DPP final": ("44.8", "21.4", "25.6", "41.4", "51.1", "59.0"),
    "SSR final": ("41.3", "20.0", "26.6", "43.7", "54.0", "62.4"),
    "DiPS final": ("55.3", "30.1", "28.3", "46.6", "56.7", "64.5"),
}
COLUMNS = {
    "BLEU": "BLEU",
    "METEOR of the first": "METEOR",
    **{f"distinct-{n}": f"distinct-{n}" for n in range(1, 5)},
}


def table(name: str, store: Path = STORE) -> list[str]:
    """Returns the paper's figures next to stored ones, or "not run".

    Args:
        name: name of the stored rows.
        store: folder with `NAME.jsonl`, of which the last line of a row counts.
    """
    path = store / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {row["row"]: row for row in map(json.loads, lines)}
    titles = [f"{title} paper | ours" for title in COLUMNS.values()]
    rows = [f"| model | {' | '.join(titles)} |", "|---" * (1 + 2 * len(COLUMNS)) + "|"]
    for model, paper in PAPER.items():
        own = found.get(model)
        cells = [model]
        for theirs, column in zip(paper, COLUMNS, strict=True):
            cells += [theirs, _cell(own, column) if own else "not run"]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _cell(row: dict, column: str) -> str:
    """Returns mean and deviation over the sets of pairs; "-" without the column."""
    if column not in row["columns"]:
        return "-"
    values = [one[row["columns"].index(column)] for one in row["seeds"]]
    mean = f"{statistics.fmean(values):.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean
