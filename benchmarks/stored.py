"""Files that tables.py stores with scores of runs, and runs of `jaxaug fewshot`."""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jaxaug.core.digests import digest_of

ROOT = Path(__file__).resolve().parent.parent
FEWSHOT = ROOT / "results/fewshot"
VARIANTS = ROOT / "papers/jaxaug_papers/minisgd/variants"


def variants_digest(name: str) -> str:
    """Returns the digest of a set's shipped variants; "" for originals and SGD-X."""
    folder = VARIANTS / name.partition("_")[0]
    files = sorted(folder.glob("v*/train/schema.json"))
    return digest_of([json.loads(file.read_text()) for file in files]) if files else ""


def environment(commit: str | None) -> dict[str, Any]:
    """Returns the commit, the machine and the versions."""
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    if commit is None:
        done = subprocess.run(git, check=False, capture_output=True, text=True)
        commit = done.stdout.strip()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line for line in lines if line.startswith("model name")), "")
    return {
        "commit": commit,
        "machine": f"{os.cpu_count()} cores of {processor.partition(': ')[2]}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("jax", "flax")},
    }


def add_fewshot(folder: Path, about: Mapping[str, Any], store: Path = FEWSHOT) -> None:
    """Stores the table of a finished run of `jaxaug fewshot`.

    Args:
        folder: what the run wrote, named as by its config.
        about: commit, machine, versions, and date.
        store: results/fewshot.
    """
    name = folder.name
    config, _, data = name.partition("_") if name[:5] == "table" else (name, "", "")
    config = f"{config}.py{':' if data else ''}{data}"
    command = f"jaxaug fewshot --config configs/fewshot/{config} --data_dir data"
    shutil.copy(folder / "results.csv", store / f"{name}.csv")
    path = store / "runs.json"
    runs = json.loads(path.read_text()) if path.exists() else {}
    runs[name] = {"command": command, **about}
    path.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n")
