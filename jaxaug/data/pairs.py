"""Reads pairs of texts with the same meaning from files, and splits them."""

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text
from jaxaug.core.text import clean
from jaxaug.data import folders, rewordings

PARAPHRASES_VARIABLE = "JAXAUG_PARAPHRASES"
QUORA, TWITTER = "quora", "twitter"
SPLITS = ("train", "validation", "test")
_VALIDATION_SHARE = 20  # One group of pairs in 20 is for validation.

Pairs = list[tuple[str, str]]


def of_two_files(folder: PathLike, split: str, fix: str) -> Pairs:
    """Returns the pairs of lines of `<split>.source.txt` and `<split>.target.txt`.

    Args:
        folder: folder of the files, such as Quora's duplicate questions.
        split: "train" or "test".
        fix: advice for the error message if the files are missing.

    Raises:
        UserError: a file is missing or unreachable, or the files differ in length.
    """
    sources, targets = (
        read_text(epath.Path(folder) / f"{split}.{side}.txt", fix).splitlines()
        for side in ("source", "target")
    )
    if len(sources) != len(targets):
        raise UserError(
            f"{folder}: {split}.source.txt has {len(sources)} lines and "
            f"{split}.target.txt {len(targets)}; expected equal numbers. Get them "
            "again."
        )
    return list(zip(sources, targets, strict=True))


def of_table(path: PathLike, fix: str, labeled: bool = False) -> Pairs:
    """Returns the (input, paraphrase) pairs of a file, unchanged.

    Args:
        path: file with an input, a tab, and a paraphrase in each line.
        fix: last sentence of error messages.
        labeled: whether a third column says with 1 or 0 if the texts are paraphrases;
            pairs with 0 are left out.

    Raises:
        UserError: a line does not have these columns, or has an empty one.
    """
    expected = "an input, a tab and a paraphrase" + labeled * ", a tab and 0 or 1"
    found = []
    for number, line in enumerate(read_text(path, fix).splitlines(), 1):
        columns = [column.strip() for column in line.split("\t")]
        label = columns[2] if labeled and len(columns) > 2 else "1"
        if len(columns) != 2 + labeled or not all(columns) or label not in ("0", "1"):
            raise UserError(
                f"{path}: line {number} has {len(columns)} columns, of which "
                f"{columns.count('')} are empty; expected {expected}. {fix}"
            )
        if label == "1":
            found.append((columns[0], columns[1]))
    return found


def lowered(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """Returns the distinct pairs in lower case, without pairs of two equal texts."""
    found = dict.fromkeys((clean(a, True), clean(b, True)) for a, b in pairs)
    return [pair for pair in found if pair[0] != pair[1]]


def unseen(pairs: Sequence[tuple[str, str]], train: Iterable[tuple[str, str]]) -> Pairs:
    """Returns the pairs whose texts do not occur in `train`, on either side."""
    known = {text for pair in train for text in pair}
    return [pair for pair in pairs if not known.intersection(pair)]


def both_ways(pairs: Sequence[tuple[str, str]]) -> Pairs:
    """Returns the pairs followed by the swapped pairs, without repetitions."""
    return list(dict.fromkeys([*pairs, *((b, a) for a, b in pairs)]))


def held_out(
    pairs: Sequence[tuple[str, str]], validation: bool, by_input: bool = False
) -> Pairs:
    """Returns the pairs for validation, about one in 20, or the remaining pairs.

    Pairs that share a text, directly or through other pairs, form a group. A group is
    not divided, so that no text is on both sides. The hash of its first text decides.

    Args:
        validation: whether to return the pairs for validation.
        by_input: whether only pairs with the same input form a group.
    """
    parents: dict[str, str] = {}

    def first_of_group(text: str) -> str:
        while (above := parents.setdefault(text, text)) != text:
            parents[text] = text = parents[above]
        return text

    order = {
        text: i for i, text in enumerate(t for pair in pairs[::-1] for t in pair[::-1])
    }
    for left, right in [] if by_input else pairs:
        one, other = first_of_group(left), first_of_group(right)
        # The text that is first in the list has the larger position in `order`.
        if order[one] < order[other]:
            one, other = other, one
        parents[other] = one
    return [
        pair
        for pair in pairs
        if (zlib.crc32(first_of_group(pair[0]).encode()) % _VALIDATION_SHARE == 0)
        == validation
    ]


@dataclass(frozen=True)
class Source:
    """Pairs with three splits, read on demand.

    Attributes:
        name: name for messages.
        read: returns the unchanged pairs of `train` or `test`.
        has_test: whether there is a split `test`.
        by_input: see `held_out`.
    """

    name: str
    read: Callable[[str], Pairs]
    has_test: bool = True
    by_input: bool = False

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return SPLITS if self.has_test else SPLITS[:2]

    def of_split(self, split: str, both: bool = False) -> Pairs:
        """Returns the pairs of a split in lower case.

        Args:
            split: "train" or "validation" divide the training pairs (`held_out`);
                "test" gives the test pairs without texts of training pairs (`unseen`).
            both: whether training pairs are also returned swapped.

        Raises:
            UserError: a file is missing or invalid, or has no pair for the split.
        """
        train = self.read("train")
        if split == "test":
            chosen = lowered(unseen(self.read("test"), train))
        else:
            chosen = held_out(lowered(train), split == "validation", self.by_input)
        if not chosen:
            raise UserError(
                f"{self.name}: holds no pair for the {split} split. "
                + (
                    "Every test pair shares a text with the training pairs. Add more."
                    if split == "test"
                    else f"About one input in {_VALIDATION_SHARE} is for validation; "
                    "all others are for training. Add more inputs."
                )
            )
        return both_ways(chosen) if both and split == "train" else chosen


def quora() -> Source:
    """Returns Quora's duplicate questions, from `$JAXAUG_TEXT_DIR/quora`."""

    def read(split: str) -> Pairs:
        folder = folders.text_dir("The task of Quora's questions") / QUORA
        return of_two_files(folder, split, f"Correct ${folders.TEXT_DIR_VARIABLE}.")

    return Source("quora", read)


def twitter() -> Source:
    """Returns the paraphrases of Lan et al. (2017), from `$JAXAUG_TEXT_DIR/twitter`.

    `train.tsv` and `test.tsv` have labeled pairs; see `of_table`.
    """

    def read(split: str) -> Pairs:
        folder = folders.text_dir("The task of Twitter's pairs") / TWITTER
        fix = f"Correct ${folders.TEXT_DIR_VARIABLE}."
        return of_table(folder / f"{split}.tsv", fix, labeled=True)

    return Source("twitter", read)


class Rewordings(Source):
    """The pairs of the corpus of rewordings, with its own splits."""

    def of_split(self, split: str, both: bool = False) -> Pairs:
        """Returns the (text, rewording) pairs of a split in lower case."""
        chosen = lowered(self.read(split))
        return both_ways(chosen) if both and split == "train" else chosen


def table(path: PathLike, by_input: bool = False) -> Source:
    """Returns the pairs of `NAME.tsv`; `NAME.test.tsv` may have test pairs.

    Args:
        path: path of `NAME.tsv`.
    """
    test = epath.Path(path).with_suffix(".test.tsv")
    files = {"train": path, "test": test}
    fix = f"Correct the file, or ${PARAPHRASES_VARIABLE}."

    def read(split: str) -> Pairs:
        return of_table(files[split], fix)

    return Source(str(path), read, test.is_file(), by_input)


def named(taken: Iterable[str] = ()) -> Mapping[str, Source]:
    """Returns pairs by name: `quora`, `twitter`, `rewordings`, and files.

    Files come from `$JAXAUG_PARAPHRASES`. The name of a file is its stem.

    Args:
        taken: names that files must not have.

    Raises:
        UserError: a file is missing, or its stem is taken or cannot name a task.
    """
    sources = {
        QUORA: quora(),
        TWITTER: twitter(),
        rewordings.NAME: Rewordings(rewordings.NAME, rewordings.pairs),
    }
    taken = {*taken, *sources}
    for path in folders.paths_of_variable(PARAPHRASES_VARIABLE):
        if not path.is_file():
            raise UserError(
                f"{path} (of ${PARAPHRASES_VARIABLE}): no such file. Correct the file, "
                f"or ${PARAPHRASES_VARIABLE}."
            )
        name = path.stem
        if not re.fullmatch(r"\w+", name) or name in taken:
            raise UserError(
                f"{path}: {name!r} becomes part of a task name, must be of letters, "
                "digits and underscores, and no other file or variants folder may "
                "have it. Rename the file."
            )
        taken.add(name)
        sources[name] = table(path)
    return sources
