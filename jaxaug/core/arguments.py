"""Arguments shared by several command-line verbs; this module imports quickly."""

import argparse
import re
from collections.abc import Callable
from typing import Any, NoReturn

MAX_SEED = 2**32 - 1
"""Largest seed. JAX keeps 32 bits of a seed, so a larger one would equal a smaller one.
"""

MANY = 1_000_000
"""Maximum number of outputs, rows, steps, or tokens that one command accepts."""

CONFIG = (
    "a file of configs/{}. It is a Python program and is executed, so use only files "
    "you trust; FILE.py:TEXT passes TEXT to its get_config"
)
"""Help text of `--config`, with a placeholder for the folder name."""

_OFFLINE = (
    "download no model; otherwise smollm2 (93 MB) and minilm (84 MB) are fetched at "
    "their first use"
)
_SPLITS = ("train", "dev", "test")
_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest the nearest verb, choice, or option."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses unknown arguments in the verb to which they belong."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = next((one for one in unknown if one.startswith("-")), "")
            options = {o for action in self._actions for o in action.option_strings}
            near = _near(name.partition("=")[0], options) if name else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}.{near}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Adds the nearest choices to the message."""
        if match := _CHOICE.search(message):
            names = [name.strip("'\"") for name in match[2].split(", ")]
            message += f".{_near(match[1], names)}"
        super().error(message.removesuffix("."))


def _near(name: str, known: Any) -> str:
    from jaxaug.core.suggestion import nearest

    return nearest(name, sorted(known))


def whole(most: int) -> Callable[[str], int]:
    """Returns the `type` of an argument that is a whole number of at most `most`.

    Larger numbers overflow arrays, or fill the memory long after the start of the
    command. The verb checks the smallest number.
    """

    def parse(text: str) -> int:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{shown!r} is not a whole number: give one of at most {most:,}"
            ) from None
        if number > most or number < -most:
            raise argparse.ArgumentTypeError(
                f"{shown} is out of range: give a whole number of at most {most:,}"
            )
        return number

    return parse


def verb(
    group: argparse._SubParsersAction, name: str, target: str, text: str
) -> argparse.ArgumentParser:
    """Adds a verb that runs the function `module:function`."""
    parser = group.add_parser(name, help=text, description=text)
    parser.set_defaults(target=target)
    return parser


def data_dir(parser: argparse.ArgumentParser) -> None:
    """Adds `--data_dir`."""
    parser.add_argument(
        "--data_dir",
        help="folder in the layout of the SGD repository, local or gs:// "
        "(default: $JAXAUG_DATA_DIR, else the embedded MiniSGD)",
    )


def offline(parser: argparse.ArgumentParser) -> None:
    """Adds `--offline`, which `cli` turns into an environment variable."""
    parser.add_argument("--offline", action="store_true", help=_OFFLINE)


def trained_run(parser: argparse.ArgumentParser) -> None:
    """Adds `--accept_changed_config` to a verb that may load a training run."""
    parser.add_argument(
        "--accept_changed_config",
        action="store_true",
        help="use the config.gin of a run even if it was changed after training "
        "wrote it",
    )


def engine(parser: argparse.ArgumentParser) -> None:
    """Adds `--engine`; see `jaxaug.models.engine`."""
    parser.add_argument(
        "--engine",
        choices=("jax", "ctranslate2"),
        default="jax",
        help="ctranslate2 (extra engine) converts the model once and then decodes "
        "without JAX (docs/predict.md; default: jax)",
    )


def split(parser: argparse.ArgumentParser) -> None:
    """Adds `--split`."""
    parser.add_argument("--split", choices=_SPLITS, required=True)


def texts(parser: argparse.ArgumentParser) -> None:
    """Adds `--in` and `--column`; see `jaxaug.data.tables`."""
    parser.add_argument(
        "--in",
        dest="input",
        required=True,
        help="UTF-8: .csv, .tsv, .jsonl, otherwise one text per line; - is standard "
        "input",
    )
    parser.add_argument(
        "--column", help="column of the texts (default: text, or the only column)"
    )


def shards(parser: argparse.ArgumentParser) -> None:
    """Adds `--shard` and `--merge`."""
    parser.add_argument(
        "--shard",
        metavar="K/N",
        help="do part K of N (K from 1) and write it to OUT.parts, for N machines",
    )
    parser.add_argument(
        "--merge",
        nargs="*",
        metavar="DIR",
        help="combine all N parts in these folders into OUT (default: OUT.parts)",
    )
