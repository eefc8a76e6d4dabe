"""Texts with their paraphrases by level of difficulty, and their file formats."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxaug.core import json_reader
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_pairs, read_text, shown, write_text
from jaxaug.curriculum.difficulty import LEVELS, difficulty

_LEVELS_FIX = "Write it again with `jaxaug levels`."
_RELEASED_FIX = "Get it again from the repository of PCC's authors."
_SEPARATOR = " $ "


@dataclass(frozen=True, slots=True)
class Levelled:
    """A text and its paraphrases.

    Attributes:
        text: the original.
        levels: `levels[0]` is `(text,)`; then the paraphrases of level 1..C follow,
            most similar first. A level may be empty.
    """

    text: str
    levels: tuple[tuple[str, ...], ...]

    def at(self, level: int) -> tuple[str, ...]:
        """Returns the texts of a level; if it is empty, of the next easier one.

        Level 0 is never empty, so a text without paraphrases represents itself.

        Raises:
            UserError: there is no such level.
        """
        if not 0 <= level < len(self.levels):
            raise UserError(
                f"curriculum: {shown(self.text)} has levels 0 to "
                f"{len(self.levels) - 1}, not {level}. Use a schedule with as many "
                "levels as the file has."
            )
        return next(filter(None, self.levels[level::-1]))


class Scored(NamedTuple):
    """A released paraphrase with its scores.

    Attributes:
        text: the paraphrase.
        implied: whether it and its original imply each other; None if unknown.
        similarity: BLEURT against the original, by a checkpoint like bleurt-base-128.
    """

    text: str
    implied: bool | None
    similarity: float


def levelled(
    text: str,
    paraphrases: Sequence[str],
    similarity: Sequence[float],
    levels: int = LEVELS,
) -> Levelled:
    """Sorts the paraphrases of a text into levels; see `difficulty.difficulty`."""
    values = np.asarray(similarity, np.float64)
    found = difficulty(values, levels)
    order = np.argsort(-values, kind="stable")
    return Levelled(
        text,
        (
            (text,),
            *(
                tuple(paraphrases[i] for i in order if found[i] == level)
                for level in range(1, levels + 1)
            ),
        ),
    )


def write(path: PathLike, texts: Iterable[Levelled]) -> None:
    """Writes JSON lines of `{"text": ..., "levels": [[level 1], ..., [level C]]}`."""
    lines = [
        json.dumps({"text": item.text, "levels": item.levels[1:]}, ensure_ascii=False)
        for item in texts
    ]
    write_text(path, "".join(f"{line}\n" for line in lines))


def read(path: PathLike) -> list[Levelled]:
    """Reads the texts of a file of `write`, in file order.

    Raises:
        UserError: the file does not exist, or a line is damaged, repeats a text, or has
            another number of levels than the first.
    """
    found: dict[str, Levelled] = {}
    for number, line in _lines(path, _LEVELS_FIX):
        item = _parsed(f"{path}: line {number}", line)
        if item.text in found:
            raise UserError(
                f"{path}: line {number}: {shown(item.text)} comes twice. {_LEVELS_FIX}"
            )
        first = next(iter(found.values()), item)
        if len(item.levels) != len(first.levels):
            raise UserError(
                f"{path}: line {number}: {len(item.levels) - 1} levels, the first line "
                f"has {len(first.levels) - 1}. {_LEVELS_FIX}"
            )
        found[item.text] = item
    if not found:
        raise UserError(f"{path}: holds no text. {_LEVELS_FIX}")
    return list(found.values())


def _parsed(where: str, line: str) -> Levelled:
    try:
        record = json_reader.decoded(line, halves=True)
    except ValueError:
        record = None
    record = record if isinstance(record, dict) else {}
    text, levels = record.get("text"), record.get("levels")
    if not (
        isinstance(text, str)
        and isinstance(levels, list)
        and all(isinstance(level, list) for level in levels)
        and all(isinstance(item, str) for level in levels for item in level)
    ):
        raise UserError(
            f"{where}: expected an object with a text and lists of texts as levels, "
            f"got {shown(line)}. {_LEVELS_FIX}"
        )
    check_pairs([text, levels], where, _LEVELS_FIX)
    return Levelled(text, ((text,), *map(tuple, levels)))


def released_huffpost(path: PathLike, levels: int = LEVELS) -> list[Levelled]:
    """Reads PCC's released HuffPost paraphrases, `aug_huff_train_s*.txt`.

    A line is `original $ paraphrase $ MI label $ BLEURT`; the filter of equation 3 is
    already applied. The texts are in order of first appearance, with their trailing
    spaces. There are 410 texts with 20 paraphrases each. Seed 1 is different: it has
    409 texts with 2 to 40 paraphrases, because some were filtered and one text was
    drawn twice.

    Raises:
        UserError: the file does not exist, or a line does not have the four parts.
    """
    return [
        levelled(
            text,
            [item.text for item in items],
            [item.similarity for item in items],
            levels,
        )
        for text, items in scored_huffpost(path).items()
    ]


def scored_huffpost(path: PathLike) -> dict[str, list[Scored]]:
    """Returns original -> paraphrases in file order; see `released_huffpost`."""
    found: dict[str, list[Scored]] = {}
    for number, line in _lines(path, _RELEASED_FIX):
        # A paraphrase may contain the separator; an original or a score does not.
        original, _, rest = line.partition(_SEPARATOR)
        parts = rest.rsplit(_SEPARATOR, 2)
        try:
            text, label, score = parts
            item = Scored(text, {"0": False, "1": True}[label], float(score))
        except (ValueError, KeyError):
            raise UserError(
                f"{path}: line {number}: expected `original $ paraphrase $ 0 or 1 $ "
                f"score`, got {shown(line)}. {_RELEASED_FIX}"
            ) from None
        found.setdefault(original, []).append(item)
    return found


def released_persona(path: PathLike, levels: int = LEVELS) -> list[Levelled]:
    """Reads PCC's released Persona-Chat paraphrases, `persona_paraphrases.jsonl`.

    The file has 2,692 traits with 20 paraphrases each. Its last trait, marked
    `truncated`, is skipped, because some of its paraphrases were lost. Four paraphrases
    without a word are skipped as well, so a few levels have three texts.

    Raises:
        UserError: the file does not exist, or a line is damaged.
    """
    found = []
    for trait, items in scored_persona(path).items():
        full = [item for item in items if item.text]
        found.append(
            levelled(
                trait,
                [item.text for item in full],
                [item.similarity for item in full],
                levels,
            )
        )
    return found


def scored_persona(path: PathLike) -> dict[str, list[Scored]]:
    """Returns trait -> paraphrases in file order; see `released_persona`.

    The last 4 of 20 come from bottom-k. Paraphrases without a word are included, so
    that positions are kept.
    """
    found: dict[str, list[Scored]] = {}
    for number, line in _lines(path, _RELEASED_FIX):
        try:
            record = json_reader.decoded(line)
            trait = str(record["trait"])
            truncated = bool(record.get("truncated"))
            items = [
                Scored(str(one["text"]).strip(), None, float(one["score"]))
                for one in ([] if truncated else record["paraphrases"])
            ]
        except (ValueError, TypeError, KeyError, OverflowError):
            raise UserError(
                f"{path}: line {number}: expected an object with a trait and its "
                f"paraphrases, each with a text and a score. {_RELEASED_FIX}"
            ) from None
        if not truncated:
            found.setdefault(trait, []).extend(items)
    return found


def _lines(path: PathLike, fix: str) -> list[tuple[int, str]]:
    """Returns (number, line) of each non-empty line; only a line feed ends a line."""
    lines = read_text(path, fix).removesuffix("\n").split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line]
