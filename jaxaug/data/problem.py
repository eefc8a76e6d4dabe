"""One broken rule of a data file, and where in the file it is."""

from dataclasses import dataclass

from jaxaug.core.errors import UserError
from jaxaug.core.files import FETCH_AGAIN, PathLike
from jaxaug.core.json_places import Keys

WRONG_TYPE = "wrong type"
REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class Problem:
    """A value that breaks a rule.

    Attributes:
        rule: a short name for all problems of a kind, such as `unknown slot`.
        keys: of the value in the JSON of its file.
        place: the same in words, such as `dialogue '1_00000', turn 0`; may be empty.
        text: what was expected, and what is there.
        fix: a sentence that tells what to do.
        is_note: whether the readers take it, and data may well be so.
    """

    rule: str
    keys: Keys
    place: str
    text: str
    fix: str = FETCH_AGAIN
    is_note: bool = False

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.text}. {self.fix}"


def refuse(problems: list[Problem], path: PathLike) -> None:
    """Raises `UserError` with the first of the problems, if there is one."""
    if problems:
        raise UserError(f"{path}: {problems[0]}")
