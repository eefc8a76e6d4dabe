"""The scripts and manifests of the folder launch/, put together with arguments."""

import dataclasses
import shlex
import string
from collections.abc import Mapping, Sequence
from pathlib import Path

from jaxaug.core.errors import UserError

_END = "END_OF_LAUNCH"


@dataclasses.dataclass(frozen=True)
class Launch:
    """A text and the program that takes it.

    Attributes:
        command: the program; a script that it takes as its last argument is not in it.
        text: a script or a manifest.
        by_argument: `text` is the last argument, not the standard input. (What a script
          calls would otherwise read the rest of it.)
    """

    command: tuple[str, ...]
    text: str
    by_argument: bool = False

    def shown(self) -> str:
        """A script of the shell that does the same."""
        line = shlex.join(self.command)
        if self.by_argument:
            return f"{line} \"$(cat <<'{_END}'\n{self.text}{_END}\n)\"\n"
        return f"{line} <<'{_END}'\n{self.text}{_END}\n"


def root() -> Path:
    """The checkout that this package belongs to.

    Raises:
        UserError: it is not run from one.
    """
    folder = Path(__file__).resolve().parents[2]
    if not (folder / "launch" / "entry.sh").is_file():
        raise UserError(
            f"{folder} has no folder launch/: `jaxaug launch` sends a checkout to the "
            "other machines. Clone the repository and run `make install` there."
        )
    return folder


def body(name: str) -> str:
    """A script of launch/, without its first line and the comment under it."""
    lines = (root() / "launch" / name).read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(lines[first:]) + "\n"


def head(variables: Mapping[str, str], words: Sequence[str] = ()) -> str:
    """Lines that export variables and make `words` the arguments of the script."""
    lines = [f"export {name}={shlex.quote(text)}" for name, text in variables.items()]
    if words:
        lines.append(f"set -- {shlex.join(words)}")
    return "\n".join(lines) + "\n"


def function(name: str, script: str) -> str:
    """A script of launch/ as a function of the shell."""
    return f"{name}() (\n{body(script)})\n"


def manifest(name: str, values: Mapping[str, str]) -> str:
    """A manifest of launch/ with its $names filled in."""
    text = (root() / "launch" / name).read_text(encoding="utf-8")
    return string.Template(text).substitute(values)
