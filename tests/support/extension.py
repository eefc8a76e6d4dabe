"""Installs packages that extend jaxaug, as pip would."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    groups: Mapping[str, Mapping[str, str]],
    source: str = "",
    **others: str,
) -> None:
    """Puts a package where Python looks for packages.

    Args:
        folder: folder for the package.
        monkeypatch: removes the package after the test.
        name: name of the distribution; the module has `_` instead of `-`.
        groups: entry points by group: name -> value.
        source: source of the module.
        **others: sources of further modules, by name.
    """
    module = name.replace("-", "_")
    info = folder / name / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{k} = {v}" for k, v in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(folder / name)
    for one, text in {module: source, **others}.items():
        (folder / name / f"{one}.py").write_text(text)
        monkeypatch.delitem(sys.modules, one, raising=False)
