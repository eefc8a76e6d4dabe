"""Names the tasks in wheels and sources as the wheel of jaxaug does.

setup.py of the repository has the rule; pyproject.toml has all other settings. A source
distribution is already renamed.
"""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
RULE = HERE.parent / "setup.py"


def rename(folder: Path) -> None:
    """Renames the tasks in the modules and gin files below a folder."""
    renamed = runpy.run_path(str(RULE))["renamed"]
    for path in (*folder.rglob("*.py"), *folder.rglob("*.gin")):
        text = renamed(path)
        path.unlink()  # It may be a link to the file of the checkout.
        path.write_text(text, encoding="utf-8")


class BuildPy(build_py):
    """Renames the tasks in what is built of a checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode and RULE.exists():
            rename(Path(self.build_lib, "jaxaug_papers"))


class Sources(sdist):
    """Renames the tasks in a source distribution."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        if RULE.exists():
            rename(Path(base_dir, "jaxaug_papers"))


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy, "sdist": Sources})
