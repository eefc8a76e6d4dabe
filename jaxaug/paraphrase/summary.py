"""The summary of a run: diversity of the outputs, similarity to the inputs."""

from collections.abc import Iterable, Sequence

import numpy as np

from jaxaug.core.columns import aligned
from jaxaug.core.text import is_copy
from jaxaug.metrics import diversity, similarity

_ORDERS = range(1, 7)
_BAR = 30


def summary(inputs: Sequence[str], outputs: Iterable[Sequence[str]]) -> str:
    """Returns a text of self-BLEU, distinct-1..6, and similarity to the input."""
    groups = [list(texts) for texts in outputs]
    pairs = [
        (source, text)
        for source, texts in zip(inputs, groups, strict=True)
        for text in texts
    ]
    every = [text for _, text in pairs]
    equal = sum(is_copy(text, source) for source, text in pairs)
    missing = diversity.without_bleu()
    bleu = "-" if missing else _mean(map(diversity.self_bleu, groups), ".1f")
    distinct = [["distinct-n", *map(str, _ORDERS)]]
    for name, sets in (("  of one input", groups), ("  of all", [every])):
        means = (
            _mean((diversity.distinct(s, n) for s in sets), ".3f") for n in _ORDERS
        )
        distinct.append([name, *means])
    lines = [
        f"{len(inputs)} inputs, {len(every)} outputs, {equal} equal to the input",
        missing
        or f"self-BLEU {bleu} among an input's outputs, mean; 0 to 100, low is diverse",
        aligned(distinct),
    ]
    measures = [
        ("word-level Jaccard similarity", similarity.jaccard),
        ("sacrebleu sentence BLEU / 100", similarity.bleu),
    ]
    for name, measure in measures[: 1 if missing else 2]:
        values = [measure(text, source) for source, text in pairs]
        lines += [f"{name} to the input: mean {np.mean(values):.3f}"]
        lines += _bars(values)
    return "\n".join(lines)


def _bars(values: Sequence[float]) -> list[str]:
    counts = similarity.histogram(values)
    longest = max(counts)
    return [
        f"  {low / len(counts):.1f}-{(low + 1) / len(counts):.1f} {count:8} "
        + "#" * round(_BAR * count / longest)
        for low, count in enumerate(counts)
    ]


def _mean(values: Iterable[float | None], form: str) -> str:
    """Returns the mean of the defined values, or a dash."""
    defined = [value for value in values if value is not None]
    return format(np.mean(defined), form) if defined else "-"
