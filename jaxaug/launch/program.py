"""The program that is launched, checked where that is possible before it costs money."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from jaxaug.core.errors import UserError
from jaxaug.core.files import is_remote
from jaxaug.core.suggestion import suggestion
from jaxaug.launch import templates

_OUTPUTS = {
    "train": "MODEL_DIR",
    "eval": "EVAL_OUTPUT_DIR",
    "infer": "INFER_OUTPUT_DIR",
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def words(arguments: argparse.Namespace, here: bool = False) -> list[str]:
    """The program and its flags, as launch/entry.sh takes them.

    Args:
      arguments: of the command line: `program`, `gin_file`, `gin`.
      here: it runs in the current folder, not in that of the checkout.

    Raises:
      UserError: there is no gin file, or not that one.
    """
    if not arguments.gin_file:
        raise UserError(
            "no gin file: name the experiment with --gin_file, such as "
            "--gin_file configs/d3st_aug.gin."
        )
    root = templates.root()
    # Where a file is looked for: the start folder of the program, and beside t5x.
    folders = [Path() if here else root, root / "runtime"]
    for file in arguments.gin_file:
        if not is_remote(file):
            _check(file, folders, here)
    return [
        f"t5x.{arguments.program}",
        *(f"--gin_file={file}" for file in arguments.gin_file),
        *arguments.gin,
    ]


def _check(file: str, folders: list[Path], here: bool) -> None:
    if not here and Path(file).is_absolute():
        raise UserError(
            f"--gin_file {file}: the other machines have only the checkout; give a path "
            f"inside it, relative to {folders[0]}, or a gs:// address."
        )
    if any((folder / file).is_file() for folder in folders):
        return
    known = {
        str(path.relative_to(folder))
        for folder, part in ((folders[0], "configs"), (folders[1], "t5x"))
        for path in (folder / part).rglob("*.gin")
    }
    where = "the current folder" if here else str(folders[0])
    raise UserError(
        f"--gin_file {file}: no such file in {where}; {suggestion(file, known)}"
    )


def require_remote_output(arguments: argparse.Namespace) -> None:
    """Checks that a run writes where it outlives its machines.

    Raises:
      UserError: the output folder is not given, or is no gs:// address.
    """
    name = _OUTPUTS[arguments.program]
    fix = f"""give --gin.{name}=\\"gs://BUCKET/FOLDER\\", with the quotes."""
    given = [word for word in arguments.gin if word.startswith(f"--gin.{name}=")]
    if not given:
        raise UserError(
            f"{name} is not given: what is written to the machines is lost with them; "
            f"{fix}"
        )
    value = given[-1].partition("=")[2].strip()
    if value[:1] not in ("'", '"') or value[-1] != value[0]:
        raise UserError(f"--gin.{name}={value}: a text needs quotes of its own; {fix}")
    if not value[1:].startswith("gs://"):
        raise UserError(
            f"--gin.{name}={value}: what is written to the machines is lost with them; "
            f"{fix}"
        )


def environment(pairs: list[str]) -> Iterator[tuple[str, str]]:
    """Names and values of `NAME=VALUE`.

    Raises:
      UserError: one of them has another form.
    """
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            raise UserError(
                f"--env {pair}: give NAME=VALUE, such as JAXAUG_DATA_DIR=gs://B/sgd."
            )
        yield name, value


def at_least(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """A number of the command line.

    Raises:
      UserError: it is too small or too large.
    """
    if value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise UserError(f"--{name} {value}: give at least {least}{upper}.")
    return value
