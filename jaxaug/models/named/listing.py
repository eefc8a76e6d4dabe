"""`jaxaug models list` and `jaxaug models fetch`."""

import argparse

from jaxaug.models.named import catalogue


def rows() -> list[tuple[str, ...]]:
    """Returns the rows of `jaxaug models list`, without the header."""
    return [
        (
            model.name,
            model.family,
            model.task,
            model.licence,
            f"{model.source}@{model.revision}",
            "on disk" if model.on_disk else "needs the network",
            str(model.folder) if model.on_disk else f"jaxaug models fetch {model.name}",
        )
        for model in catalogue.CATALOGUE.values()
    ]


def run_list(arguments: argparse.Namespace) -> int:
    """Runs the verb; see `jaxaug models list --help`."""
    del arguments
    head = ("NAME", "FAMILY", "TASK", "LICENCE", "SOURCE", "STATE", "FOLDER OR COMMAND")
    table = [head, *rows()]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return 0


def run_fetch(arguments: argparse.Namespace) -> int:
    """Runs the verb; see `jaxaug models fetch --help`."""
    for name in arguments.names:
        print(f"{name}: {catalogue.fetch(name)}")
    return 0
