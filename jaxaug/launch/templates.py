"""Scripts and manifests of the folder launch/, with arguments filled in."""

import dataclasses
import shlex
import string
from collections.abc import Mapping, Sequence
from pathlib import Path

from jaxaug.core.errors import UserError

_END = "END_OF_LAUNCH"
_FILE_END = "END_OF_FILE"


@dataclasses.dataclass(frozen=True)
class Launch:
    """A text and the program that reads it.

    Attributes:
        command: program and arguments, without `text`.
        text: a script or a manifest.
        by_argument: whether the program gets `text` as its last argument instead of the
            standard input. Programs that a script on standard input calls could read
            the rest of the script.
    """

    command: tuple[str, ...]
    text: str
    by_argument: bool = False

    def shown(self) -> str:
        """Returns a shell script that performs the launch."""
        line = shlex.join(self.command)
        if self.by_argument:
            return f"{line} \"$(cat <<'{_END}'\n{self.text}{_END}\n)\"\n"
        return f"{line} <<'{_END}'\n{self.text}{_END}\n"


def root() -> Path:
    """Returns the folder of the checkout that contains this package.

    Raises:
        UserError: the package is not in a checkout.
    """
    folder = Path(__file__).resolve().parents[2]
    if not (folder / "launch" / "entry.sh").is_file():
        raise UserError(
            f"{folder} has no folder launch/: `jaxaug launch` sends a checkout to the "
            "other machines. Clone the repository and run `make install` there."
        )
    return folder


def body(name: str) -> str:
    """Returns the text of a script of launch/ without the comments at its head."""
    lines = (root() / "launch" / name).read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(lines[first:]) + "\n"


def head(variables: Mapping[str, str], words: Sequence[str] = ()) -> str:
    """Returns shell lines that export variables and set the arguments of the script.

    Args:
        variables: name -> value of the variables to export.
        words: arguments of the script; empty keeps the present ones.
    """
    lines = [f"export {name}={shlex.quote(text)}" for name, text in variables.items()]
    if words:
        lines.append(f"set -- {shlex.join(words)}")
    return "\n".join(lines) + "\n"


def function(name: str, script: str) -> str:
    """Returns a script of launch/ as a shell function."""
    return f"{name}() (\n{body(script)})\n"


def manifest(name: str, values: Mapping[str, str]) -> str:
    """Returns a manifest of launch/ with its `$NAME` variables replaced.

    Args:
        values: name -> value of every variable.
    """
    text = (root() / "launch" / name).read_text(encoding="utf-8")
    return string.Template(text).substitute(values)


def with_file(text: str, command: str) -> str:
    """Returns shell lines that call a command with a temporary YAML file.

    Args:
        command: shell command; the path of the file follows it.
    """
    return (
        "folder=$(mktemp -d)\ntrap 'rm -r \"$folder\"' EXIT\n"
        f"cat >\"$folder/task.yaml\" <<'{_FILE_END}'\n{text}{_FILE_END}\n"
        f'{command} "$folder/task.yaml"\n'
    )
