"""A broken rule in a data file, with its place in the file."""

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
        rule: short name of the rule, such as `unknown slot`.
        keys: path of the value in the JSON of its file.
        place: path in words, such as `dialogue '1_00000', turn 0`; may be empty.
        text: the expected and the actual value.
        fix: sentence with advice for the user.
        is_note: whether readers accept the value, and it may be intended.
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
    """Raises `UserError` with the first problem, if there is one."""
    if problems:
        raise UserError(f"{path}: {problems[0]}")
