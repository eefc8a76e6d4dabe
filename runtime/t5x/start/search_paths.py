"""Folders of gin files that installed packages offer.

A distribution with gin files registers, under the entry points `t5x.gin_search_paths`,
a function without arguments that returns a folder. Gin files and includes that are
neither in the current folder nor in --gin_search_paths are looked up there.
"""

from importlib import metadata

from t5x.logs.progress import announce

GROUP = "t5x.gin_search_paths"


def offered() -> list[str]:
    """Returns the folders, sorted by the name of the entry point.

    A folder whose entry point fails is skipped with a warning, because another package
    is at fault and most runs do not need it.
    """
    found = []
    for entry in sorted(metadata.entry_points(group=GROUP)):
        try:
            found.append(str(entry.load()()))
        except (ImportError, AttributeError) as error:
            announce(
                f"warning: the gin files of {entry.name} are not found: {entry.value} "
                f"({GROUP}) fails with {error!r}. Install that package again."
            )
    return list(dict.fromkeys(found))
