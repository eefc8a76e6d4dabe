"""`report.html`, `report.csv`, and `report.png`: a comparison of schemes."""

import html
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from etils import epath
from jaxtyping import Float

from jaxaug.augment.descriptions import KINDS, Description, descriptions
from jaxaug.augment.judge import measures
from jaxaug.augment.judge.measures import Metric
from jaxaug.augment.language import nlp
from jaxaug.core import columns, page
from jaxaug.core.errors import UserError
from jaxaug.core.figures import can_draw, label, new_figure, write_figure
from jaxaug.core.files import PathLike, write_text
from jaxaug.data import folders
from jaxaug.data.rename import renaming
from jaxaug.data.schema import read_schema
from jaxaug.metrics import diversity

DESCRIPTIONS = KINDS[:3]
"""The kinds of texts that are compared by default."""
SELF_BLEU, MEAN = "self_bleu", "mean"
PREFIX = "table1_"
"""Prefix of the figures of `published`; the rest of the name is our metric."""
# Name of a metric -> heading and explanation, for reports.
METRICS = {
    f"{PREFIX}jaccard": (
        "Jaccard T1",
        "as in table 1 of Coca et al.: slots; lemmas with case and punctuation",
    ),
    f"{PREFIX}bleu": (
        "BLEU T1",
        "as in table 1: slots and intents; sacrebleu's defaults, case counts",
    ),
    f"{PREFIX}self_bleu": (
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
    first = published(kinds, sources, [*texts.variants.values()], [*metrics])
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


def published(
    kinds: Sequence[str],
    originals: Sequence[str],
    variants: Sequence[Sequence[str]],
    metrics: Sequence[str],
) -> dict[str, list[float]]:
    """Returns the figures of table 1 of Coca et al. (2023) for each variant, 0 to 1.

    The paper does not define them. These definitions reproduce its figures for the
    public SGD-X on SGD's train split (see papers/jaxaug_papers/tree/README.md):

    - Jaccard distance, only of slot descriptions: lemmas as spaCy writes them, with
      case and punctuation, without stop words;
    - BLEU of slot and intent descriptions: sacrebleu's defaults for a corpus of one
      sentence. Case counts, n-grams go up to 4 (no effective order), and the original
      is the reference;
    - self-BLEU of vk: mean of this BLEU over all ordered pairs of v1..vk.

    Args:
        kinds: kinds of the descriptions: "slot", "intent", ...
        variants: v1, v2, ...: texts for `originals`.
        metrics: names of our metrics. Only "jaccard", "bleu", and "self_bleu" are in
            the table; other names are ignored.

    Returns:
        `PREFIX` + name -> a figure for each variant; NaN if undefined. A figure is
        undefined without descriptions of its kind, and self-BLEU also for v1. Without a
        spaCy model, "jaccard" is left out.

    Raises:
        UserError: sacrebleu is not installed, and a BLEU is requested.
    """
    known: Mapping = {
        "jaccard": _table1_jaccard,
        "bleu": _table1_bleu,
        "self_bleu": _table1_self_bleu,
    }
    wanted = {"jaccard": ("slot",)}
    found = {}
    for name in known:
        if name in metrics and (name != "jaccard" or nlp.installed()):
            places = [
                place
                for place, kind in enumerate(kinds)
                if kind in wanted.get(name, ("slot", "intent"))
            ]
            texts = [[t[place] for place in places] for t in (originals, *variants)]
            found[PREFIX + name] = (
                known[name](texts) if places else [math.nan] * len(variants)
            )
    return found


def _table1_jaccard(texts: Sequence[Sequence[str]]) -> list[float]:
    original, *variants = (
        [
            frozenset(token.lemma for token in one.tokens if not token.is_stop)
            for one in nlp.analyse(part)
        ]
        for part in texts
    )
    return [
        float(np.mean([*map(measures.jaccard_distance, original, variant)]))
        for variant in variants
    ]


def _table1_bleu(texts: Sequence[Sequence[str]]) -> list[float]:
    original, *variants = texts
    return [float(np.mean(_scores(variant, original))) for variant in variants]


def _table1_self_bleu(texts: Sequence[Sequence[str]]) -> list[float]:
    variants = texts[1:]
    of_pair = {
        pair: np.mean(_scores(variants[pair[0]], variants[pair[1]]))
        for pair in itertools.permutations(range(len(variants)), 2)
    }
    return [
        float(np.mean([value for pair, value in of_pair.items() if max(pair) <= last]))
        if last
        else math.nan
        for last in range(len(variants))
    ]


def _scores(
    hypotheses: Sequence[str], references: Sequence[str]
) -> Float[np.ndarray, " texts"]:
    bleu = diversity.load_sacrebleu().BLEU()
    return np.array(
        [
            bleu.corpus_score([hypothesis], [[reference]]).score / 100
            for hypothesis, reference in zip(hypotheses, references, strict=True)
        ]
    )


def text_table(table: Sequence[Row]) -> str:
    """Returns the table for people: percent, one line per variant, and a legend."""
    names = list(table[0].figures)
    head = [*_HEADS, *map(heading, names)]
    lines = columns.aligned([head, *map(cells_of, table)], _right(head))
    return "\n".join([lines, *legend(names)])


def _right(head: Sequence[str]) -> list[bool]:
    return [place > 1 for place in range(len(head))]


def cells_of(row: Row) -> list[str]:
    """Returns the cells of a row as text: figures in percent, "-" if undefined."""
    figures = [columns.percent(value, "-") for value in row.figures.values()]
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
    head = [*_HEADS, *table[0].figures]
    rows = ([row.scheme, row.variant, row.texts, row.unchanged] for row in table)
    figures = (row.figures.values() for row in table)
    return columns.as_csv([head, *map(itertools.chain, rows, figures)])


PAGE, TABLE, PICTURE = "report.html", "report.csv", "report.png"
SAMPLES = 20
_COLUMNS = 4  # panels next to each other

_STYLE = """
tr.mean td { font-weight: bold }
span { color: #767676 }
"""
_HEADS = ("scheme", "variant", "texts", "unchanged")


def files() -> tuple[str, ...]:
    """Returns the names of the files; without matplotlib there is no picture."""
    return (PAGE, TABLE, PICTURE) if can_draw() else (PAGE, TABLE)


def write(
    out: PathLike,
    schemes: Mapping[str, PathLike],
    data_dir: PathLike,
    splits: Sequence[str],
    metrics: Mapping[str, Metric],
    samples: int = SAMPLES,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> str:
    """Compares variants of a schema and writes the files of a report.

    Args:
        schemes: name -> folder with `v1..vK/<split>/schema.json`, such as this run,
            EDA, and SGD-X; in the order of the table.
        splits: splits that share one table.
        metrics: columns, by name; see `jaxaug.augment.judge.measures`. The name of a
            metric must say what it measures: `similarity` is not `entailment`.
        samples: number of descriptions that are shown with their variants.
        notes: lines above the table that explain its content.

    Returns:
        The table, to be printed.

    Raises:
        UserError: a schema is missing or wrong, or a metric is not finite.
    """
    if not schemes or not metrics:
        raise UserError("nothing to report: name at least one scheme and one metric.")
    folder = epath.Path(out)
    found = [read(name, path, data_dir, splits) for name, path in schemes.items()]
    table = [row for texts in found for row in rows(texts, metrics)]
    chosen = _chosen(len(found[0].originals), samples, seed)
    write_text(folder / TABLE, csv_table(table))
    if PICTURE in files():
        picture = folder / PICTURE
        write_figure(picture, _drawn(picture, table))
    write_text(folder / PAGE, _page(table, found, chosen, splits, notes))
    return "\n".join([*notes, text_table(table)])


def _chosen(count: int, samples: int, seed: int) -> list[int]:
    """Returns indices drawn without replacement, in the order of the schema."""
    rng = np.random.default_rng(seed)
    return sorted(rng.permutation(count)[:samples].tolist())


def _drawn(path: PathLike, rows: Sequence[Row]) -> Any:
    """Draws one panel per metric: its value over the variants, one line per scheme."""
    names = list(rows[0].figures)
    columns = min(_COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = new_figure(path, 3.2 * columns, 3.6 * lines)
    panels = [*figure.subplots(lines, columns, squeeze=False).flat]
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(panels, names, strict=False):
        for scheme in dict.fromkeys(row.scheme for row in rows):
            own = [r for r in rows if r.scheme == scheme and r.variant != MEAN]
            axes.plot(
                [row.variant for row in own],
                [100 * row.figures[name] for row in own],
                marker="o",
                label=label(scheme),
            )
        axes.set_title(heading(name), fontsize=10)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("mean over descriptions x 100")
    panels[0].legend(fontsize=8)
    return figure


def _page(
    rows: Sequence[Row],
    schemes: Sequence[Texts],
    places: Sequence[int],
    splits: Sequence[str],
    notes: Sequence[str],
) -> str:
    names = list(rows[0].figures)
    head = [*_HEADS, *map(heading, names)]
    kinds = ["mean" if row.variant == MEAN else "variant" for row in rows]
    parts = [
        *(f"<p>{html.escape(note)}</p>" for note in notes),
        *page.table(head, map(cells_of, rows), _right(head), kinds=kinds),
        *page.items(legend(names)),
        *(f'<img src="{p}" alt="The figures of the table">' for p in files()[2:]),
        f"<h2>{len(places)} samples</h2>",
        "<p>Grey: the text of the original, unchanged.</p>",
        *_samples(schemes, places),
    ]
    return page.whole(f"Schema variants of {', '.join(splits)}", parts, _STYLE)


def _samples(schemes: Sequence[Texts], places: Sequence[int]) -> list[str]:
    """Returns a table per description: one row per variant, one column per scheme."""
    most = max(len(texts.variants) for texts in schemes)
    parts = []
    for place in places:
        one = schemes[0].originals[place]
        where = f"{one.id}: {one.kind} {one.name} of {one.service}"
        parts += [f"<h3>{html.escape(one.text)}</h3>", f"<p>{html.escape(where)}</p>"]
        rows = [[f"v{number + 1}"] for number in range(most)]
        for texts in schemes:
            found = [own[place] for own in texts.variants.values()]
            found += [""] * (most - len(found))
            for row, text in zip(rows, found, strict=True):
                same = page.Html(f"<span>{html.escape(text)}</span>")
                row.append(same if text == one.text else text)
        heads = ["", *(texts.name for texts in schemes)]
        parts += page.table(heads, rows, [False] * len(heads))
    return parts
