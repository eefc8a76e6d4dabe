"""The arguments of `jaxaug fewshot`; cheap to import."""

import argparse

from jaxaug.core import arguments


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `fewshot`."""
    parser = arguments.verb(
        verbs,
        "fewshot",
        "jaxaug_papers.pcc.fewshot.run:run",
        "few-shot text classification: every method of a table, for several seeds",
    )
    parser.add_argument(
        "--config", required=True, help=arguments.CONFIG.format("fewshot")
    )
    parser.add_argument(
        "--data_dir", help="folder with fewshot/ and pcc/ (default: from the config)"
    )
    parser.add_argument(
        "--encoder", help="an encoder of `jaxaug models list`, or static:NAME"
    )
    parser.add_argument("--out", help="folder to write (default: from the config)")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--dry_run", action="store_true", help="print the schedules and stop"
    )
    group.add_argument(
        "--texts",
        help="write the few-shot sentences to this file, one per line, and stop",
    )
