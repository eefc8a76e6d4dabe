"""The arguments of verbs that show things; importing this is cheap."""

import argparse

from jaxaug.core import arguments


def add_errors(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `errors`."""
    text = (
        "where a run fails: which slots, under which wording of the schema, with "
        "examples"
    )
    parser = arguments.verb(verbs, "errors", "jaxaug.look.errors:run", text)
    parser.add_argument(
        "run", metavar="RUN", help="folder of a run that has been evaluated"
    )
    parser.add_argument("--html", metavar="FILE", help="page to write, self-contained")
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="a task such as d3st_sgdx_v1, or a format such as t5dst (default: "
        "everything evaluated, if it is in one format)",
    )
    parser.add_argument(
        "--limit",
        type=arguments.whole(arguments.MANY),
        default=5,
        metavar="N",
        help="rows of each printed table; examples of each slot and kind of failure on "
        "the page (default: 5)",
    )
    parser.add_argument(
        "--data_dir",
        help="the data of the evaluation (default: $JAXAUG_DATA_DIR, else the folder "
        "that the run recorded, else the embedded MiniSGD)",
    )
    parser.add_argument(
        "--split",
        choices=("train", "dev", "test"),
        help="the split of the evaluation (default: as in the run's report, else test)",
    )
    parser.add_argument(
        "--exact", action="store_true", help="exact instead of fuzzy value match"
    )


def add_tasks(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `tasks`."""
    text = "list tasks and mixtures of the data folder with splits, sizes and parts"
    parser = arguments.verb(verbs, "tasks", "jaxaug.look.tasks:run", text)
    parser.add_argument(
        "name",
        metavar="NAME-GLOB",
        nargs="?",
        default="*",
        help="only matching names, such as 'd3st_*x' (default: all)",
    )
    arguments.data_dir(parser)
    parser.add_argument(
        "--count",
        action="store_true",
        help="count the examples of large data sets too",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also list other tasks: pairs of texts, and Persona-Chat",
    )
