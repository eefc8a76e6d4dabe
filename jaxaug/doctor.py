"""`jaxaug doctor`: reports installed and missing requirements, with advice."""

import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata, util
from typing import Literal

from etils import epath

from jaxaug.core import cache_folder, columns, installed
from jaxaug.core.arguments import DataDir
from jaxaug.core.errors import UserError
from jaxaug.core.files import is_remote
from jaxaug.data import folders
from jaxaug.data.schema import read_schema

Level = Literal["ok", "note", "missing"]

_MIN_PYTHON = (3, 11)
_GIB = 2**30
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]+)\])?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    A `missing` finding makes the command fail. A `note` reports a missing optional part
    or another fact. `fix` is advice for the user, if there is any.
    """

    level: Level
    topic: str
    text: str
    fix: str = ""


def check_python() -> Iterator[Finding]:
    """Yields findings about the interpreter and the machine."""
    version = platform.python_version()
    if sys.version_info < _MIN_PYTHON:
        yield Finding(
            "missing",
            "python",
            f"{version} is too old, 3.11 or newer is needed",
            "Make a virtual environment with a newer Python.",
        )
    else:
        yield Finding("ok", "python", f"{version} on {platform.platform()}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    yield Finding("ok", "cores", str(cores or os.cpu_count()))
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        yield Finding("ok", "memory", f"{memory / _GIB:.1f} GiB")
    except (AttributeError, ValueError, OSError):
        yield Finding("note", "memory", "unknown on this system")


def requirements(distribution: str = "jaxaug") -> dict[str, list[str]]:
    """Returns extra -> required distributions; the extra "" is always needed.

    `jax[tpu]` stands for the distributions that this extra of jax adds.
    """
    needed: dict[str, list[str]] = {}
    for name, inner, extra in _requirement_lines(distribution):
        if name.lower() == distribution:
            continue
        names = [name]
        if extra and inner and installed.version(name):
            names = [n for n, _, e in _requirement_lines(name) if e == inner] or names
        needed.setdefault(extra, []).extend(dict.fromkeys(names))
    return needed


def _requirement_lines(distribution: str) -> Iterator[tuple[str, str, str]]:
    """Yields (name, extra in brackets, extra that requires it) for each requirement."""
    for line in metadata.requires(distribution) or ():
        match = _REQUIREMENT.match(line)
        extra = _EXTRA.search(line)
        if match:
            yield match[1], match[2] or "", extra[1] if extra else ""


def check_packages() -> Iterator[Finding]:
    """Yields findings about the required distributions, without importing them."""
    try:
        needed = requirements()
    except metadata.PackageNotFoundError:
        yield Finding(
            "missing",
            "jaxaug",
            "is not installed as a distribution",
            f"Run {installed.install_advice()}.",
        )
        return
    for name in ["jaxaug", *needed.pop("", [])]:
        version = installed.version(name)
        if version:
            yield Finding("ok", name, version)
        else:
            fix = f"Run {installed.install_advice()}."
            yield Finding("missing", name, "is not installed", fix)
    for extra, names in sorted(needed.items()):
        absent = [name for name in names if not installed.version(name)]
        present = [
            f"{name} {installed.version(name)}" for name in names if name not in absent
        ]
        if absent:
            yield Finding(
                "note",
                f"extra {extra}",
                f"lacks {', '.join(absent)}",
                f"Optional: {installed.install_advice(extra)}.",
            )
        else:
            yield Finding("ok", f"extra {extra}", ", ".join(present))


def check_tensorflow() -> Iterator[Finding]:
    """Yields a finding if two distributions of TensorFlow share their files."""
    names = ("tensorflow", "tensorflow-cpu")
    if len(names) == sum(
        len(list(metadata.distributions(name=name))) for name in names
    ):
        yield Finding(
            "note",
            "tensorflow",
            "tensorflow and tensorflow-cpu are both installed and overwrite each "
            "other's files; tensorflow-text needs the first",
            "Run `pip uninstall --yes tensorflow-cpu tensorflow`, then "
            f"`{installed.install_command()}` in the repository.",
        )


def check_devices() -> Iterator[Finding]:
    """Yields findings about the accelerators that JAX finds."""
    if util.find_spec("jax") is None:
        return  # `check_packages` reports missing packages.
    import jax

    try:
        devices = jax.devices()
    except RuntimeError as error:
        yield Finding(
            "missing",
            "devices",
            f"JAX cannot start its backend: {str(error).splitlines()[0]}",
            f"Install what fits the machine (`{installed.install_command('tpu')}` or "
            f"`{installed.install_command('cuda')}`), or set JAX_PLATFORMS=cpu.",
        )
        return
    kinds = sorted({device.device_kind for device in devices})
    text = f"{len(devices)} x {', '.join(kinds)} ({jax.default_backend()})"
    yield Finding("ok", "devices", text)
    if jax.default_backend() == "cpu":
        yield Finding(
            "note",
            "devices",
            "no accelerator found: enough for MiniSGD, slow for real sizes",
            f"`{installed.install_command('tpu')}` or "
            f"`{installed.install_command('cuda')}` on such a machine.",
        )


def check_data(data_dir: str | None) -> Iterator[Finding]:
    """Yields findings about splits, dialogue files, and variants of the data folder.

    Args:
        data_dir: the folder; None means `$JAXAUG_DATA_DIR`, else the embedded MiniSGD.
    """
    chosen = data_dir or os.environ.get(folders.DATA_DIR_VARIABLE)
    try:
        folder = folders.resolve_data_dir(data_dir)
    except UserError as error:
        yield Finding("missing", "data", str(error))
        return
    source = "" if chosen else " (the embedded MiniSGD)"
    yield Finding("ok", "data", f"{folder}{source}")
    for split in folders.SPLITS:
        try:
            paths = folders.dialogue_paths(folder, split)
            services = len(read_schema(folders.schema_path(folder, split)).services)
        except UserError as error:
            yield Finding("missing", f"data {split}", str(error))
        else:
            text = f"{len(paths)} dialogue files, {services} services"
            yield Finding("ok", f"data {split}", text)
    yield from _check_variants(folder)


def _check_variants(folder: epath.Path) -> Iterator[Finding]:
    try:
        found = folders.variant_folders(folder)
    except UserError as error:
        yield Finding("missing", "variants", str(error))
        return
    for name, path in found.items():
        variants = folders.variant_names(path)
        if variants:
            splits = {s for v in variants for s in folders.variant_splits(path, v)}
            text = f"{', '.join(variants)} ({', '.join(sorted(splits)) or 'no schema'})"
            yield Finding("ok", f"variants {name}", text)
        else:
            yield Finding(
                "note",
                f"variants {name}",
                f"{path} holds no variants: no robustness can be measured on it",
                "`jaxaug data fetch sgd` downloads the variants of SGD-X."
                if name == "sgdx"
                else "Write v1/<split>/schema.json there, or remove the folder.",
            )


def check_cache() -> Iterator[Finding]:
    """Yields findings about the cache folder: size, free space, and vocabularies."""
    try:
        folder = cache_folder.cache_dir()
    except UserError as error:
        yield Finding("missing", "cache", str(error))
        return
    if is_remote(folder):
        yield Finding("ok", "cache", f"{folder} (remote, its size is not looked up)")
        return
    if not folder.exists():
        yield Finding("ok", "cache", f"{folder} (empty, made at first use)")
        return
    if not folder.is_dir():
        yield Finding(
            "missing",
            "cache",
            f"{folder} is not a folder",
            f"Remove it, or set ${cache_folder.CACHE_DIR_VARIABLE} to a folder.",
        )
        return
    if not os.access(folder, os.W_OK):
        yield Finding(
            "missing",
            "cache",
            f"{folder} cannot be written",
            f"Set ${cache_folder.CACHE_DIR_VARIABLE} to a writable folder.",
        )
    size, vocabularies = 0, []
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            size += os.path.getsize(path) if os.path.exists(path) else 0
            if name.endswith(".model"):
                vocabularies.append(os.path.relpath(path, folder))
    yield Finding("ok", "cache", f"{folder}, {size / 2**20:.1f} MiB")
    text = ", ".join(sorted(vocabularies)) or "none yet (made at the first training)"
    yield Finding("ok", "vocabulary", text)


def findings(data_dir: str | None) -> list[Finding]:
    """Returns all findings in the order of the report."""
    checks: Iterable[Callable[[], Iterator[Finding]]] = (
        check_python,
        check_packages,
        check_tensorflow,
        check_devices,
        lambda: check_data(data_dir),
        check_cache,
    )
    return [finding for check in checks for finding in check()]


def run(arguments: DataDir) -> int:
    """Prints the findings; returns status 1 if a required part is missing."""
    found = findings(arguments.data_dir)
    rows = []
    for one in found:
        rows.append([one.level, one.topic, one.text])
        rows += [["", "", f"-> {one.fix}"]] if one.fix else []
    print(columns.aligned(rows, [False] * 3))
    missing = sum(finding.level == "missing" for finding in found)
    notes = sum(finding.level == "note" for finding in found)
    print(f"\n{missing} missing, {notes} notes")
    return 1 if missing else 0
