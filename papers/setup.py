"""Adds gin files to the wheel; pyproject.toml has all other settings.

The wheel of jaxaug renames the tasks, and setup.py of the repository has the rule. A
wheel built in a checkout and a source archive contain the new names.
"""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
RULE = HERE.parent / "setup.py"
# Only an unpacked source archive has this file; its names are final.
ARCHIVE = (HERE / "PKG-INFO").is_file()


def rename(folder: Path) -> None:
    """Names the tasks in files of a folder as the wheel of jaxaug does."""
    renamed = runpy.run_path(str(RULE))["renamed"]
    for path in (*folder.rglob("*.py"), *folder.rglob("*.gin")):
        text = renamed(path)
        path.unlink()  # The checkout may have a hard link to this file.
        path.write_text(text, encoding="utf-8")


class BuildPy(build_py):
    """Renames the tasks in what is built."""

    def run(self) -> None:
        super().run()
        if not (self.editable_mode or ARCHIVE):
            rename(Path(self.build_lib, "jaxaug_papers"))


class Sdist(sdist):
    """Renames the tasks in the archive."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        rename(Path(base_dir, "jaxaug_papers"))


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
