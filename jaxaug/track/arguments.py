"""The arguments of `jaxaug predict`; importing this is cheap."""

import argparse

from jaxaug.core import arguments


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `predict`."""
    parser = arguments.verb(
        verbs,
        "predict",
        "jaxaug.track.run:run",
        "predict the states of dialogues with a trained tracker; the same command resumes "
        "after a stop",
    )
    parser.add_argument(
        "--run", required=True, help="folder of a training run, or a checkpoint in it"
    )
    arguments.trained_run(parser)
    parser.add_argument(
        "--schema",
        help="schema.json with the services (default: those of the data folder)",
    )
    parser.add_argument(
        "--services",
        nargs="+",
        metavar="NAME",
        help="predict only these (default: those listed in the turn or dialogue, else all)",
    )
    parser.add_argument(
        "--in",
        dest="input",
        default="-",
        help="dialogues in the layout of SGD (.json, .jsonl), or lines of USER: and "
        "SYSTEM: (default: standard input)",
    )
    parser.add_argument(
        "--out",
        help="JSON lines to write (.jsonl), or a folder for `jaxaug evaluate sgd` "
        "(default: print JSON lines)",
    )
    parser.add_argument(
        "--batch_size",
        type=arguments.whole(arguments.MANY),
        help="inputs decoded together (default: 8 on a CPU, else 32)",
    )
