"""Tables of the blind readings of the rewording grammar in results/grammar."""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READINGS = ROOT / "results/grammar/readings.tsv"
LABELS = ("faithful", "trivial", "changed", "broken", "original")


def table() -> list[str]:
    """Returns the blind readings of the rewording grammar, a row per set of texts.

    Readings of earlier versions are left to results/grammar.
    """
    counts: dict[str, dict[str, int]] = {}
    for file, of in (
        ("sgd_readings.tsv", "SGD's train schema, sample"),
        ("sgd_smollm2_readings.tsv", "SGD's train schema with SmolLM2, sample"),
        (READINGS.name, ""),
    ):
        for row in _read(READINGS.with_name(file)):
            if row.get("set", "").endswith("(an earlier version)"):
                continue
            own = counts.setdefault(of or row["set"], dict.fromkeys(LABELS, 0))
            own[row["label"]] += 1
    heads = "texts, places, reworded, faithful and different, nearly the same, says "
    heads += "something else, broken"
    rows = [f"| {heads.replace(', ', ' | ')} |", "|---|---|---|---|---|---|---|"]
    for name, own in counts.items():
        total = sum(own.values())
        filled = total - own["original"]
        shares = [f"{own[one] / filled:.0%}" for one in LABELS[:-1]]
        rows.append(f"| {' | '.join([name, str(total), str(filled), *shares])} |")
    return rows


# Names of the runs in domains_readings.tsv -> their configs, in order.
RUNS = {
    "grammar": "`grammar_tree.py`, the judge of commit c7005018",
    "reworder": "`pool_tree.py:0.5,reworder`",
    "pool5": "`pool_tree.py:0.5`",
    "pool7": "`pool_tree.py` (0.7)",
}
PLACES = 147 * 5  # of the eight domains


def domains_table() -> list[str]:
    """Returns readings of eight new domains by config; a label counts a half."""
    rows = _read(READINGS.with_name("domains_readings.tsv"))
    heads = "config, places reworded, wrong of these, nearly the same of these, "
    heads += "faithful and different of these, faithful and different of all"
    found = [f"| {heads.replace(', ', ' | ')} |", "|---|---|---|---|---|---|"]
    for run, name in RUNS.items():
        own = [row for row in rows if run in row["runs"].split()]
        labels = [one for row in own for one in row["labels"].split()]
        count = {one: labels.count(one) for one in LABELS}
        wrong = count["changed"] + count["broken"]
        good, total = count["faithful"], len(labels)
        shares = [len(own) / PLACES, wrong / total, count["trivial"] / total]
        shares += [good / total, good / 2 / PLACES]
        cells = [name, *(f"{share:.0%}" for share in shares)]
        found.append(f"| {' | '.join(cells)} |")
    return found


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        lines = (line for line in file if not line.startswith("#"))
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
