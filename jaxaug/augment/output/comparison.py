"""Diversity and faithfulness of the variants of a schema, compared between schemes.

Each variant is compared with the original schema, description by description, matched
by position. A figure is the mean over the descriptions. The metrics of table 1 of Coca
et al. (2023) come first as defined there (see `published`), then as defined here.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jaxaug.augment.descriptions import KINDS, Description, descriptions
from jaxaug.augment.judge import measures
from jaxaug.augment.output import published
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import folders
from jaxaug.data.rename import renaming
from jaxaug.data.schema import read_schema

DESCRIPTIONS = KINDS[:3]
"""The kinds of texts that are compared by default."""
SELF_BLEU, MEAN = "self_bleu", "mean"
# Name of a metric -> heading and explanation, for reports.
METRICS = {
    f"{published.PREFIX}jaccard": (
        "Jaccard T1",
        "as in table 1 of Coca et al.: slots; lemmas with case and punctuation",
    ),
    f"{published.PREFIX}bleu": (
        "BLEU T1",
        "as in table 1: slots and intents; sacrebleu's defaults, case counts",
    ),
    f"{published.PREFIX}self_bleu": (
        "self-BLEU T1",
        "as in table 1: of vk the mean of that BLEU over all pairs of v1..vk",
    ),
    "jaccard": ("Jaccard", "Jaccard distance of the lemmas without stop words"),
    "entailment": ("entailment", "probability that the original entails the variant"),
    "similarity": ("similarity", "cosine of sentence embeddings of the two"),
    "string_similarity": (
        "string sim.",
        "1 - Levenshtein distance / characters of the longer text, lower-cased",
    ),
    "bleu": (
        "BLEU",
        "sacrebleu's sentence BLEU against the original, lower-cased, effective order",
    ),
    SELF_BLEU: (
        "self-BLEU",
        "the same against the texts of all other variants as references",
    ),
    "bleurt": ("BLEURT", "BLEURT with the original as reference"),
    "mutual_implication": ("mutual impl.", "the smaller of entailment both ways"),
}


@dataclass(frozen=True)
class Texts:
    """The descriptions of a schema and of its variants.

    Attributes:
        name: name of the scheme.
        originals: descriptions of all splits.
        variants: "v1", ... -> texts, one for each of `originals`.
    """

    name: str
    originals: tuple[Description, ...]
    variants: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Row:
    """One variant of a scheme, or the mean over its variants.

    Attributes:
        scheme: name of the scheme.
        variant: "v1", ..., or "mean".
        texts: number of compared descriptions.
        unchanged: number of descriptions that equal the original, letter by letter.
        figures: name of a metric -> mean over the texts; NaN if undefined.
    """

    scheme: str
    variant: str
    texts: int
    unchanged: int
    figures: Mapping[str, float]


def read(
    name: str,
    folder: PathLike,
    data_dir: PathLike,
    splits: Sequence[str],
    kinds: Sequence[str] = DESCRIPTIONS,
) -> Texts:
    """Reads `folder/v1..vK/<split>/schema.json` and the original schemas.

    Args:
        name: name of the scheme.
        folder: folder of its variants.
        data_dir: folder of the original schemas.
        splits: splits to read; they form one list.
        kinds: kinds of texts, see `jaxaug.augment.descriptions`.

    Raises:
        UserError: a schema is missing or wrong, does not match the original by
            position, or has a blank description that the original does not have.
    """
    names = folders.variant_names(folder)
    if not names:
        raise UserError(
            f"{folder} holds no variants: {folder}/v1/{splits[0]}/schema.json is "
            "missing. Name a folder that `jaxaug augment --out` wrote, or the one of "
            "SGD-X."
        )
    originals: list[Description] = []
    found: dict[str, list[str]] = {variant: [] for variant in names}
    for split in splits:
        schema = read_schema(folders.schema_path(data_dir, split))
        wanted = [d for d in descriptions(schema, split, names=True) if d.kind in kinds]
        originals += wanted
        for variant in names:
            path = folders.variant_schema_path(folder, variant, split)
            other = read_schema(path)
            renaming(schema, other, str(path))
            by_id = {d.id: d.text for d in descriptions(other, split, names=True)}
            for one in wanted:
                if one.id not in by_id:
                    raise UserError(
                        f"{path}: {one.id} is blank, but the original says "
                        f"{one.text!r}. Write a description."
                    )
                found[variant].append(by_id[one.id])
    if not originals:
        raise UserError(f"no texts of the kinds {tuple(kinds)}: name some of {KINDS}.")
    return Texts(name, tuple(originals), {v: tuple(t) for v, t in found.items()})


def rows(texts: Texts, metrics: Mapping[str, measures.Metric]) -> list[Row]:
    """Returns the rows of a scheme: one for each variant, and their mean.

    Args:
        texts: texts of the scheme.
        metrics: metrics by name. `self_bleu` is computed here over the variants of a
            description, without the original; with one variant it is undefined.

    Raises:
        UserError: a metric is not finite.
    """
    sources = [one.text for one in texts.originals]
    plain = {name: metric for name, metric in metrics.items() if name != SELF_BLEU}
    table = []
    sets = _self_bleu(texts) if SELF_BLEU in metrics else None
    kinds = [one.kind for one in texts.originals]
    first = published.figures(kinds, sources, [*texts.variants.values()], [*metrics])
    for number, (variant, found) in enumerate(texts.variants.items()):
        values = measures.compute(plain, sources, found, kinds)
        if sets is not None:
            values[SELF_BLEU] = sets[number]
        table.append(
            Row(
                texts.name,
                variant,
                len(sources),
                sum(a == b for a, b in zip(sources, found, strict=True)),
                {name: of_variant[number] for name, of_variant in first.items()}
                # Keep the order of `metrics`.
                | {name: float(np.mean(values[name])) for name in metrics},
            )
        )
    mean = {
        name: _mean([row.figures[name] for row in table]) for name in table[0].figures
    }
    unchanged = sum(row.unchanged for row in table)
    return [*table, Row(texts.name, MEAN, len(sources) * len(table), unchanged, mean)]


def _mean(values: Sequence[float]) -> float:
    """Returns the mean over the variants with a defined figure."""
    defined = [value for value in values if not math.isnan(value)]
    return float(np.mean(defined)) if defined else math.nan


def _self_bleu(texts: Texts) -> np.ndarray:
    """Returns self-BLEU, [variants, descriptions]; NaN for a single variant."""
    shape = (len(texts.variants), len(texts.originals))
    if shape[0] < 2:
        return np.full(shape, math.nan)
    # Ids replace the sources, as two descriptions may have one text.
    ids = [one.id for one in texts.originals] * shape[0]
    every = [text for found in texts.variants.values() for text in found]
    return measures.self_bleu(ids, every).reshape(shape)


def text_table(table: Sequence[Row]) -> str:
    """Returns the table for people: percent, one line per variant, and a legend."""
    names = list(table[0].figures)
    head = ["scheme", "variant", "texts", "unchanged", *map(heading, names)]
    cells = [head, *([*cells_of(row)] for row in table)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        parts = [line[0].ljust(widths[0]), line[1].ljust(widths[1])]
        parts += [c.rjust(w) for c, w in zip(line[2:], widths[2:], strict=True)]
        lines.append("  ".join(parts).rstrip())
    return "\n".join([*lines, *legend(names)])


def cells_of(row: Row) -> list[str]:
    """Returns the cells of a row as text: figures in percent, "-" if undefined."""
    figures = ["-" if math.isnan(v) else f"{100 * v:.1f}" for v in row.figures.values()]
    return [row.scheme, row.variant, str(row.texts), str(row.unchanged), *figures]


def heading(metric: str) -> str:
    """Returns the heading of a column; a user's metric has its own name."""
    return METRICS[metric][0] if metric in METRICS else metric


def legend(metrics: Sequence[str]) -> list[str]:
    """Returns explanations of the columns, one line for each known metric."""
    return [
        f"{heading(name)}: {METRICS[name][1]}; x 100"
        for name in metrics
        if name in METRICS
    ]


def csv_table(table: Sequence[Row]) -> str:
    """Returns the table as CSV: fractions at full precision, empty if undefined."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["scheme", "variant", "texts", "unchanged", *table[0].figures])
    for row in table:
        figures = ["" if math.isnan(v) else repr(v) for v in row.figures.values()]
        writer.writerow([row.scheme, row.variant, row.texts, row.unchanged, *figures])
    return text.getvalue()
