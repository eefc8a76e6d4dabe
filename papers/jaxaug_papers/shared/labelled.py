"""Reads labeled sentences from lines `label<TAB>sentence`, and draws few-shot sets.

The data sets are from Wei et al. (2021), "Few-Shot Text Classification with Triplet
Networks, Data Augmentation, and Curriculum Learning": `huff` (HuffPost, 41 classes),
`covidclu` (COVID-Q, 87), `amzn` (Amazon products, 318). Any other folder with
`train.txt` and `test.txt` in this format works too.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, shown

_LINE_FIX = (
    "Write one sentence a line as `label<TAB>sentence`, lines ended by a line feed."
)
_FIX = "Correct the file, or get it again with `jaxaug data fetch fewshot`."


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, unchanged with trailing spaces, and its class."""

    text: str
    label: str


@dataclass(frozen=True, slots=True)
class FewShotData:
    """A data set for classification.

    Attributes:
        test: the test sentences; `load` takes the distinct ones of `test.txt`.
        labels: the labels of train, in order of first appearance.
    """

    name: str
    train: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    labels: tuple[str, ...]

    @property
    def overlap(self) -> int:
        """Returns the number of test sentences that are in train, with any label."""
        known = {sentence.text for sentence in self.train}
        return sum(sentence.text in known for sentence in self.test)


def load(folder: PathLike) -> FewShotData:
    """Reads a folder with `train.txt` and `test.txt`.

    Raises:
        UserError: a file is missing or damaged, or a label of test is not in train.
    """
    place = epath.Path(folder)
    train, test = (read(place / f"{split}.txt") for split in ("train", "test"))
    return checked(place, train, distinct(test), _FIX)


def checked(
    folder: PathLike, train: Sequence[Sentence], test: Sequence[Sentence], fix: str
) -> FewShotData:
    """Returns a data set after checks.

    Raises:
        UserError: a split is empty, or a label of test is not in train.
    """
    labels = tuple(by_label(train))
    for name, split in (("train", train), ("test", test)):
        if not split:
            raise UserError(f"{folder}: {name} has no sentence. {fix}")
    missing = [sentence for sentence in test if sentence.label not in labels]
    if missing:
        raise UserError(
            f"{folder}: label {shown(missing[0].label)} of {shown(missing[0].text)} is "
            f"in test and not in train; {len(missing)} of {len(test)} test sentences "
            f"have such labels. {fix}"
        )
    return FewShotData(epath.Path(folder).name, tuple(train), tuple(test), labels)


def read(path: PathLike) -> list[Sentence]:
    """Returns the sentences of a file in order, with their trailing spaces.

    Raises:
        UserError: the file is missing or empty, or a line is not `label<TAB>sentence`.
    """
    # `splitlines` would also split at separators inside a sentence.
    lines = read_text(path, _FIX).removesuffix("\n").split("\n")
    if lines == [""]:
        raise UserError(f"{path}: the file is empty. {_FIX}")
    return [
        parse_line(line, f"{path}: line {number}")
        for number, line in enumerate(lines, 1)
    ]


def parse_line(line: str, where: str) -> Sentence:
    """Returns the sentence of a line `label<TAB>sentence`.

    Raises:
        UserError: the line is not a label, a tab, and a text with at least one word.
    """
    problem = None
    label, tab, text = line.partition("\t")
    if not tab:
        problem = "there is no tab"
    elif "\t" in text:
        problem = "there is more than one tab"
    elif not label.strip():
        problem = "the label is empty"
    elif not text.strip():
        problem = "the sentence is empty"
    elif "\r" in line or "\n" in line:
        problem = "the line holds a carriage return or a line feed"
    if problem:
        raise UserError(f"{where}: {problem}: {shown(line)}. {_LINE_FIX}")
    return Sentence(text, label)


def by_label(sentences: Iterable[Sentence]) -> dict[str, list[str]]:
    """Returns label -> texts, with the labels in order of first appearance."""
    found: dict[str, list[str]] = {}
    for sentence in sentences:
        found.setdefault(sentence.label, []).append(sentence.text)
    return found


def distinct(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Returns one sentence for each text, in order of first appearance.

    If a text has several labels (one test line of HuffPost, three of Amazon), the last
    label is used, as in the code of Wei et al.
    """
    last = {sentence.text: sentence for sentence in sentences}
    return list(last.values())


def few_shot(
    sentences: Sequence[Sentence], per_label: int | None, seed: int
) -> list[Sentence]:
    """Returns `per_label` random sentences of each label.

    One `random.Random(seed)` draws for the labels in order of first appearance, as in
    the code of Wei et al. and of Lu and Lam.

    Args:
        sentences: the training sentences; a repeated text may be drawn twice.

    Raises:
        UserError: a label has fewer sentences.
    """
    if per_label is None:
        return list(sentences)
    if per_label < 1:
        raise UserError(f"few-shot set: {per_label} sentences a label; take 1 or more.")
    generator = random.Random(seed)
    drawn = []
    for label, texts in by_label(sentences).items():
        if len(texts) < per_label:
            raise UserError(
                f"few-shot set: label {shown(label)} has {len(texts)} sentences, "
                f"{per_label} are asked for. Take fewer, or all (None)."
            )
        drawn += [Sentence(text, label) for text in generator.sample(texts, per_label)]
    return drawn
