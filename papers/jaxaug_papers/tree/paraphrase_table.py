"""Makes a table of the samplers of PCC and DiPS on a language model, for the docs.

    python -m jaxaug_papers.tree.paraphrase_table --data_dir SGD --work_dir WORK

The program rewords 100 slot descriptions of the SGD test schema with `jaxaug paraphrase
--model smollm2` (few-shot, `--prompt schema`). Each sampler has five outputs, greedy
has one. `WORK/smollm2.md` gives the diversity of the outputs of an input and their
similarity to the input. It also tests whether bottom-k is more distinct and less
similar than top-k with top-p, as Lu and Lam (2023) report. An interrupted run resumes
from WORK.
"""

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxaug.core.text import clean
from jaxaug.data.schema import read_schema
from jaxaug.metrics import diversity, similarity
from jaxaug.models.scorers import encoder, pairs
from jaxaug.models.scorers.store import Store
from jaxaug_papers.shared.outputs import (
    ORDERS,
    Setting,
    head,
    mean,
    number,
    row,
    timed_outputs,
)

COMMAND = "python -m jaxaug_papers.tree.paraphrase_table --data_dir SGD --work_dir WORK"
OUTPUTS = 5
MAX_LENGTH = 32
EXAMPLES = 10


TOP = "top-k (120) + top-p (0.95)"
BOTTOM = ("bottom-k, k=2, N=1", "bottom-k, k=10, N=15")
SETTINGS = {
    "greedy": Setting("greedy", {}, 1),
    TOP: Setting("top_k_top_p", {}, OUTPUTS),
    BOTTOM[0]: Setting("bottom_k", {"k": 2, "n_steps": 1}, OUTPUTS),
    BOTTOM[1]: Setting("bottom_k", {"k": 10, "n_steps": 15}, OUTPUTS),
    "diverse beam": Setting("diverse_beam", {}, OUTPUTS),
    "DiPS": Setting("dips", {}, OUTPUTS),
}
HEAD = (
    "sampler", *(f"distinct-{n}" for n in ORDERS), "self-BLEU", "MiniLM cosine",
    "Jaccard", "copies", "empty", "s",
)  # fmt: skip


def slot_descriptions(schema_path: Path, count: int) -> list[str]:
    """Returns a sample of the distinct descriptions of slots."""
    found = dict.fromkeys(
        clean(slot.description, False)
        for service in read_schema(schema_path).services
        for slot in service.slots
    )
    return random.Random(0).sample(list(found), min(count, len(found)))


class Figures(NamedTuple):
    """Means over the inputs; similarities are to the input."""

    distinct: tuple[float, ...]
    self_bleu: float | None
    cosine: float
    jaccard: float
    copies: int
    empty: int


def figures(
    inputs: Sequence[str], outputs: Sequence[Sequence[str]], scorer: pairs.Similarity
) -> Figures:
    """Returns the metrics of a sampler.

    Empty outputs have no n-grams and no similarity, so they are counted separately.
    """
    both = [(s, t) for s, texts in zip(inputs, outputs, strict=True) for t in texts]
    full = [pair for pair in both if pair[1]]
    bleu = mean(diversity.self_bleu(texts) for texts in outputs if len(texts) > 1)
    return Figures(
        tuple(
            mean(diversity.distinct(texts, n) for texts in outputs) or 0.0
            for n in ORDERS
        ),
        bleu,
        float(np.mean(scorer(full))),
        float(np.mean([similarity.jaccard(text, source) for source, text in full])),
        sum(text.lower() == source.lower() for source, text in full),
        len(both) - len(full),
    )


def cells(name: str, result: Figures, seconds: float) -> list[str]:
    return [
        name,
        *(f"{value:.3f}" for value in result.distinct),
        number(result.self_bleu, ".1f"),
        f"{result.cosine:.3f}",
        f"{result.jaccard:.3f}",
        str(result.copies),
        str(result.empty),
        f"{seconds:.0f}",
    ]


def verdict(results: Mapping[str, Figures]) -> list[str]:
    """Returns lines that compare bottom-k with top-k and top-p, as Lu and Lam do."""
    top = results[TOP]
    lines = []
    for name in BOTTOM:
        found = results[name]
        more = [n for n in ORDERS if found.distinct[n - 1] > top.distinct[n - 1]]
        less = [n for n in ORDERS if found.distinct[n - 1] < top.distinct[n - 1]]
        bleu = (found.self_bleu or 0.0) - (top.self_bleu or 0.0)
        holds = (
            more
            and not less
            and bleu < 0
            and found.cosine < top.cosine
            and found.jaccard < top.jaccard
        )
        orders = ", ".join(map(str, more)) or "no n"
        lines.append(
            f"- {name}: the direction reported by Lu and Lam (2023) is "
            f"{'confirmed' if holds else 'only partly confirmed'}. Distinct-n is "
            f"higher than that of {TOP} for n = {orders}, lower for "
            f"{', '.join(map(str, less)) or 'no n'}; self-BLEU {bleu:+.1f}, MiniLM "
            f"cosine {found.cosine - top.cosine:+.3f}, Jaccard "
            f"{found.jaccard - top.jaccard:+.3f}."
        )
    return lines


def page(
    rows: Sequence[str], results: Mapping[str, Figures], examples: Sequence[str],
    options: argparse.Namespace,
) -> str:  # fmt: skip
    return "\n".join(
        [
            "# SmolLM2 as a paraphraser",
            "",
            (
                f"{options.inputs} slot descriptions of the SGD test schema, "
                f"paraphrased by {options.model} with a few-shot prompt of three "
                f"examples; {OUTPUTS} outputs per sampler (one for greedy), at most "
                f"{MAX_LENGTH} tokens. Distinct-n and self-BLEU are computed among the "
                "outputs for one input, the other figures compare outputs with the "
                f"input. Seconds on {options.hardware}, including compilation; seed 0, "
                f"{time.strftime('%Y-%m-%d')}. The inputs are quoted from SGD (CC "
                "BY-SA 4.0)."
            ),
            "",
            f"    {COMMAND}",
            "",
            *head(HEAD),
            *rows,
            "",
            *verdict(results),
            *(["", options.note] if options.note else []),
            "",
            "Outputs for the first inputs:",
            "",
            *examples,
            "",
        ]
    )


def examples_of(
    inputs: Sequence[str], outputs: Mapping[str, list[list[str]]]
) -> list[str]:
    lines = head(["input", "sampler", "outputs"])
    for index, source in enumerate(inputs[:EXAMPLES]):
        for name, groups in outputs.items():
            lines.append(row([source, name, " / ".join(groups[index])]))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", type=Path, required=True)
    parser.add_argument("--work_dir", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--inputs", type=int, default=100)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--hardware", default="2 CPU cores", help="for the page")
    parser.add_argument("--note", default="", help="a paragraph for the page")
    options = parser.parse_args()
    work = options.work_dir
    work.mkdir(parents=True, exist_ok=True)
    inputs = slot_descriptions(
        options.data_dir / "test" / "schema.json", options.inputs
    )
    (work / "inputs.txt").write_text("\n".join(inputs) + "\n")

    scorer = pairs.Similarity(encoder.load("minilm"), Store())
    outputs, results, rows = {}, {}, []
    for name, setting in SETTINGS.items():
        outputs[name], seconds = timed_outputs(
            work / "inputs.txt",
            name,
            setting,
            model=options.model,
            max_length=MAX_LENGTH,
            batch_size=options.batch_size,
            prompt="schema",
        )
        results[name] = figures(inputs, outputs[name], scorer)
        rows.append(row(cells(name, results[name], seconds)))
        print(rows[-1], flush=True)
    text = page(rows, results, examples_of(inputs, outputs), options)
    (work / "smollm2.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
