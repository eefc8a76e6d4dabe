"""The arguments of verbs about one's own data; importing this is cheap."""

import argparse


def add_check(group: argparse._SubParsersAction) -> None:
    """Adds `check` to the commands of `jaxaug data`."""
    text = "says everything that is wrong in a data folder, with file, line and fix"
    parser = group.add_parser("check", help=text, description=text)
    parser.set_defaults(target="jaxaug.data.inspect_folder:run")
    parser.add_argument(
        "dir",
        metavar="DIR",
        nargs="?",
        help="folder in the layout of the SGD repository, local or gs:// "
        "(default: $JAXAUG_DATA_DIR, else the embedded MiniSGD)",
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
