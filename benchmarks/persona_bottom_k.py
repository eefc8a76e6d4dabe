"""The samplers of Lu and Lam (2023), PCC, on persona traits: their Tables 5 and 8.

    python benchmarks/persona_bottom_k.py --text_dir TEXT --work_dir WORK

rewords traits of Persona-Chat with `jaxaug paraphrase --model smollm2 --prompt persona`
by the eight settings of Table 5, five outputs each, and writes
`docs/persona_bottom_k.md`: the share of outputs that start with `i`, distinct-1..6 of
all outputs, and how many outputs fall into each tenth of MiniLM cosine to their trait.
For the same traits it has the paraphrases that PCC's authors released, without and with
bottom-k, with their BLEURT in the bins of Table 8; where `bleurt-base-128` is on this machine
the samplers stand there too. A run that was stopped goes on; what is in WORK is used
again.
"""

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxaug.curriculum import levels
from jaxaug.metrics import diversity, similarity
from jaxaug.models.named import catalogue
from jaxaug.models.scorers import encoder, pairs
from jaxaug.models.scorers.store import Store
from jaxaug_papers.shared.outputs import ORDERS, Setting, head, row, timed_outputs

COMMAND = "python benchmarks/persona_bottom_k.py --text_dir TEXT --work_dir WORK"
RELEASED = "pcc/persona_paraphrases.jsonl"
MAX_LENGTH = 32


TOP = "top-k 120, top-p 0.95"
SAMPLERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "pure sampling": ("sampling", {}),
    TOP: ("top_k_top_p", {"k": 120, "p": 0.95}),
    "top-k 80, top-p 0.8": ("top_k_top_p", {"k": 80, "p": 0.8}),
} | {
    f"bottom-k, k={k}, N={n}": ("bottom_k", {"k": k, "n_steps": n})
    for k, n in ((2, 1), (10, 1), (2, 5), (5, 10), (10, 15))
}
# As many of each, so that distinct-n can be compared.
RELEASED_ROWS = {
    "released, 4 without bottom-k": slice(12, 16),
    "released, 4 of bottom-k": slice(16, 20),
}
BLEURT = "bleurt-base-128"  # The bins belong to its scale.
BINS = ("0.5 and above", "0 to 0.5", "-0.5 to 0", "-0.5 and below")
HEAD = ("sampler", "starts with i", *(f"distinct-{n}" for n in ORDERS),
        "MiniLM cosine", "copies", "empty")  # fmt: skip


class Figures(NamedTuple):
    """Of all outputs of a sampler.

    Attributes:
      first_i: share of the outputs whose first word is `i`, `i'm`, ...
      distinct: distinct-1..6 of all outputs together.
      cosine: mean similarity to the trait.
      histogram: outputs in each tenth of similarity; below 0 counts as 0.
      copies: outputs equal to their trait but for case.
      empty: outputs without a word, which are left out of all the rest.
    """

    first_i: float
    distinct: tuple[float, ...]
    cosine: float
    histogram: tuple[int, ...]
    copies: int
    empty: int


def starts_with_i(text: str) -> bool:
    """Whether the first word is `i`, alone or contracted (`i'm`), in either case."""
    return text.lower().split()[0].partition("'")[0] == "i"


def figures(
    traits: Sequence[str], outputs: Sequence[Sequence[str]], scorer: pairs.Similarity
) -> Figures:
    """What the tables say of a sampler."""
    both = [(s, t) for s, texts in zip(traits, outputs, strict=True) for t in texts]
    full = [pair for pair in both if pair[1].strip()]
    texts = [text for _, text in full]
    cosine = np.asarray(scorer(full))
    return Figures(
        float(np.mean([starts_with_i(text) for text in texts])),
        tuple(diversity.distinct(texts, n) or 0.0 for n in ORDERS),
        float(np.mean(cosine)),
        tuple(similarity.histogram(np.clip(cosine, 0.0, 1.0).tolist()).tolist()),
        sum(text.lower() == source.lower() for source, text in full),
        len(both) - len(full),
    )


def whole(text_dir: Path) -> dict[str, list[levels.Scored]]:
    """The traits that the authors released 20 paraphrases of, with those."""
    found = levels.scored_persona(text_dir / RELEASED)
    return {trait: items for trait, items in found.items() if len(items) == 20}


def binned(scores: Sequence[float]) -> list[str]:
    """Cells of Table 8: per cent in each of the four bins, and the mean."""
    values = np.asarray(scores)
    places = np.digitize(values, (-0.5, 0.0, 0.5))
    # -0.5 itself belongs to the lowest bin.
    places[values == -0.5] = 0
    shares = 100 * np.bincount(places, minlength=4)[::-1] / len(values)
    return [*(f"{share:.0f} %" for share in shares), f"{values.mean():.2f}"]


def bleurt_table(
    released: Mapping[str, Sequence[levels.Scored]],
    traits: Sequence[str],
    outputs: Mapping[str, Sequence[Sequence[str]]],
) -> list[str]:
    """Table 8: by the authors' BLEURT of all they released, by ours of the rest."""
    lines = head(["paraphrases", *BINS, "mean"])
    for name, places in (
        ("released, 16 without bottom-k", slice(16)),
        ("released, 4 of bottom-k", slice(16, 20)),
    ):
        scores = [one.similarity for own in released.values() for one in own[places]]
        lines.append(row([f"{name}, {len(released):,} traits", *binned(scores)]))
    if not catalogue.find(BLEURT).on_disk:
        note = (
            f"The samplers are not in it: {BLEURT} is not on this machine (`jaxaug models "
            f"fetch {BLEURT}`)."
        )
        return [*lines, "", note]
    scorer = pairs.Bleurt(encoder.load(BLEURT), Store())
    for name, groups in outputs.items():
        both = [(t, one) for t, own in zip(traits, groups, strict=True) for one in own]
        lines.append(row([f"{name} ({BLEURT})", *binned(scorer(both).tolist())]))
    return lines


def cells(name: str, found: Figures) -> list[str]:
    return [
        name,
        f"{100 * found.first_i:.1f} %",
        *(f"{value:.3f}" for value in found.distinct),
        f"{found.cosine:.3f}",
        str(found.copies),
        str(found.empty),
    ]


def histogram_table(results: Mapping[str, Figures]) -> list[str]:
    """Per cent of the outputs in each tenth of similarity."""
    bins = [f"{low / similarity.BINS:.1f}-" for low in range(similarity.BINS)]
    lines = head(["sampler", *bins])
    for name, found in results.items():
        shares = 100 * np.asarray(found.histogram) / sum(found.histogram)
        lines.append(row([name, *(f"{share:.1f}" for share in shares)]))
    return lines


def verdict(results: Mapping[str, Figures]) -> list[str]:
    """Sentences: what bottom-k changes against the paper's top-k and top-p."""
    other, lines = results[TOP], []
    for name, found in results.items():
        if name.startswith("bottom-k"):
            both = zip(found.distinct, other.distinct, strict=True)
            lines.append(
                f"- {name} against {TOP}: starts with i "
                f"{100 * (found.first_i - other.first_i):+.1f} points, higher "
                f"distinct-n for {sum(a > b for a, b in both)} of the {len(ORDERS)} n, "
                f"MiniLM cosine {found.cosine - other.cosine:+.3f}."
            )
    return lines


def examples_of(
    traits: Sequence[str], outputs: Mapping[str, list[list[str]]]
) -> list[str]:
    lines = head(["trait", "sampler", "outputs"])
    for index, source in enumerate(traits[:3]):
        for name, groups in outputs.items():
            lines.append(row([source, name, " / ".join(groups[index][:5])]))
    return lines


def page(
    rows: Sequence[str], results: Mapping[str, Figures], bins: Sequence[str],
    examples: Sequence[str], traits: Sequence[str], options: argparse.Namespace,
) -> str:  # fmt: skip
    share = 100 * np.mean([starts_with_i(trait) for trait in traits])
    return "\n".join(
        [
            "# Bottom-k on persona traits",
            "",
            (
                f"{len(traits)} traits of Persona-Chat, {share:.1f} % of which start "
                f"with `i`, paraphrased by {options.model} with the persona prompt; "
                f"{options.outputs} outputs per sampler, at most {MAX_LENGTH} tokens. "
                "Distinct-n is computed over all outputs of a sampler together, so only "
                "rows with equal numbers of outputs can be compared. Bottom-k removes the "
                "k most probable tokens in the first N steps, then continues with top-k "
                f"120 and top-p 0.95. {options.hardware}; seed 0, "
                f"{time.strftime('%Y-%m-%d')}. The last rows are from the T5 of PCC's "
                "authors: for each of the same traits 4 paraphrases without bottom-k, and "
                "the 4 from bottom-k. These have passed the authors' filter; ours are "
                "unfiltered."
            ),
            "",
            f"    {COMMAND} --traits {len(traits)}",
            "",
            *head(HEAD),
            *rows,
            "",
            "MiniLM cosine to the trait, per cent of the outputs in each interval of 0.1:",
            "",
            *histogram_table(results),
            "",
            *verdict(results),
            "",
            "BLEURT to the trait (Table 8), per cent of the outputs in each bin:",
            "",
            *bins,
            "",
            "First outputs for the first traits:",
            "",
            *examples,
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text_dir", type=Path, required=True, help="holds pcc/")
    parser.add_argument("--work_dir", type=Path, required=True)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--traits", type=int, default=200)
    parser.add_argument("--outputs", type=int, default=5)
    parser.add_argument(
        "--released", action="store_true", help="print what needs no paraphraser"
    )
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--hardware", default="2 CPU cores", help="for the page")
    options = parser.parse_args()
    options.work_dir.mkdir(parents=True, exist_ok=True)
    released = whole(options.text_dir)
    count = min(options.traits, len(released))
    traits = random.Random(0).sample(list(released), count)
    (options.work_dir / "traits.txt").write_text("\n".join(traits) + "\n")

    scorer = pairs.Similarity(encoder.load("minilm"), Store())
    outputs: dict[str, list[list[str]]] = {}
    results, rows = {}, []
    samplers = {} if options.released else SAMPLERS
    for name, (sampler, chosen) in samplers.items():
        outputs[name], _ = timed_outputs(
            options.work_dir / "traits.txt",
            name,
            Setting(sampler, chosen, options.outputs),
            model=options.model,
            max_length=MAX_LENGTH,
            batch_size=options.batch_size,
            prompt="persona",
        )
        results[name] = figures(traits, outputs[name], scorer)
        rows.append(row(cells(name, results[name])))
        print(rows[-1], flush=True)
    bins = bleurt_table(released, traits, outputs)
    for name, places in RELEASED_ROWS.items():
        texts = [[one.text for one in released[trait][places]] for trait in traits]
        results[name] = figures(traits, texts, scorer)
        rows.append(row(cells(name, results[name])))
        print(rows[-1], flush=True)
    if options.released:
        print("\n".join(bins))
        return
    options.docs.mkdir(exist_ok=True)
    examples = examples_of(traits, outputs)
    text = page(rows, results, bins, examples, traits, options)
    (options.docs / "persona_bottom_k.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
