"""Tables of the outputs of samplers."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxaug.paraphrase.run import paraphrase

# The orders n of distinct-n in Lu and Lam (2023).
ORDERS = range(1, 7)


class Setting(NamedTuple):
    """A sampler with its options; other options have their defaults."""

    sampler: str
    options: Mapping[str, Any]
    num: int


def timed_outputs(
    inputs: Path, name: str, setting: Setting, **options: Any
) -> tuple[list[list[str]], float]:
    """Returns the outputs of a sampler and the total seconds of all starts.

    Args:
        inputs: text file; computed files are stored next to it.
        name: name of the setting, used in file names.
        setting: sampler with its options.
        **options: further arguments of `jaxaug.paraphrase.run.paraphrase`.
    """
    stem = inputs.with_name("".join(c if c.isalnum() else "_" for c in name))
    out, clock = stem.with_suffix(".jsonl"), stem.with_suffix(".seconds")
    before = float(clock.read_text()) if clock.exists() else 0.0
    finished, started = out.exists(), time.perf_counter()
    try:
        paraphrase(
            inputs,
            out,
            sampler=setting.sampler,
            options=setting.options,
            num=setting.num,
            **options,
        )
    finally:
        if not finished:
            clock.write_text(str(before + time.perf_counter() - started))
    return outputs_of(out), float(clock.read_text())


def outputs_of(path: Path) -> list[list[str]]:
    """Returns the outputs of each input in a file of `jaxaug paraphrase`, in order."""
    groups: dict[int, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        groups.setdefault(record["line"], []).append(record["output"])
    return [groups[line] for line in sorted(groups)]


def mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are not None, or None without values."""
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None


def number(value: float | None, form: str) -> str:
    """Returns a cell; `-` where nothing is defined."""
    return "-" if value is None else format(value, form)


def row(cells: Sequence[str]) -> str:
    """Returns a row in Markdown."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def head(cells: Sequence[str]) -> list[str]:
    """Returns the first two lines of a table in Markdown."""
    return [row(cells), "|" + "---|" * len(cells)]
