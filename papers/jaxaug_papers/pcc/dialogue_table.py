r"""Prints PCC's Table 3 with intervals, from evaluated runs on Persona-Chat.

    python -m jaxaug_papers.pcc.dialogue_table T5=runs/personachat_t5 \
        CDA=runs/cda_0,runs/cda_1

Each name is a row with means over turns and runs (seeds). The columns are F1, ParlAI's
BLEU-2 to 4 and ROUGE-1, 2, L, the perplexity of a word, and the difference of F1 to the
first row. The difference has a 95% interval from a paired bootstrap over dialogues and
seeds (`jaxaug.metrics.bootstrap`).

The runs of each row must be in the order of their seeds. Rows with equal numbers of
runs are paired by seed. With a single run, the interval is over dialogues only.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxaug.core.columns import markdown, markdown_head
from jaxaug.core.errors import UserError
from jaxaug.metrics import text
from jaxaug.metrics.bootstrap import RESAMPLES, Bootstrap, Group

COLUMNS = (
    "f1", "parlai_bleu_2", "parlai_bleu_3", "parlai_bleu_4",
    "rouge_1", "rouge_2", "rouge_l",
)  # fmt: skip
Turn = tuple[str, int]
Scores = dict[Turn, list[float]]


def predictions_of(folder: Path) -> Path:
    """Returns the file of the last evaluation on Persona-Chat, or `UserError`."""
    files = sorted(folder.glob("inference_eval/personachat_*-[0-9]*.jsonl"))
    if not files:
        raise UserError(
            f"{folder}: has no inference_eval/personachat_*-STEP.jsonl. Name a run "
            "that was evaluated on Persona-Chat."
        )
    return files[-1]


def scores_of(folder: Path) -> Scores:
    """Returns (dialogue, turn) -> scores from 0 to 100 in the order of `COLUMNS`.

    Raises:
        UserError: see `predictions_of`.
    """
    found = {}
    for line in predictions_of(folder).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        turn = record["input"]["dialogue_id"], int(record["input"]["turn"])
        said, answer = record["output"], record["target"]["text"]
        rouge = text.rouge(said, answer)
        values = [
            text.f1(said, [answer]),
            *(text.parlai_bleu(said, [answer], n) for n in (2, 3, 4)),
            *(rouge[name] for name in COLUMNS[4:]),
        ]
        found[turn] = [100.0 * value for value in values]
    return found


def perplexity_of(folder: Path) -> float:
    """Returns the perplexity of a word in the last evaluation.

    Raises:
        UserError: see `predictions_of`.
    """
    predictions = predictions_of(folder)
    task = predictions.stem.rpartition("-")[0]
    file = predictions.with_name(f"{task}-metrics.jsonl")
    last = file.read_text(encoding="utf-8").splitlines()[-1]
    return json.loads(last)["word_perplexity"]


def table(
    rows: Sequence[tuple[str, Sequence[Scores]]],
    perplexities: Sequence[float],
    resamples: int = RESAMPLES,
) -> list[str]:
    """Returns the lines of the table in Markdown; all runs have the same turns."""
    turns = sorted(rows[0][1][0])
    for name, runs in rows:
        if any(run.keys() != set(turns) for run in runs):
            raise UserError(f"{name}: is evaluated on other turns than {rows[0][0]}.")
    boot = _bootstrap([run for _, runs in rows for run in runs], turns, resamples)
    places = iter(range(len(boot.values)))
    groups = [
        # The position of a run in its row is its seed.
        Group(
            name,
            tuple(itertools.islice(places, len(runs))),
            tuple(map(str, range(len(runs)))),
        )
        for name, runs in rows
    ]
    lines = [
        markdown_head(
            [
                "row",
                "runs",
                "F1",
                "BLEU-2",
                "BLEU-3",
                "BLEU-4",
                "ROUGE-1",
                "ROUGE-2",
                "ROUGE-L",
                "perplexity",
                "F1 - first row",
            ]
        )
    ]
    for group, perplexity in zip(groups, perplexities, strict=True):
        means = boot.values[list(group.runs)].mean(axis=0)
        cells = [group.name, str(len(group.runs)), *(f"{mean:.2f}" for mean in means)]
        cells.append(f"{perplexity:.1f}")
        if group is groups[0]:
            cells.append("")
        else:
            found = boot.difference(group, groups[0])
            f1, low, high = (
                float(part[0]) for part in (found.value, found.low, found.high)
            )
            cells.append(f"{f1:+.2f} ({low:+.2f} to {high:+.2f})")
        lines.append(markdown(cells))
    return lines


def _bootstrap(
    runs: Sequence[Scores], turns: Sequence[Turn], resamples: int
) -> Bootstrap:
    """Returns a bootstrap of means over turns, which resamples whole dialogues."""
    dialogues = [len(list(g)) for _, g in itertools.groupby(turns, lambda t: t[0])]
    starts = np.cumsum([0, *dialogues[:-1]])
    values = np.array([[run[turn] for turn in turns] for run in runs])
    sums = np.add.reduceat(values, starts, axis=1).swapaxes(1, 2)
    counts = np.broadcast_to(np.array(dialogues, float), sums.shape)
    return Bootstrap(sums, counts, np.divide, highest=100.0, resamples=resamples)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="+", metavar="NAME=RUN[,RUN...]")
    given = parser.parse_args().rows
    try:
        print("\n".join(_of_arguments(given)))
    except UserError as error:
        parser.error(str(error))


def _of_arguments(given: Sequence[str]) -> list[str]:
    rows, perplexities = [], []
    for argument in given:
        name, mark, folders = argument.partition("=")
        if not mark:
            raise UserError(f"{argument!r}: give NAME=RUN, or NAME=RUN,RUN.")
        runs = [Path(folder) for folder in folders.split(",")]
        rows.append((name, [scores_of(run) for run in runs]))
        perplexities.append(float(np.mean([perplexity_of(run) for run in runs])))
    return table(rows, perplexities)


if __name__ == "__main__":
    main()
