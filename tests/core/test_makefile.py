"""Installation by the Makefile: with uv, or with pip if uv fails."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = "uv pip install --quiet --python {bin}/python --constraint constraints.txt"
PIP = "pip install --quiet --no-compile --constraint constraints.txt"
THIS = "-e ./runtime -e ./papers -e .[all]"

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="make is not there")


def installed_by(folder, *, settings="", uv_is_there=0, uv_works=0):
    """Returns the commands of `make install`, with programs that only log theirs.

    Args:
        folder: becomes the environment.
        settings: the output of `pip config list`.
        uv_is_there: exit status of installing uv.
        uv_works: exit status of uv.
    """
    programs = folder / "bin"
    programs.mkdir(parents=True)
    bodies = {
        "python": "exit 1",
        "pip": f'case "$*" in "config list") echo "{settings}";; *" uv") exit '
        f"{uv_is_there};; *) exit 0;; esac",
        "uv": f'echo "$UV_FIND_LINKS" > {folder}/links; exit {uv_works}',
    }
    for name, body in bodies.items():
        note = f'echo "{name} $*" >> {folder}/commands\n'
        (programs / name).write_text(f"#!/bin/sh\n{note}{body}\n")
        (programs / name).chmod(0o755)
    command = ["make", "--silent", "install", f"VENV={folder}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert (folder / "run.stamp").exists()
    commands = (folder / "commands").read_text().splitlines()
    return [line for line in commands if "-e " in line]


def test_uv_installs(tmp_path):
    uv = UV.format(bin=tmp_path / "bin")
    assert installed_by(tmp_path) == [f"{uv} {THIS}"]


def test_pip_installs_if_uv_is_unavailable(tmp_path):
    assert installed_by(tmp_path, uv_is_there=1) == [f"{PIP} {THIS}"]


def test_pip_installs_if_uv_fails(tmp_path):
    uv = UV.format(bin=tmp_path / "bin")
    found = installed_by(tmp_path, uv_works=2)
    assert found == [f"{uv} {THIS}", f"{PIP} {THIS}"]


@pytest.mark.parametrize("name", ["global.index-url", ":env:.index-url"])
def test_pip_installs_if_it_has_an_index(tmp_path, name):
    settings = f"{name}='elsewhere'"
    assert installed_by(tmp_path, settings=settings) == [f"{PIP} {THIS}"]


def test_a_further_index_does_not_stop_uv(tmp_path):
    settings = "global.extra-index-url='elsewhere'"
    uv = UV.format(bin=tmp_path / "bin")
    assert installed_by(tmp_path, settings=settings) == [f"{uv} {THIS}"]


def test_uv_uses_the_links_of_pip(tmp_path):
    """A machine may have local wheels, such as PyTorch without CUDA."""
    settings = ":env:.find-links='/a'\nglobal.find-links='/b /c'"
    uv = UV.format(bin=tmp_path / "bin")
    assert installed_by(tmp_path, settings=settings) == [f"{uv} {THIS}"]
    assert (tmp_path / "links").read_text() == "/a,/b,/c\n"
