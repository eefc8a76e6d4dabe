"""Prints Tables 5 and 8 of PCC: paraphrases of persona traits by several samplers.

    python -m jaxaug_papers.pcc.sampler_table --text_dir TEXT --work_dir WORK

The program paraphrases traits of Persona-Chat with the eight samplers of Table 5. It
prints the tables in Markdown, with the paraphrases that PCC's authors released for the
same traits. An interrupted run resumes from WORK.

`--scores` writes a JSON line for each row and trait: the texts, and for each of `HEADS`
seeds of `distilled` (fitted to `--files` with mismatched pairs) their G, an estimate of
BLEURT, and M, whether they are taken as implied.
"""

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxaug.core.columns import markdown, markdown_head
from jaxaug.curriculum import levels
from jaxaug.metrics import diversity
from jaxaug.models.scorers import encoder, pairs
from jaxaug.models.scorers.store import Store
from jaxaug.paraphrase.run import paraphrase
from jaxaug_papers.pcc import distilled
from jaxaug_papers.pcc.distilled import RELEASED
from jaxaug_papers.shared import encoders

HEADS = 3
SAMPLERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "pure sampling": ("sampling", {}),
    "top-k 120, top-p 0.95": ("top_k_top_p", {"k": 120, "p": 0.95}),
    "top-k 80, top-p 0.8": ("top_k_top_p", {"k": 80, "p": 0.8}),
} | {
    f"bottom-k, k={k}, N={n}": ("bottom_k", {"k": k, "n_steps": n})
    for k, n in ((2, 1), (10, 1), (2, 5), (5, 10), (10, 15))
}
# Rows of equal size, so that their distinct-n can be compared.
RELEASED_ROWS = {
    "released, 4 without bottom-k": slice(12, 16),
    "released, 4 of bottom-k": slice(16, 20),
}
ORDERS = range(1, 7)
TABLE_5 = ("sampler", "starts with i", *(f"distinct-{n}" for n in ORDERS),
           "MiniLM cosine", "copies", "empty")  # fmt: skip
TABLE_8 = ("paraphrases", "0.5 and above", "0 to 0.5", "-0.5 to 0", "-0.5 and below",
           "mean")  # fmt: skip


def starts_with_i(text: str) -> bool:
    """Returns whether the first word is `i` or a contraction (`i'm`), ignoring case."""
    return text.lower().split()[0].partition("'")[0] == "i"


def row_5(
    traits: Sequence[str], outputs: Sequence[Sequence[str]], scorer: pairs.Similarity
) -> list[str]:
    """Returns the cells of a row of Table 5; outputs without words are only counted."""
    both = [(s, t) for s, texts in zip(traits, outputs, strict=True) for t in texts]
    full = [pair for pair in both if pair[1].strip()]
    texts = [text for _, text in full]
    first = np.mean([starts_with_i(text) for text in texts])
    return [
        f"{100 * first:.1f} %",
        *(f"{diversity.distinct(texts, n) or 0.0:.3f}" for n in ORDERS),
        f"{np.mean(scorer(full)):.3f}",
        str(sum(text.lower() == source.lower() for source, text in full)),
        str(len(both) - len(full)),
    ]


def row_8(scores: Sequence[float]) -> list[str]:
    """Returns the cells of a row of Table 8: percentages of four bins, and the mean."""
    values = np.asarray(scores)
    places = np.digitize(values, (-0.5, 0.0, 0.5))
    places[values == -0.5] = 0  # -0.5 itself belongs to the lowest bin.
    shares = 100 * np.bincount(places, minlength=4)[::-1] / len(values)
    return [*(f"{share:.0f} %" for share in shares), f"{values.mean():.2f}"]


def _outputs(options: argparse.Namespace, name: str) -> list[list[str]]:
    """Returns the outputs of a sampler for each trait."""
    sampler, chosen = SAMPLERS[name]
    stem = "".join(c if c.isalnum() else "_" for c in name)
    out = options.work_dir / f"{stem}.jsonl"
    paraphrase(
        options.work_dir / "traits.txt", out, model=options.model, sampler=sampler,
        options=chosen, num=options.outputs, max_length=32, prompt="persona",
    )  # fmt: skip
    groups: dict[int, list[str]] = {}
    for line in out.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        groups.setdefault(record["line"], []).append(record["output"])
    return [groups[line] for line in sorted(groups)]


def _rows_8(released: Mapping[str, Sequence[levels.Scored]]) -> Iterator[list[str]]:
    for name, places in (("16 without", slice(16)), ("4 of", slice(16, 20))):
        scores = [one.similarity for own in released.values() for one in own[places]]
        yield [f"released, {name} bottom-k, {len(released):,} traits", *row_8(scores)]


def _scores(
    options: argparse.Namespace,
    traits: Sequence[str],
    rows: Mapping[str, Sequence[Sequence[str]]],
) -> Iterator[dict[str, Any]]:
    """Yields a line of `--scores` for each row and trait."""
    huff = distilled.huffpost(options.text_dir, options.files)
    given: list[tuple[str, Sequence[str]]] = [
        (text, [item.text for item in items]) for text, items in huff.items()
    ]
    for groups in rows.values():
        given += zip(traits, groups, strict=True)
    texts = {one: None for source, own in given for one in (source, *own)}
    places = {text: place for place, text in enumerate(texts)}
    vectors = jnp.asarray(encoders.find("minilm")([*places]))
    known = distilled.Pairs(huff, places)
    every = np.arange(len(known.new))
    heads = [
        distilled.trained(vectors, known, every, True, seed) for seed in range(HEADS)
    ]
    for name, groups in rows.items():
        for trait, own in zip(traits, groups, strict=True):
            first = vectors[np.full(len(own), places[trait])]
            second = vectors[np.array([places[one] for one in own])]
            out = [np.asarray(distilled.apply(head, first, second)) for head in heads]
            yield {
                "row": name,
                "trait": trait,
                "texts": own,
                "G": [one[:, 0].round(3).tolist() for one in out],
                "M": [(one[:, 1] > 0).tolist() for one in out],
            }


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text_dir", type=Path, required=True, help="holds pcc/")
    parser.add_argument("--work_dir", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--traits", type=int, default=200)
    parser.add_argument("--outputs", type=int, default=5)
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=[*SAMPLERS])
    parser.add_argument("--scores", type=Path, help="JSON lines of G and M")
    parser.add_argument("--files", default=distilled.FILES, help="for G and M")
    parser.add_argument(
        "--released", action="store_true", help="print what needs no paraphraser"
    )
    options = parser.parse_args()
    options.work_dir.mkdir(parents=True, exist_ok=True)
    found = levels.scored_persona(options.text_dir / RELEASED)
    released = {trait: items for trait, items in found.items() if len(items) == 20}
    count = min(options.traits, len(released))
    traits = random.Random(0).sample(list(released), count)
    (options.work_dir / "traits.txt").write_text("\n".join(traits) + "\n")
    scorer = pairs.Similarity(encoder.load("minilm"), Store())
    names = [] if options.released else options.samplers
    outputs = {name: _outputs(options, name) for name in names}
    rows = outputs | {
        name: [[one.text for one in released[trait][places]] for trait in traits]
        for name, places in RELEASED_ROWS.items()
    }
    print(markdown_head(TABLE_5))
    for name, texts in rows.items():
        print(markdown([name, *row_5(traits, texts, scorer)]), flush=True)
    print(f"\n{markdown_head(TABLE_8)}")
    for cells in _rows_8(released):
        print(markdown(cells), flush=True)
    if options.scores:
        with options.scores.open("w", encoding="utf-8") as file:
            file.writelines(
                json.dumps(x) + "\n" for x in _scores(options, traits, rows)
            )


if __name__ == "__main__":
    main()
