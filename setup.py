"""How tasks/ and configs/ get into a wheel; pyproject.toml says all else."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

HERE = Path(__file__).resolve().parent
# The name `tasks` belongs to users: T5X suggests it for tasks of their own. With ours in
# an environment, one of the two would hide the other. So a wheel holds the folder as
# `jaxaug.tasks`, and import lines of its modules and of the gin files say so. In a
# checkout, and so with `pip install -e`, everything is as it lies there.
NAMES = (
    (re.compile(r"^(\s*)from tasks\b", re.MULTILINE), r"\1from jaxaug.tasks"),
    (
        re.compile(r"^(\s*)import tasks$", re.MULTILINE),
        r"\1import jaxaug.tasks as tasks",
    ),
)
OTHERS = re.compile(r"^\s*(?:from|import) tasks\b.*", re.MULTILINE)


def renamed(path: Path) -> str:
    """The text of a file with the name that the tasks have in a wheel.

    Raises:
      ValueError: it imports them in a form that is not known here.
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
    """Adds jaxaug/tasks and jaxaug/configs to what is built."""

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
    """Makes `tasks` known under its own name."""

    def run(self) -> None:
        self.distribution.packages.append("tasks")
        super().run()


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy, "editable_wheel": EditableWheel})
