"""Versions, and how extras are installed."""

import platform
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import jaxaug
from jaxaug import cli
from jaxaug.core import installed

ROOT = Path(__file__).resolve().parents[2]
# Also `pip install -e .` without ./runtime before it: jaxaug-t5x would be looked up.
_FROM_AN_INDEX = (
    r"pip install (?:-e )?'?(?:jaxaug|\.(?!/(?:runtime|papers)))|jaxaug\[\w"
)


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


def test_the_command_names_what_is_not_for_everybody(monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))
    assert installed.install_command("nlp") == "make install"
    assert installed.install_command("cuda") == "make install EXTRA=cuda"


def test_the_command_names_an_environment_of_ones_own(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert installed.install_command() == f"make install VENV={tmp_path}"
    # The command never installs into the system's environment.
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert installed.install_command() == "make install"


def test_the_error_names_extra_and_command(monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))
    error = installed.missing_extra(
        "cannot draw x.png: matplotlib is absent", "matplotlib"
    )
    assert str(error) == (
        "cannot draw x.png: matplotlib is absent. It comes with the extra 'report': "
        "run `make install` in the repository of jaxaug."
    )


def test_a_wheel_is_completed_by_pip(monkeypatch, tmp_path):
    monkeypatch.setattr(installed, "_ROOT", tmp_path)
    assert installed.install_command() == "pip install jaxaug"
    assert installed.install_advice("cuda") == "`pip install 'jaxaug[cuda]'`"
    error = installed.missing_extra("cannot serve: uvicorn is not installed", "uvicorn")
    assert str(error) == (
        "cannot serve: uvicorn is not installed. It comes with the extra 'serve': run "
        "`pip install 'jaxaug[serve]'`."
    )


def test_the_demo_installs_what_its_commands_need():
    """Training, the picture of its report, and `jaxaug serve` on the trained run."""
    text = (ROOT / "Makefile").read_text().replace("$(comma)", ",")
    recipe = text.partition("\n$(VENV)/demo.stamp:")[2]
    assert "-e ./runtime -e '.[jax,report,serve]'" in recipe.partition("\n\n")[0]
    assert "demo: $(VENV)/demo.stamp\n" in text


def test_make_install_brings_every_extra_but_the_named_ones():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = about["optional-dependencies"]
    (everything,) = extras.pop("all")
    assert everything == f"jaxaug[{','.join(sorted({*extras} - installed.BY_CHOICE))}]"
    assert {*extras} >= installed.BY_CHOICE
    recipe = (ROOT / "Makefile").read_text().partition("\ninstall:")[2]
    assert (
        "-e ./runtime -e ./papers -e '.[all$(EXTRA:%=,%)]'"
        in recipe.partition("\n\n")[0]
    )


@pytest.mark.parametrize(
    "folder", ["jaxaug", "tasks", "papers", "docs", "launch", "README.md"]
)
def test_nothing_advises_to_install_jaxaug_from_an_index(folder):
    place = ROOT / folder
    for path in [place] if place.is_file() else place.rglob("*"):
        # install.md says how with a folder of wheels.
        if path.suffix in {".py", ".md", ".sh"} and path.name != "install.md":
            text = path.read_text(encoding="utf-8")
            assert not re.search(_FROM_AN_INDEX, text), path
