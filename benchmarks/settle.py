"""The table "What would settle it" of docs/results.md: hours from measured runs."""

import json
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SGD = ROOT / "results/sgd"
QUEUE = ROOT / "benchmarks/sgd_queue.jsonl"
DOLLARS_GPU = 3.0
"""Assumed price of an hour of an H100 or H200."""
# T5 base has 248 M weights and SmolLM2 135 M: a position costs that much more.
_BASE = 248 / 135
# Of one core: the PCC page, and the header of configs/paraphrase_lstm.gin.
_HUFF_FILES, _HUFF_HOURS = 2, 2.5
_AMAZON_HOURS = 12
_LSTM_MINUTES = 45
# Three people vote on Tables 6 and 10, 800 questions each, ten seconds a vote.
_VOTES, _SECONDS_A_VOTE = 3 * 2 * 800, 10


def table() -> list[str]:
    """Returns what would settle the open claims, with hours from measured runs."""
    items = [json.loads(p.read_text()) for p in sorted(SGD.glob("*/item.json"))]
    queue = [json.loads(line) for line in QUEUE.read_text().splitlines()]
    done = {(one["set"], one["steps"], one["seed"], one["order"]) for one in items}
    left = [
        one
        for one in queue
        if (one["set"], one["steps"], one["seed"], one.get("order", "mixture"))
        not in done
    ]
    step = _mean(one["train_seconds"] / one["steps"] for one in items)
    rest = _mean(one["compile_seconds"] + one["evaluate_seconds"] for one in items)
    seconds = sum(one["steps"] * step + rest for one in left)
    speed = _mean(one["positions_per_second"] for one in items) / _BASE
    base = 100_000 * 32 * (1024 + 256) / speed
    votes = _VOTES * _SECONDS_A_VOTE / 3600
    levels = _HUFF_FILES * _HUFF_HOURS
    rows = [
        "| open | command | hardware | hours | dollars | arithmetic |",
        "|---|---|---|---|---|---|",
        _row(
            "S: seeds, EDA, oracle, orders, T5DST", "`benchmarks/sgd_queue.py`",
            "one H200", seconds / 3600, DOLLARS_GPU,
            f"{len(left)} runs; {step:.2f} s a step and {rest:.0f} s to compile and "
            "evaluate (`results/sgd`)",
        ),
        _row(
            "Table 2 of the tree's paper, 9 rows of D3ST, three seeds",
            "`papers/jaxaug_papers/tree/paper.sh`", "one H200", 27 * base / 3600,
            DOLLARS_GPU,
            f"27 runs of at most 100,000 x 32 x 1,280 positions, {speed:,.0f} a "
            f"second: SmolLM2's {speed * _BASE:,.0f} by the ratio of weights",
        ),
        _row(
            "PCC's own paraphrases on HuffPost", "`jaxaug levels`, then "
            "`jaxaug fewshot`", "one CPU core", levels, 0.0,
            f"{_HUFF_FILES} files of {_HUFF_HOURS} hours",
        ),
        _row(
            "G, T: three seeds of the small LSTM", "`--gin_file=configs/runs/"
            "quora_small.gin`, then `jaxaug classify`", "one CPU core",
            3 * _LSTM_MINUTES / 60, 0.0,
            f"3 trainings of {_LSTM_MINUTES} minutes; decoding is not measured",
        ),
        _row(
            "Amazon with paraphrases", "the same", "one CPU core",
            2 * _AMAZON_HOURS, 0.0, f"2 files of {_AMAZON_HOURS} hours",
        ),
        _row(
            "Tables 6 and 10 of PCC", "`jaxaug papers ab`", "three people", votes, None,
            f"{_VOTES:,} votes of {_SECONDS_A_VOTE} s (assumed)",
        ),
    ]  # fmt: skip
    return rows


def _row(
    name: str, command: str, hardware: str, hours: float, price: float | None, how: str
) -> str:
    dollars = "-" if price is None else f"{hours * price:,.0f}"
    cells = [name, command, hardware, f"{hours:,.1f}", dollars, how]
    return f"| {' | '.join(cells)} |"


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
