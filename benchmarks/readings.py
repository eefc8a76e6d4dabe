"""Tables of the blind readings of the rewording grammar in results/grammar."""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "papers/jaxaug_papers/tree/readings"
READINGS = ROOT / "results/grammar/readings.tsv"
LABELS = ("faithful", "trivial", "changed", "broken", "original")
_SOUND = "0.8"  # least probability of the last sets of readings.tsv


def table() -> list[str]:
    """Returns the blind readings of the rewording grammar, a row per set of texts."""
    counts: dict[str, dict[str, int]] = {}
    for path, of, label in (
        (TREE / "minisgd_tree.tsv", "MiniSGD (an earlier version)", "first"),
        (
            READINGS.with_name("sgd_readings.tsv"),
            "SGD's train schema, sample (an earlier version)",
            "label",
        ),
        (
            READINGS.with_name("sgd_smollm2_readings.tsv"),
            "SGD's train schema with SmolLM2, sample",
            "label",
        ),
        (READINGS, "", "label"),
    ):
        for row in _read(path):
            own = counts.setdefault(of or row["set"], dict.fromkeys(LABELS, 0))
            own[row[label]] += 1
    heads = "texts, places, reworded, faithful and different, nearly the same, says "
    heads += "something else, broken"
    rows = [f"| {heads.replace(', ', ' | ')} |", "|---|---|---|---|---|---|---|"]
    for name, own in counts.items():
        total = sum(own.values())
        filled = total - own["original"]
        shares = [f"{own[one] / filled:.0%}" for one in LABELS[:-1]]
        rows.append(f"| {' | '.join([name, str(total), str(filled), *shares])} |")
    return rows


def sound_table() -> list[str]:
    """Returns readings of the same schemas by the least probability of rewordings."""
    compared = _read(READINGS.with_name("sound_readings.tsv"))
    sets = {row["set"] for row in compared}
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for row in [*_read(READINGS), *compared]:
        if row["set"] in sets:
            key = row["set"], row.get("config", _SOUND)
            own = counts.setdefault(key, dict.fromkeys(LABELS, 0))
            own[row["label"]] += 1
    heads = (
        "schemas, least probability, places reworded, wrong of these, faithful and "
        "different of these, faithful and different of all"
    )
    rows = [f"| {heads.replace(', ', ' | ')} |", "|---|---|---|---|---|---|"]
    for (name, config), own in sorted(counts.items(), reverse=True):
        total, good = sum(own.values()), own["faithful"]
        filled, wrong = total - own["original"], own["changed"] + own["broken"]
        shares = filled / total, wrong / filled, good / filled, good / total
        cells = [name, config, *(f"{share:.0%}" for share in shares)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
