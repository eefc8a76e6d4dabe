"""The workflow of GitHub, the checklist of a release, and source archives."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.test_packaging import HOMES

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.md"))
BUILD = "from setuptools import build_meta; print(build_meta.build_{}({!r}))"


def targets() -> set[str]:
    """The targets that the Makefile declares."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (names,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    return {name for name in names.split() if re.search(rf"(?m)^{name}\b.*:", makefile)}


def workflow() -> dict:
    """The workflow; YAML reads its key `on` as True."""
    return yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())


def test_the_workflow_runs_what_is_here():
    ran = set()
    for name, job in workflow()["jobs"].items():
        assert job["steps"][0]["uses"].startswith("actions/checkout@"), name
        assert 0 < job["timeout-minutes"] < 360, name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            ran |= {*step.get("run", "").split("\n")} - {""}
    assert ran == {".ci/run", "make docs"}
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
    called = re.findall(r"(?m)^make ([\w-]+)$", (ROOT / ".ci/run").read_text())
    assert {"test", "test-long"} <= {*called, "docs"} <= targets()


def test_pull_requests_run_it_and_may_only_read():
    found = workflow()
    assert found[True].keys() >= {"push", "pull_request"}
    assert found["permissions"] == {"contents": "read"}


def test_the_site_that_is_kept_is_the_one_that_is_built():
    (kept,) = (
        step["with"]["path"]
        for step in workflow()["jobs"]["docs"]["steps"]
        if "upload-artifact" in step.get("uses", "")
    )
    assert kept == yaml.safe_load((ROOT / "mkdocs.yml").read_text())["site_dir"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_issue_templates_have_what_github_asks_for(path):
    _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
    assert yaml.safe_load(head).keys() >= {"name", "about"}
    assert body.strip()
    for name in re.findall(r"docs/\w+\.md", body):
        assert (ROOT / name).is_file()


def test_the_checklist_names_what_is_here():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    checklist = text.partition("\n## Release\n")[2].partition("\n## ")[0]
    assert {*re.findall(r"make ([\w-]+)", checklist)} <= targets()
    (parts,) = re.findall(r"for part in (.*); do python -m build", checklist)
    assert {ROOT / part for part in parts.split()} == {*HOMES.values()}
    for name in re.findall(r"(?:benchmarks|tests)/\w+\.py", checklist):
        assert (ROOT / name).is_file()


def built(folder: Path, kind: str, out: Path) -> Path:
    """Builds an archive ("sdist") or a wheel of a folder, without isolation."""
    out.mkdir()
    words = [sys.executable, "-c", BUILD.format(kind, str(out))]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    (path,) = out.iterdir()
    return path


@pytest.mark.slow
@pytest.mark.long
def test_the_papers_wheel_of_an_archive_is_that_of_a_checkout(tmp_path):
    """The archive renames tasks by a rule that lies outside of it."""
    source = tmp_path / "source"
    files = subprocess.run(
        ["git", "ls-files", "setup.py", "papers"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for name in files:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    archive = built(source / "papers", "sdist", tmp_path / "archives")
    for name in files:  # Making an archive changes no file.
        assert (source / name).read_bytes() == (ROOT / name).read_bytes()
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    wheels = (
        built(unpacked, "wheel", tmp_path / "of_archive"),
        built(source / "papers", "wheel", tmp_path / "of_checkout"),
    )
    one, other = (contents(path) for path in wheels)
    assert one == other
    assert (
        b"import jaxaug.tasks"
        in one["jaxaug_papers/pcc/configs/personachat_percvae.gin"]
    )


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel, without its list of digests."""
    with zipfile.ZipFile(wheel) as packed:
        names = (name for name in packed.namelist() if not name.endswith("/RECORD"))
        return {name: packed.read(name) for name in names}
