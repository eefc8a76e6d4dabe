"""Where tasks/ and configs/ are: next to this package in a checkout, inside it in a wheel.

A wheel does not claim the name `tasks`, which belongs to users; see setup.py.
"""

from pathlib import Path

from absl import logging

import jaxaug

_PACKAGE = Path(jaxaug.__file__).resolve().parent
_INSIDE = (_PACKAGE / "tasks").is_dir()
_WHEEL = "jaxaug.tasks"
GROUP = "t5x.gin_search_paths"
"""Entry points: functions without arguments that return a folder with configs/."""


def tasks_module(name: str = "tasks") -> str:
    """The name under which a module of tasks/ can be imported here.

    Args:
      name: `tasks`, or that of a module in it, such as `tasks.vocabulary`; others are
        returned as they are.
    """
    if _INSIDE and (name == "tasks" or name.startswith("tasks.")):
        return f"jaxaug.{name}"
    return name


def name_in_checkout(name: str) -> str:
    """The inverse of `tasks_module`, wherever this runs: the name that files keep."""
    if name == _WHEEL or name.startswith(f"{_WHEEL}."):
        return name.removeprefix("jaxaug.")
    return name


def folder_of_configs() -> str:
    """The folder that holds configs/.

    An entry point of pyproject.toml names this function to the T5X programs, which look
    there for gin files that the current folder does not have.
    """
    return str(_PACKAGE if _INSIDE else _PACKAGE.parent)


def folders_of_configs() -> list[str]:
    """The folders of all installed packages that hold configs/, ours first.

    Other packages name theirs by the same entry point. One that cannot be had is left out
    with a warning: most commands do not need it.
    """
    from importlib import metadata  # Costs more than all that parsing imports.

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
