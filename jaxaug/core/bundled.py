"""Locations of tasks/ and configs/: next to this package in a checkout, inside a wheel.

A wheel does not claim the name `tasks`, which belongs to users; see setup.py.
"""

from pathlib import Path

from absl import logging

import jaxaug

_PACKAGE = Path(jaxaug.__file__).resolve().parent
_INSIDE = (_PACKAGE / "tasks").is_dir()
_WHEEL = "jaxaug.tasks"
GROUP = "t5x.gin_search_paths"
"""Group of entry points: functions without arguments that return a configs/ folder."""


def tasks_module(name: str = "tasks") -> str:
    """Returns the name under which a module of tasks/ can be imported here."""
    if _INSIDE and (name == "tasks" or name.startswith("tasks.")):
        return f"jaxaug.{name}"
    return name


def name_in_checkout(name: str) -> str:
    """Inverts `tasks_module` in any installation; files store the checkout name."""
    if name == _WHEEL or name.startswith(f"{_WHEEL}."):
        return name.removeprefix("jaxaug.")
    return name


def folder_of_configs() -> str:
    """Returns the folder that contains configs/.

    An entry point of pyproject.toml names this function to the T5X programs. They look
    there for gin files that the current folder lacks.
    """
    return str(_PACKAGE if _INSIDE else _PACKAGE.parent)


def folders_of_configs() -> list[str]:
    """Returns the folders of all installed packages that contain configs/, jaxaug
    first.

    Other packages use the same entry point. A folder whose entry point fails is skipped
    with a warning, because most commands do not need it.
    """
    # This import costs more than all others of argument parsing.
    from importlib import metadata

    found = [folder_of_configs()]
    for entry in sorted(metadata.entry_points(group=GROUP)):
        try:
            found.append(str(entry.load()()))
        except (ImportError, AttributeError) as error:
            logging.warning(
                "the configs of %s are not found: %s (%s) fails with %r. Install that "
                "package again.", entry.name, entry.value, GROUP, error,
            )  # fmt: skip
    return list(dict.fromkeys(found))
