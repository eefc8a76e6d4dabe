"""Adds gin files to the wheel; pyproject.toml has all other settings.

The wheel of jaxaug renames the tasks, and setup.py of the repository has the rule.
Therefore the wheel must be built in a checkout.
"""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


class BuildPy(build_py):
    """Names the tasks in files as the wheel of jaxaug does."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        renamed = runpy.run_path(str(HERE.parent / "setup.py"))["renamed"]
        built = Path(self.build_lib, "jaxaug_papers")
        for path in (*built.rglob("*.py"), *built.rglob("*.gin")):
            path.write_text(renamed(path), encoding="utf-8")


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy})
