r"""Plots for README.md: learning curves of the generators, and the effect of lambda.

    python -m jaxaug_papers.dips.quora_plots --runs RUNS \
        --curves docs/pictures/quora_curves.png
    python -m jaxaug_papers.dips.quora_plots --table rows.jsonl \
        --sweep docs/pictures/quora_lambda.png

RUNS contains the folders paraphrase_lstm, paraphrase_vae_svg, paraphrase_evaluator, and
paraphrase_rbm; `quora_table.py --sweep --out` writes rows.jsonl.
"""

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxaug_base.event_files import Curve

from jaxaug.core.figures import new_figure, write_figure
from jaxaug.metrics import training

_LAMBDA = re.compile(r"DiPS (step|final), lambda (.*)")
_SWEPT = ("distinct-1", "distinct-2", "distinct-3", "distinct-4", "BLEU")


def curves(runs: Path) -> dict[str, Mapping[str, Curve]]:
    """Returns title of a plot -> name of a line -> curve.

    Raises:
        FileNotFoundError: a run is missing.
    """
    found = {}
    for name in ("lstm", "vae_svg", "evaluator", "rbm"):
        run = training.read(runs / f"paraphrase_{name}")
        if run is None:
            raise FileNotFoundError(runs / f"paraphrase_{name}")
        found[name] = run
    bleu, held_out = {}, {}
    for name, run in found.items():
        for scores in run.scores.values():
            bleu[name] = scores["bleu"]
        for scores in run.held_out.values():
            held_out[name] = scores
    return {
        "BLEU of the validation pairs, greedy": bleu,
        "loss of a text, validation, nats": {
            name: held_out[name]["loss"] for name in ("lstm", "vae_svg")
        },
        "VAE-SVG: divergence of a pair, nats": {
            "training": found["vae_svg"].steps["kl"],
            "validation": held_out["vae_svg"]["kl"],
        },
        "VAE-SVG: weight of the divergence": {
            "training": found["vae_svg"].steps["kl_weight"]
        },
        "evaluator: accuracy": {
            "training": found["evaluator"].steps["accuracy"],
            "validation": held_out["evaluator"]["accuracy"],
        },
        "RbM: reward": {"training": found["rbm"].steps["reward"]},
    }


def sweep(table: Path) -> dict[str, Mapping[str, Mapping[float, float]]]:
    """Returns title of a plot -> metric -> lambda -> mean over the seeds."""
    found: dict[str, Any] = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if match := _LAMBDA.fullmatch(record["row"]):
            means = dict(
                zip(record["columns"], np.mean(record["seeds"], axis=0), strict=True)
            )
            for name in _SWEPT:
                lines = found.setdefault(f"DiPS, {match[1]}", {})
                lines.setdefault(name, {})[float(match[2])] = means[name]
    return found


def draw(
    path: Path, plots: Mapping[str, Mapping[str, Mapping[Any, float]]], across: str
) -> None:
    """Draws the plots, three per row."""
    rows = -(-len(plots) // 3)
    figure = new_figure(path, 4.0 * min(len(plots), 3), 3.0 * rows)
    for place, (title, lines) in enumerate(plots.items(), 1):
        axes = figure.add_subplot(rows, min(len(plots), 3), place)
        for name, curve in lines.items():
            axes.plot(
                list(curve), list(curve.values()), marker=".", markersize=3, label=name
            )
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(across, fontsize=8)
        axes.tick_params(labelsize=8)
        axes.legend(fontsize=7)
    write_figure(path, figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--curves", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--sweep", type=Path)
    options = parser.parse_args()
    if options.curves:
        draw(options.curves, curves(options.runs), "step")
    if options.sweep:
        draw(options.sweep, sweep(options.table), "lambda")


if __name__ == "__main__":
    main()
