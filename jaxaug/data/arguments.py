"""The arguments of verbs about one's own data; importing this is cheap."""

import argparse


def add_check(group: argparse._SubParsersAction) -> None:
    """Adds `check` to the commands of `jaxaug data`."""
    text = "says everything that is wrong in a data folder, with file, line and fix"
    parser = group.add_parser("check", help=text, description=text)
    parser.set_defaults(target="jaxaug.data.inspect_folder:run")
    _dir(parser)


def _dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "dir",
        metavar="DIR",
        nargs="?",
        help="folder in the layout of the SGD repository, local or gs:// "
        "(default: $JAXAUG_DATA_DIR, else the embedded MiniSGD)",
    )


def add_show(group: argparse._SubParsersAction) -> None:
    """Adds `show` to the commands of `jaxaug data`."""
    text = "dialogues with their states, and what each turn changes"
    parser = group.add_parser("show", help=text, description=text)
    parser.set_defaults(target="jaxaug.data.show:run")
    _dir(parser)
    parser.add_argument(
        "--split", choices=("train", "dev", "test"), help="(default: all, train first)"
    )
    parser.add_argument("--dialogue", metavar="ID", help="that one alone")
    parser.add_argument("--service", metavar="NAME", help="dialogues about it")
    parser.add_argument(
        "--num", type=int, default=3, metavar="N", help="how many (default: 3)"
    )
    parser.add_argument(
        "--no-color",
        action="store_true",
        help="plain text on a terminal too, as with $NO_COLOR",
    )


def add_init(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `init`."""
    text = (
        "write an example of own data: 2 services, 20 dialogues, every field explained"
    )
    parser = verbs.add_parser("init", help=text, description=text)
    parser.set_defaults(target="jaxaug.data.example:run")
    parser.add_argument(
        "dir", metavar="DIR", help="new or empty folder, local or gs://"
    )
