"""The arguments of `jaxaug invent`; cheap to import."""

import argparse

from jaxaug.core import arguments


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `invent`."""
    invent = arguments.verb(
        verbs,
        "invent",
        "jaxaug_papers.mini.run:run",
        "write invented services, dialogues, exercises and a vocabulary, the training "
        "data of configs/pretrain_mini.gin",
    )
    invent.add_argument("--out", required=True, help="folder to write")
    for name, count, text in (
        ("services", 12_000, "invented services of the train split"),
        ("dialogues", 50_000, "their dialogues"),
        ("exercises", 300_000, "lines of exercises.tsv"),
        ("pieces", 3072, "size of the vocabulary"),
        ("seed", 0, "a different seed gives different data"),
    ):
        invent.add_argument(
            f"--{name}",
            type=arguments.whole(2**31 - 1),
            default=count,
            help=f"{text} (default: {count})",
        )
    invent.add_argument(
        "--reword",
        action="store_true",
        help="also describe slots of MiniSGD in other ways with the same words",
    )
