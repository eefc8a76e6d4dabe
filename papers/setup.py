"""How gin files name the tasks of jaxaug in a wheel; pyproject.toml says all else."""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# A wheel of jaxaug holds them as `jaxaug.tasks`; see ../setup.py.
NAMES = (
    (re.compile(r"^from tasks\b", re.MULTILINE), "from jaxaug.tasks"),
    (re.compile(r"^import tasks$", re.MULTILINE), "import jaxaug.tasks as tasks"),
)


class BuildPy(build_py):
    """Renames the tasks in what is built."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for path in Path(self.build_lib).rglob("*.gin"):
            text = path.read_text(encoding="utf-8")
            for pattern, name in NAMES:
                text = pattern.sub(name, text)
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy})
