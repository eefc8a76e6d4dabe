"""Labelled sentences as lines `label<TAB>sentence`, and the few of them that are drawn.

The data sets are those of Wei et al. (2021), "Few-Shot Text Classification with Triplet
Networks, Data Augmentation, and Curriculum Learning": `huff` (HuffPost, 41 classes),
`covidclu` (COVID-Q, 87), `amzn` (Amazon products, 318). Any other folder with
`train.txt` and `test.txt` of lines `label<TAB>sentence` will do.
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
    """A sentence of a class.

    Attributes:
      text: as it stands in the file; spaces at its end are part of it.
      label: any text without a tab, such as `6`.
    """

    text: str
    label: str


@dataclass(frozen=True, slots=True)
class FewShotData:
    """A data set.

    Attributes:
      name: of its folder.
      train: every sentence to train on, in its order, repetitions included.
      test: the sentences to test with; `load` takes the distinct ones of `test.txt`.
      labels: of train, in the order in which they first appear.
    """

    name: str
    train: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    labels: tuple[str, ...]

    @property
    def overlap(self) -> int:
        """How many test sentences are training sentences, whatever their label."""
        known = {sentence.text for sentence in self.train}
        return sum(sentence.text in known for sentence in self.test)


def load(folder: PathLike) -> FewShotData:
    """The data set in a folder with `train.txt` and `test.txt`.

    Raises:
      UserError: a file is missing or damaged, or a label of test is not in train.
    """
    place = epath.Path(folder)
    train, test = (read(place / f"{split}.txt") for split in ("train", "test"))
    return checked(place, train, distinct(test), _FIX)


def checked(
    folder: PathLike, train: Sequence[Sentence], test: Sequence[Sentence], fix: str
) -> FewShotData:
    """The data set of a folder.

    Args:
      folder: names the data set, and errors.
      train: every sentence.
      test: every sentence.
      fix: ends every error message.

    Raises:
      UserError: a split is empty, all of train has one label, or a label of test is not
        in train.
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
    """The sentences of a file, in its order; spaces at their ends are kept.

    Raises:
      UserError: no such file, it is empty, or a line is not `label<TAB>sentence`.
    """
    # Not `splitlines`, which also ends a line at separators inside a sentence.
    lines = read_text(path, _FIX).removesuffix("\n").split("\n")
    if lines == [""]:
        raise UserError(f"{path}: the file is empty. {_FIX}")
    return [
        parse_line(line, f"{path}: line {number}")
        for number, line in enumerate(lines, 1)
    ]


def parse_line(line: str, where: str) -> Sentence:
    """The sentence of a line.

    Args:
      line: without its line feed.
      where: names file and line in errors.

    Raises:
      UserError: the line is not a label, one tab and a text with a word in it.
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
    """Label -> its texts; labels in the order in which they first appear."""
    found: dict[str, list[str]] = {}
    for sentence in sentences:
        found.setdefault(sentence.label, []).append(sentence.text)
    return found


def distinct(sentences: Iterable[Sentence]) -> list[Sentence]:
    """One sentence for each text, in the order of the first ones.

    Of a text with several labels (one test line of HuffPost, three of Amazon) the last
    one counts, as in the code of Wei et al., so that accuracies are comparable.
    """
    last = {sentence.text: sentence for sentence in sentences}
    return list(last.values())


def few_shot(
    sentences: Sequence[Sentence], per_label: int | None, seed: int
) -> list[Sentence]:
    """The sentences that a seed draws, `per_label` of each label.

    Draws as Wei et al. and Lu and Lam do: one `random.Random(seed)` goes through the
    labels in the order in which they first appear, not sorted.

    Args:
      sentences: of training; a text may be drawn twice if it is there twice.
      per_label: None takes all of them, whatever the seed.

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
