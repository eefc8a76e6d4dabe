"""The launched program, checked as far as possible before it costs money."""

import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gin import config_parser

from jaxaug.core import bundled
from jaxaug.core.errors import UserError
from jaxaug.core.files import is_remote
from jaxaug.core.suggestion import suggestion
from jaxaug.launch import templates
from jaxaug.launch.arguments import Program

_OUTPUTS = {
    "train": "MODEL_DIR",
    "eval": "EVAL_OUTPUT_DIR",
    "infer": "INFER_OUTPUT_DIR",
}
_QUOTES = "\"'"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def words(arguments: Program, here: bool = False) -> list[str]:
    """Returns the program and its flags, as launch/entry.sh takes them.

    Args:
        here: whether the program runs in the current folder instead of the checkout.

    Raises:
        UserError: no gin file is given, one is missing, or gin cannot read a value.
    """
    if not arguments.gin_file:
        raise UserError(
            "no gin file: name the experiment with --gin_file, such as "
            "--gin_file configs/d3st_aug.gin."
        )
    places = _search_paths(arguments.flags)
    for file in arguments.gin_file:
        if not is_remote(file):
            _check_file(file, places, here)
    for word in arguments.flags:
        _check_value(word)
    return [
        f"t5x.{arguments.program}",
        *(f"--gin_file={file}" for file in arguments.gin_file),
        *arguments.flags,
    ]


def _search_paths(flags: Sequence[str]) -> list[str]:
    """Returns the value of the last --gin_search_paths, which the program uses."""
    given = [word.partition("=") for word in flags]
    texts = [value for name, _, value in given if name == "--gin_search_paths"]
    return texts[-1].split(",") if texts else ["."]


def _check_file(file: str, places: list[str], here: bool) -> None:
    root = templates.root()
    if not here and Path(file).is_absolute():
        raise UserError(
            f"--gin_file {file}: the other machines have only the checkout; give a "
            f"path inside it, relative to {root}, or a gs:// address."
        )
    # The program looks below its start folder, then next to t5x and in the packages
    # that offer gin files, of which the checkout is one.
    start = Path() if here else root
    folders = [*(start / place for place in places), root / "runtime", root]
    if here:
        folders += map(Path, bundled.folders_of_configs())
    if any((folder / file).is_file() for folder in folders):
        return
    known = {
        str(path.relative_to(folder))
        for folder, part in ((root, "configs"), (root / "runtime", "t5x"))
        for path in (folder / part).rglob("*.gin")
    }
    where = f"the current folder or {root}" if here else str(root)
    raise UserError(
        f"--gin_file {file}: no such file in {where}; {suggestion(file, known)}"
    )


class _AsWritten(config_parser.ParserDelegate):
    """Keeps references and macros as texts: only the program knows their meaning."""

    def configurable_reference(
        self, scoped_configurable_name: str, evaluate: bool
    ) -> str:
        return f"@{scoped_configurable_name}"

    def macro(self, macro_name: str) -> str:
        return f"%{macro_name}"


def _check_value(word: str) -> Any:
    """Returns the value of `--gin.NAME=VALUE`, or None for any other flag.

    Without this check a queued job would fail hours later.

    Raises:
        UserError: gin cannot read it.
    """
    name, _, value = word.partition("=")
    if not name.startswith("--gin."):
        return None
    try:
        (found,) = config_parser.ConfigParser(f"x = {value}", _AsWritten())
    except (SyntaxError, ValueError, tokenize.TokenError) as error:
        raise UserError(
            f"{word}: is no value of gin; a text needs quotes of its own, which the "
            f'shell leaves in place: {name}=\\"{value.strip(_QUOTES)}\\".'
        ) from error
    return found.value


def require_remote_output(arguments: Program) -> None:
    """Checks that a run writes to storage that remains when its machines are deleted.

    Raises:
        UserError: the output folder is missing, or is not a gs:// address.
    """
    name = _OUTPUTS[arguments.program]
    fix = f"""give --gin.{name}=\\"gs://BUCKET/FOLDER\\", with the quotes."""
    given = [word for word in arguments.flags if word.startswith(f"--gin.{name}=")]
    if not given:
        raise UserError(
            f"{name} is not given: what is written to the machines is lost with them; "
            f"{fix}"
        )
    if not str(_check_value(given[-1])).startswith("gs://"):
        raise UserError(
            f"{given[-1]}: what is written to the machines is lost with them; {fix}"
        )


def environment(pairs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields (name, value) of each `NAME=VALUE`.

    Raises:
        UserError: an item has another form.
    """
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            raise UserError(
                f"--env {pair}: give NAME=VALUE, such as JAXAUG_DATA_DIR=gs://B/sgd."
            )
        yield name, value
