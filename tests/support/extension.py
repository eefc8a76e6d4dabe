"""Packages that add to jaxaug, as an installation leaves them behind."""

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
        folder: for the package.
        monkeypatch: takes it away again.
        name: of the distribution; the module's has `_` for `-`.
        groups: of entry points: name -> value.
        source: of the module.
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
