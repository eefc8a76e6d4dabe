"""The Dockerfiles: the first layer installs from the files of that layer alone."""

import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.programs import ran

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {
    path.name.partition(".")[0]: path.read_text()
    for path in sorted((ROOT / "launch/docker").iterdir())
}
BUILD = "from setuptools import build_meta; build_meta.build_editable({!r})"


def test_they_differ_in_the_requirements_of_the_machine():
    extras = {"cpu": "[seqio]", "cuda": "[cuda,seqio]", "tpu": "[seqio,tpu]"}
    common = set()
    for name, text in TEXTS.items():
        comment, steps = text.split("FROM ", 1)
        assert f"docker build --file launch/docker/{name}.Dockerfile " in comment
        extra = f"-e '.{extras[name]}'"
        assert steps.count(extra) == 1
        common.add(steps.replace(extra, ""))
    assert TEXTS.keys() == extras.keys() and len(common) == 1


@pytest.mark.slow
@pytest.mark.long
def test_the_layer_of_the_libraries_installs_all_packages(tmp_path):
    layer = TEXTS["cpu"].split("RUN ")[0]
    for line in re.findall(r"^COPY (.*)", layer, re.MULTILINE):
        *files, target = line.split()
        for file in files:
            place = tmp_path / "source" / target / Path(file).name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, place)
    out, found = tmp_path / "out", set()
    out.mkdir()
    for folder in (tmp_path / "source/runtime", tmp_path / "source"):
        command = [sys.executable, "-c", BUILD.format(str(out))]
        done = ran(command, cwd=folder, check=True)
        # Such a file is an error in later versions of setuptools.
        assert "did not match any files" not in done.stderr, done.stderr
    for wheel in out.glob("*.whl"):
        with zipfile.ZipFile(wheel) as files:
            (finder,) = (n for n in files.namelist() if n.endswith("finder.py"))
            (mapped,) = re.findall(
                r"^MAPPING.* = (.*)$", files.read(finder).decode(), re.MULTILINE
            )
            found |= {*re.findall(r"'(\w+)': ", mapped)}
    assert found == {"jaxaug", "jaxaug_base", "tasks", "t5x"}
