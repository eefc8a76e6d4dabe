"""The arithmetic of docs/scale.md: 1,024 chips, T5 1.1 XL, 100 times SGD.

    python benchmarks/scale_plan.py [--write]

The program prints all tables, or writes them between the markers of the page. Every
value follows from `INPUTS` and from `scale_xl.jsonl`, the output of `scale.py`. Change
an input to plan for another machine.
"""

import argparse
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
RECORD = Path(__file__).with_name("scale_xl.jsonl")
# Sources of the inputs; docs/scale.md explains them.
OURS = "counted"
CACHED = "measured"
PAGE_V5E = "v5e page"
GUESS = "assumed"


class Input(NamedTuple):
    """An input of the tables, with its unit and its source."""

    value: float
    meaning: str
    source: str


INPUTS: dict[str, Input] = {
    "chips": Input(1024, "TPU v5e chips", "the plan"),
    "slices": Input(4, "slices of 256, the largest of v5e", PAGE_V5E),
    "chips_per_host": Input(4, "chips of a host", PAGE_V5E),
    "peak": Input(197e12, "bfloat16 operations a second of a chip", PAGE_V5E),
    "memory": Input(16e9, "bytes of memory of a chip", PAGE_V5E),
    "bandwidth": Input(819e9, "bytes a second of a chip's memory", PAGE_V5E),
    "link": Input(100e9, "bytes a second of a chip in its slice, each way", PAGE_V5E),
    "network": Input(
        12.5e9, "bytes a second of a host (of 64) between slices", PAGE_V5E
    ),
    "storage": Input(0.5e9, "bytes a second of a host to and from the bucket", GUESS),
    "bucket": Input(25e9, "bytes a second that the bucket gives to all hosts", GUESS),
    "host_memory": Input(192e9, "bytes of memory of a host", GUESS),
    "price": Input(1.20, "dollars for an hour of a chip, on demand", GUESS),
    "spot": Input(0.60, "dollars for an hour of a chip, spot", GUESS),
    "gb_month": Input(0.02, "dollars for a month of a gigabyte in the bucket", GUESS),
    "utilisation": Input(0.4, "share of the peak that training reaches", GUESS),
    "decode_slowness": Input(3, "a decoding step, in times of reading weights", GUESS),
    "host_failure": Input(2000, "hours between failures of a host", GUESS),
    "spot_loss": Input(12, "hours between losses of a spot slice", GUESS),
    "stall": Input(2, "seconds for which a save holds training up", GUESS),
    "start": Input(600, "seconds from a loss to the next step", GUESS),
    "times": Input(100, "times the training set of SGD", "the plan"),
    "passes": Input(5, "passes over it", "the plan"),
    "rows": Input(1024, "rows of a batch, 1,024 + 256 tokens each", "the plan"),
    "examples": Input(118_167, "training examples of SGD (frames of users)", OURS),
    # The record cache of the train split, shuffled order: bytes, and CPU seconds.
    "record": Input(174_847_680 / 118_167, "bytes of a D3ST example", CACHED),
    "rate": Input(118_167 / 5.94, "examples that a core formats a second", CACHED),
    "tested": Input(6 * 26_802, "test examples of SGD and SGD-X", OURS),
}
# T5 1.1 XL, from runtime/t5x/examples/t5/t5_1_1/xl.gin; tokens from configs/runs.
EMB, ATTENTION, MLP, LAYERS, VOCABULARY = 2048, 32 * 64, 5120, 24, 32128
SOURCE_TOKENS, TARGET_TOKENS = 1024, 256
MODEL = 8
GB, HOUR = 1e9, 3600.0

VALUES = {name: entry.value for name, entry in INPUTS.items()}


def records() -> list[dict[str, Any]]:
    """Returns the output of `scale.py`."""
    return [json.loads(line) for line in RECORD.read_text().splitlines()]


def parameters() -> int:
    """Returns the number of parameters of XL in the compiled program."""
    return records()[0]["parameters"]


def operations_of_row() -> float:
    """Returns the operations of a training step on one row.

    A weight needs 2 operations forward and 4 backward for each token of its side. Keys
    and values of cross-attention process the tokens of the source. Attention adds two
    products of length x length x width per layer.
    """
    side = 3 * EMB * MLP
    source = LAYERS * (4 * EMB * ATTENTION + side) + LAYERS * 2 * EMB * ATTENTION
    target = LAYERS * (6 * EMB * ATTENTION + side) + EMB * VOCABULARY
    pairs = SOURCE_TOKENS**2 + TARGET_TOKENS**2 + SOURCE_TOKENS * TARGET_TOKENS
    products = LAYERS * 2 * pairs * ATTENTION
    return 6 * (source * SOURCE_TOKENS + target * TARGET_TOKENS + products)


def hosts() -> int:
    return round(VALUES["chips"] / VALUES["chips_per_host"])


def step_seconds(rows: float) -> float:
    """Returns the seconds of arithmetic of a step at the assumed utilization."""
    return (
        rows
        * operations_of_row()
        / (VALUES["chips"] * VALUES["peak"] * VALUES["utilisation"])
    )


def gradient_seconds(model: int) -> tuple[float, float]:
    """Returns (inside a slice, between slices): seconds of ring all-reduces."""
    data = VALUES["chips"] / VALUES["slices"] / model
    inside = 2 * (data - 1) / data * 4 * parameters() / model / VALUES["link"]
    share = 2 * (VALUES["slices"] - 1) / VALUES["slices"] * 4 * parameters()
    between = share / (hosts() / VALUES["slices"]) / VALUES["network"]
    return inside, between


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Returns a table in Markdown."""
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def short(value: float) -> str:
    """Returns a number with three significant digits, and a unit prefix from k on."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scale = 1e3 if prefix == "k" else size
            return f"{value / scale:.3g} {prefix}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def inputs() -> str:
    return table(
        ("input", "value", "source"),
        (
            (entry.meaning, short(entry.value), entry.source)
            for entry in INPUTS.values()
        ),
    )


def measured() -> str:
    """Returns the table of memory per device in the compiled programs."""
    return table(
        ("mesh", "rows", "remat", "weights over data", "state GB", "temporary GB"),
        (
            (
                found["mesh"],
                found["rows"],
                found["remat"],
                "yes" if found["spread"] else "no",
                f"{found['state'] / GB:.2f}",
                f"{found['temporary'] / GB:.2f}",
            )
            for found in records()
        ),
    )


def sharding() -> str:
    """Returns the table of requirements for each size of the model axis."""

    def line(model: int) -> tuple[Any, ...]:
        data = round(VALUES["chips"] / model)
        inside, between = gradient_seconds(model)
        return (
            f"{data} x {model}",
            f"{4 * parameters() / model / GB:.2f}",
            f"{8 * parameters() / model / VALUES['memory']:.0%}",
            data,
            f"{step_seconds(data):.3f}",
            f"{step_seconds(VALUES['rows']):.3f}",
            f"{inside:.3f}",
            f"{between:.3f}",
        )

    return table(
        (
            "data x model",
            "weights GB a chip",
            "weights and gradients of memory",
            "least rows",
            "s a step at least rows",
            f"s a step at {VALUES['rows']:,.0f} rows",
            "s of gradients in a slice",
            "s between slices",
        ),
        map(line, (1, 2, 4, 8, 16)),
    )


def figures() -> str:
    """Returns the table of data, checkpoints, and evaluation of the run."""
    return table(("figure", "value"), (*_input(), *_checkpoint(), *_evaluation()))


def _row_bytes() -> int:
    """Returns the bytes of a row: int32 source, targets, inputs, and weights."""
    return 4 * (SOURCE_TOKENS + 3 * TARGET_TOKENS)


def _input() -> Iterable[tuple[str, Any]]:
    """Yields the lines about input data for the batch of the plan."""
    per_second = VALUES["rows"] / step_seconds(VALUES["rows"])
    parts = VALUES["chips"] / MODEL
    examples = VALUES["examples"] * VALUES["times"]
    yield "steps of the run", short(examples * VALUES["passes"] / VALUES["rows"])
    yield f"data shards, at a model axis of {MODEL}; hosts", f"{parts:.0f}; {hosts()}"
    yield "examples a second, all hosts", short(per_second)
    yield (
        "bytes a second to the devices of a host",
        short(per_second / parts * _row_bytes()),
    )
    yield "bytes of the record cache", short(examples * VALUES["record"])
    yield (
        "cores to format as fast as training reads",
        short(per_second / VALUES["rate"]),
    )


def _checkpoint() -> Iterable[tuple[str, Any]]:
    """Yields the lines about checkpoints; small factored moments are ignored."""
    size = 4 * parameters()
    replica = MODEL / VALUES["chips_per_host"]  # Hosts of one replica.
    yield "bytes of a checkpoint", short(size)
    yield (
        f"s to write it, by the {replica:.0f} hosts of one replica",
        short(size / replica / VALUES["storage"]),
    )
    yield (
        "s to restore on all hosts, by the bucket's limit",
        short(size / replica * hosts() / VALUES["bucket"]),
    )


def _evaluation() -> Iterable[tuple[str, Any]]:
    """Yields the lines about greedy decoding; each token reads all weights."""
    decoder = LAYERS * (8 * EMB * ATTENTION + 3 * EMB * MLP) + EMB * VOCABULARY
    token = 4 * decoder / MODEL / VALUES["bandwidth"] * VALUES["decode_slowness"]
    rounds = math.ceil(VALUES["tested"] / (VALUES["chips"] / MODEL * 32))
    yield (
        "s to decode all test sets, 32 rows at once",
        short(rounds * TARGET_TOKENS * token),
    )
    yield (
        "bytes of the test examples in each host's memory",
        short(VALUES["tested"] * _row_bytes()),
    )


def lost_share(hours: float) -> tuple[float, float]:
    """Returns (s between saves by Young's rule, lost share of time) for a loss rate."""
    between = hours * HOUR
    period = math.sqrt(2 * VALUES["stall"] * between)
    return period, VALUES["stall"] / period + (period / 2 + VALUES["start"]) / between


def preempting() -> str:
    kinds = (
        ("on demand: any host fails", VALUES["host_failure"] / hosts()),
        ("spot: any slice is taken", VALUES["spot_loss"] / VALUES["slices"]),
    )

    def line(name: str, hours: float) -> tuple[str, ...]:
        period, lost = lost_share(hours)
        steps = period / step_seconds(VALUES["rows"])
        return (name, f"{hours:.1f}", short(period), short(steps), f"{lost:.1%}")

    return table(
        ("loss", "hours between", "s between saves", "steps", "time lost"),
        (line(*kind) for kind in kinds),
    )


def costing() -> str:
    steps = VALUES["examples"] * VALUES["times"] * VALUES["passes"] / VALUES["rows"]

    def line(name: str, price: float, hours_between: float) -> tuple[str, ...]:
        lost = lost_share(hours_between)[1]
        hours = steps * step_seconds(VALUES["rows"]) / HOUR / (1 - lost)
        return (name, f"{hours:.2f}", f"{hours * VALUES['chips'] * price:,.0f}")

    return table(
        ("contract", "hours", "dollars"),
        (
            line("on demand", VALUES["price"], VALUES["host_failure"] / hosts()),
            line("spot", VALUES["spot"], VALUES["spot_loss"] / VALUES["slices"]),
        ),
    )


def breaking() -> str:
    """Returns the table of limits, in the order in which a growing run reaches them."""
    parts = round(VALUES["chips"] / MODEL)
    _inside, between = gradient_seconds(MODEL)
    balance = between / step_seconds(1)
    restored = 4 * parameters() / MODEL * VALUES["chips"]
    sets = VALUES["host_memory"] / 2 / (VALUES["tested"] * _row_bytes())
    lines = (
        (
            "the papers' batch of 32",
            f"{32 * MODEL} chips: beyond them a data index has no row",
            "more rows (fewer steps), or a larger model axis",
        ),
        (
            "32 files of a small record cache",
            f"{32 * MODEL} chips: with more shards than files each shard reads all",
            f"train.data_shards = 32; 100 x SGD has files for all {parts} shards",
        ),
        (
            "gradients between slices",
            (
                f"batches below {balance:,.0f} rows: the network takes longer than the "
                "step"
            ),
            "microbatches: gradients are added up once a batch",
        ),
        (
            "all hosts restore at once",
            f"{short(restored / VALUES['bucket'])} s of start-up",
            "one replica reads and sends to the others (not built)",
        ),
        (
            "evaluation sets in every host's memory",
            f"{sets:.0f} times the test sets of SGD and SGD-X fill half of it",
            "evaluate from checkpoints in a job of its own; a smaller split on the way",
        ),
        (
            "metrics on process 0",
            "the other hosts wait where concurrent_metrics is off",
            "t5x.eval next to training",
        ),
    )
    return table(("what", "where", "what then"), lines)


TABLES: dict[str, Callable[[], str]] = {
    "inputs": inputs,
    "measured": measured,
    "sharding": sharding,
    "figures": figures,
    "preempting": preempting,
    "costing": costing,
    "breaking": breaking,
}
ON_PAGE = ("costing", "measured", "sharding")


def with_tables(text: str, tables: Mapping[str, str]) -> str:
    """Returns the page with new tables between its markers."""
    for name, content in tables.items():
        begin, end = f"<!-- {name}: scale_plan.py -->\n", "<!-- end -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        if not re.search(pattern, text, re.DOTALL):
            raise SystemExit(f"{PAGE} has no place for the table {name!r}: {begin}")
        made = begin + content + "\n" + end
        text = re.sub(pattern, made.replace("\\", r"\\"), text, flags=re.DOTALL)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into docs/scale.md")
    tables = {name: make() for name, make in TABLES.items()}
    if parser.parse_args().write:
        shown = {name: tables[name] for name in ON_PAGE}
        PAGE.write_text(with_tables(PAGE.read_text(), shown))
        return
    for name, content in tables.items():
        print(f"{name}\n\n{content}\n")


if __name__ == "__main__":
    main()
