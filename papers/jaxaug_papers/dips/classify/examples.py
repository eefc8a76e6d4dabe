"""The data of `jaxaug classify`: the splits of a seed, and subsets of them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.suggestion import suggestion
from jaxaug_papers.dips.classify import pairs, published
from jaxaug_papers.shared import labelled
from jaxaug_papers.shared.labelled import FewShotData, Sentence

SAME, OTHER = "1", "0"
"""Labels of pairs, as in the published files."""


class Example(NamedTuple):
    """One sentence, or the two sentences of a pair, with its class."""

    texts: tuple[str, ...]
    label: str


class Data(NamedTuple):
    """A data set.

    Attributes:
        labels: classes in `train`.
        notes: remarks for readers of the results, one line each.
    """

    train: tuple[Example, ...]
    test: tuple[Example, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...]


class Draw(NamedTuple):
    """The splits of a seed.

    Attributes:
        train: training examples, ordered so that every prefix has the proportions of
            the classes.
    """

    train: tuple[Example, ...]
    validation: tuple[Example, ...]


def _of_sentences(
    read: Callable[[PathLike], FewShotData],
) -> Callable[[PathLike], Data]:
    def reader(folder: PathLike) -> Data:
        found = read(folder)
        train, test = (
            [Example((one.text,), one.label) for one in split]
            for split in (found.train, found.test)
        )
        return _data(train, test)

    return reader


def _read_pairs(folder: PathLike) -> Data:
    """Returns the pairs in `train` and `test`, each .txt, .tsv or .csv."""
    splits = []
    for name in ("train", "test"):
        paths = [epath.Path(folder) / f"{name}.{end}" for end in ("txt", "tsv", "csv")]
        path = next((path for path in paths if path.exists()), paths[0])
        splits.append(
            [
                Example((pair.first, pair.second), SAME if pair.same else OTHER)
                for pair in pairs.read(path)
            ]
        )
    train, test = splits
    sentences = [[Sentence("", one.label) for one in split] for split in splits]
    fix = "Add pairs of both labels to train."
    labelled.checked(folder, sentences[0], sentences[1], fix)
    return _data(train, test)


READERS: Mapping[str, Callable[[PathLike], Data]] = {
    **{name: _of_sentences(read) for name, read in published.READERS.items()},
    "pairs": _read_pairs,
}
"""Name -> reader of a folder with splits train and test."""


def read(reader: str, folder: PathLike) -> Data:
    """Returns the data set of a folder.

    Training examples that occur in the test set are dropped. Notes count them and
    report classes with one example.

    Raises:
        UserError: the reader is unknown, or the folder has no such data.
    """
    if reader not in READERS:
        raise UserError(f"reader {reader!r}: {suggestion(reader, READERS)}")
    return READERS[reader](folder)


def _data(train: Sequence[Example], test: Sequence[Example]) -> Data:
    tested, trained = ({_plain(one) for one in split} for split in (test, train))
    kept = [example for example in train if _plain(example) not in tested]
    notes = []
    if both := sum(_plain(example) in trained for example in test):
        notes.append(
            f"warning: {both} of {len(test)} test examples stand in train too (case "
            f"aside); {len(train) - len(kept)} of {len(train)} training examples are "
            "left out for it."
        )
    counts = Counter(example.label for example in kept)
    if single := [label for label, count in counts.items() if count == 1]:
        notes.append(
            f"warning: {len(single)} of {len(counts)} classes have one training "
            f"example, so none to validate with: {', '.join(sorted(single)[:5])}."
        )
    # Classes are sorted, so that a draw does not depend on the order of files.
    return Data(tuple(kept), tuple(test), tuple(sorted(counts)), tuple(notes))


def _plain(example: Example) -> tuple[str, ...]:
    return tuple(" ".join(text.lower().split()) for text in example.texts)


def draw(
    examples: Sequence[Example], seed: int, train: int | None, validation: int
) -> Draw:
    """Returns a random stratified split of examples.

    Args:
        train: number of training examples; None means all except validation.

    Raises:
        UserError: there are too few examples, or fewer than classes.
    """
    wanted = len(examples) - validation if train is None else train
    classes = len({example.label for example in examples})
    if wanted < classes or wanted + validation > len(examples) or validation < 1:
        raise UserError(
            f"train_size={train}, validation_size={validation}: there are "
            f"{len(examples)} examples of {classes} classes; take one of each class "
            "for training at least, and one to validate with."
        )
    ordered = _spread(examples, np.random.default_rng(seed))
    return Draw(ordered[:wanted], ordered[wanted : wanted + validation])


def _spread(
    examples: Sequence[Example], rng: np.random.Generator
) -> tuple[Example, ...]:
    """Returns a random order in which the examples of each class are evenly spaced."""
    sizes = Counter(example.label for example in examples)
    ranks: Counter[str] = Counter()
    keys = []
    for tie, place in enumerate(rng.permutation(len(examples)).tolist()):
        label = examples[place].label
        keys.append((ranks[label] / sizes[label], tie, place))
        ranks[label] += 1
    return tuple(examples[place] for _, _, place in sorted(keys))


def share_of(examples: Sequence[Example], share: float) -> tuple[Example, ...]:
    """Returns a prefix of an order of `draw`, with at least one example per class."""
    least = len({example.label for example in examples})
    return tuple(examples[: max(round(share * len(examples)), least)])


def sources(
    draws: Sequence[Draw], shares: Sequence[float], most: int | None
) -> list[str]:
    """Returns the texts to paraphrase: the first `most` training texts of each seed.

    The text of a pair is its first sentence. Larger numbers and shares only append
    texts, so that cached paraphrases stay valid.
    """
    columns = [share_of(one.train, max(shares))[:most] for one in draws]
    longest = max(map(len, columns))
    rows = (
        column[place].texts[0]
        for place in range(longest)
        for column in columns
        if place < len(column)
    )
    return list(dict.fromkeys(rows))
