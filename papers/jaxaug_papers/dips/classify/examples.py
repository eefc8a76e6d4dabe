"""What `jaxaug classify` trains and tests on: the splits of a seed, and shares of them."""

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
"""Labels of pairs: those of the published files."""


class Example(NamedTuple):
    """Something to classify.

    Attributes:
        texts: a sentence, or the two of a pair.
        label: its class.
    """

    texts: tuple[str, ...]
    label: str


class Data(NamedTuple):
    """A data set.

    Attributes:
        train: to be split into training and validation.
        test: to test with.
        labels: of train.
        notes: what a reader of the figures should know, a line each.
    """

    train: tuple[Example, ...]
    test: tuple[Example, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...]


class Draw(NamedTuple):
    """The splits of a seed.

    Attributes:
        train: in an order of which every beginning has all classes in their shares.
        validation: what training is chosen by.
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

    Training examples that stand in the test set are left out; notes count them, and
    tell of classes with one example.

    Raises:
        UserError: no such reader, or the folder does not hold such data.
    """
    if reader not in READERS:
        raise UserError(f"reader {reader!r}: {suggestion(reader, READERS)}")
    return READERS[reader](folder)


def _data(train: Sequence[Example], test: Sequence[Example]) -> Data:
    tested = {_plain(example) for example in test}
    kept = [example for example in train if _plain(example) not in tested]
    notes = []
    if both := sum(_plain(example) in {_plain(e) for e in train} for example in test):
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
    # Classes in the order of their names: a draw depends on no order of files.
    return Data(tuple(kept), tuple(test), tuple(sorted(counts)), tuple(notes))


def _plain(example: Example) -> tuple[str, ...]:
    return tuple(" ".join(text.lower().split()) for text in example.texts)


def draw(
    examples: Sequence[Example], seed: int, train: int | None, validation: int
) -> Draw:
    """Splits examples at random, every class in its share.

    Args:
        examples: of train.
        seed: of the draw.
        train: examples to train on; None is all that validation leaves.
        validation: examples to choose by.

    Raises:
        UserError: there are fewer examples, or fewer than classes.
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
    """Returns a random order in which each class comes at equal distances, its first at once."""
    sizes = Counter(example.label for example in examples)
    ranks: Counter[str] = Counter()
    keys = []
    for tie, place in enumerate(rng.permutation(len(examples)).tolist()):
        label = examples[place].label
        keys.append((ranks[label] / sizes[label], tie, place))
        ranks[label] += 1
    return tuple(examples[place] for _, _, place in sorted(keys))


def share_of(examples: Sequence[Example], share: float) -> tuple[Example, ...]:
    """Returns the beginning of an order of `draw`, one example of each class at least."""
    least = len({example.label for example in examples})
    return tuple(examples[: max(round(share * len(examples)), least)])


def sources(
    draws: Sequence[Draw], shares: Sequence[float], most: int | None
) -> list[str]:
    """Returns the texts to paraphrase: of each seed the first `most` training texts.

    Of a pair it is the first sentence. More of them, or a greater share, add texts at
    the end only, so that what is kept of fewer is still good.
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
