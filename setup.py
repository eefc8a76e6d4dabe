"""Adds tasks/ and configs/ to wheels; everything else is in pyproject.toml."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

HERE = Path(__file__).resolve().parent
# Users of T5X often name their own module `tasks`, and two modules of that name in an
# environment would hide each other. A wheel therefore holds the folder as
# `jaxaug.tasks`, and imports in modules and gin files are rewritten. A checkout, and
# `pip install -e`, use the folder as it is.
NAMES = (
    (re.compile(r"^(\s*)from tasks\b", re.MULTILINE), r"\1from jaxaug.tasks"),
    (
        re.compile(r"^(\s*)import tasks$", re.MULTILINE),
        r"\1import jaxaug.tasks as tasks",
    ),
)
OTHERS = re.compile(r"^\s*(?:from|import) tasks\b.*", re.MULTILINE)


def renamed(path: Path) -> str:
    """Returns the text of a file with imports of `jaxaug.tasks` instead of `tasks`.

    Raises:
        ValueError: the file imports `tasks` in an unknown form.
    """
    text = path.read_text(encoding="utf-8")
    for pattern, name in NAMES:
        text = pattern.sub(name, text)
    if left := OTHERS.search(text):
        raise ValueError(
            f"{path}: write {left[0].strip()!r} as `from tasks import ...`"
        )
    return text


class BuildPy(build_py):
    """Adds jaxaug/tasks and jaxaug/configs to the build."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for folder in ("tasks", "configs"):
            built = Path(self.build_lib, "jaxaug", folder)
            shutil.rmtree(built, ignore_errors=True)
            for path in sorted((HERE / folder).rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    target = built / path.relative_to(HERE / folder)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(renamed(path), encoding="utf-8")


class EditableWheel(editable_wheel):
    """Makes `tasks` importable under its own name."""

    def run(self) -> None:
        self.distribution.packages.append("tasks")
        super().run()


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy, "editable_wheel": EditableWheel})
