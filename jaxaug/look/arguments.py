"""The arguments of verbs that show things; importing this is cheap."""

import argparse

from jaxaug.core import arguments


def add_errors(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `errors`."""
    text = "where a run fails: which slots, under which wording of the schema, with examples"
    parser = verbs.add_parser("errors", help=text, description=text)
    parser.set_defaults(target="jaxaug.look.errors:run")
    parser.add_argument(
        "run", metavar="RUN", help="folder of a run that has been evaluated"
    )
    parser.add_argument(
        "--html", metavar="FILE", help="page to write: all of it in one file"
    )
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="a task such as d3st_sgdx_v1, or a format such as t5dst (default: all that "
        "was evaluated, if it is of one format)",
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=5,
        metavar="N",
        help="rows of each printed table; examples of each slot and kind of failure on "
        "the page (default: 5)",
    )
    parser.add_argument(
        "--data_dir",
        help="the data that was evaluated (default: $JAXAUG_DATA_DIR, else what the run "
        "noted, else the embedded MiniSGD)",
    )
    parser.add_argument(
        "--split",
        choices=("train", "dev", "test"),
        help="that was evaluated (default: what the run's report says, else test)",
    )
    parser.add_argument(
        "--exact", action="store_true", help="exact instead of fuzzy value match"
    )


def add_tasks(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `tasks`."""
    text = "tasks and mixtures of the data folder: splits, numbers of examples, parts"
    parser = verbs.add_parser("tasks", help=text, description=text)
    parser.set_defaults(target="jaxaug.look.tasks:run")
    parser.add_argument(
        "name",
        metavar="NAME-GLOB",
        nargs="?",
        default="*",
        help="those of such names, as in 'd3st_*x' (default: all)",
    )
    arguments.data_dir(parser)
    parser.add_argument(
        "--count",
        action="store_true",
        help="read large data too, to count their examples",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="what is registered with SeqIO alone as well; loads TensorFlow",
    )
