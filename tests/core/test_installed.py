"""Versions, and how extras are installed."""

import platform
from importlib import metadata
from pathlib import Path

import pytest

import jaxaug
from jaxaug import cli
from jaxaug.core import installed

ROOT = Path(__file__).resolve().parents[2]


def test_versions(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == (
        f"jaxaug {jaxaug.__version__}\n"
        f"jaxaug-t5x {metadata.version('jaxaug-t5x')}\n"
        f"jax {metadata.version('jax')}\n"
        f"Python {platform.python_version()}\n"
    )


def test_the_version_of_what_is_not_there(monkeypatch):
    """Upstream's T5X may stand in the place of our runtime."""
    real = metadata.version

    def version(name):
        if name == "jaxaug-t5x":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    assert installed.versions().splitlines()[1] == "jaxaug-t5x not installed"
    assert installed.version("jaxaug-t5x") is None
    assert installed.version("tensorflow-cpu") == real("tensorflow")
