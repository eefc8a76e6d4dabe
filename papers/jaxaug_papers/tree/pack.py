"""Packs the requirements of `tree.queue` for a GPU machine without network.

    python -m jaxaug_papers.tree.pack --data_dir SGD --out PACK
    PACK/turn.sh --minutes 9 --out OUT     # On the GPU machine, with all of PACK.

PACK gets `turn.sh` and the files part.00, part.01, ... of at most --part_mib each,
which can be copied one by one. Together they are one archive. It has the code, the data
folder, the published weights, wheels of missing Python packages, and the compiled
programs of an earlier turn. The data folder is a sample of SGD (`jaxaug data sample`,
whose list has a digest) with its variants. Token caches are made on the machine, whose
cores format the data while the programs of the GPU are compiled.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from jaxaug.models.named import catalogue

ROOT = Path(__file__).resolve().parents[3]
TURN = "turn.sh"
SUMS = "SHA256SUMS"
# Python packages that a machine with JAX, Flax, Optax, Orbax and transformers may lack.
LACKING = (
    "clu", "gguf", "gin-config", "lazy-loader", "ml-collections",
    "msgspec", "rapidfuzz", "tensorboardX",
)  # fmt: skip
CODE = (
    "jaxaug", "runtime/jaxaug_base", "runtime/t5x", "configs", "results/sgd",
    "papers/jaxaug_papers/__init__.py", "papers/jaxaug_papers/tree",
)  # fmt: skip
_PLATFORMS = ("2_28", "2_27", "2_24", "2_17", "2014", "1")


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data_dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--part_mib", type=float, default=45, help="size of a part")
    parser.add_argument(
        "--python", default="3.12", help="version of the machine's Python"
    )
    parser.add_argument("--wheels", type=Path, help="folder of wheels to take instead")
    parser.add_argument(
        "--model", choices=("smollm2", "tiny"), default="smollm2", help="whose weights"
    )
    parser.add_argument("--compiled", type=Path, help="compiled.tar of an earlier turn")
    arguments = parser.parse_args()
    if arguments.out.exists():
        sys.exit(f"pack: error: --out {arguments.out}: exists. Name a new folder.")
    if not 0.1 <= arguments.part_mib <= 1024:
        sys.exit(f"pack: error: --part_mib {arguments.part_mib}: give 0.1 to 1024.")
    if not (arguments.data_dir / "test/schema.json").exists():
        sys.exit(
            f"pack: error: --data_dir {arguments.data_dir}: has no "
            "test/schema.json. Name a folder that `jaxaug data sample` wrote."
        )
    with tempfile.TemporaryDirectory(dir=arguments.out.resolve().parent) as work:
        archive = Path(work, "pack.tar")
        with tarfile.open(archive, "w") as tar:
            fill(tar, arguments, Path(work))
        split(archive, arguments.out, int(arguments.part_mib * 2**20))
    sizes = [path.stat().st_size for path in sorted(arguments.out.glob("part.*"))]
    shown = ", ".join(f"{size / 2**20:.1f}" for size in sizes)
    print(f"{arguments.out}: {len(sizes)} parts of {shown} MiB")


def fill(tar: tarfile.TarFile, arguments: argparse.Namespace, work: Path) -> None:
    """Adds everything to the archive."""
    code = work / "code.tar.xz"
    with tarfile.open(code, "w:xz") as inner:
        for name in tracked(CODE):
            # Only the vocabularies of shipped models and the names of finished items
            # are needed.
            if not name.endswith((".safetensors", ".json.xz", ".npz")):
                inner.add(ROOT / name, name)
    tar.add(code, code.name)
    data = work / "data.tar.xz"
    with tarfile.open(data, "w:xz") as inner:
        for path in sorted(arguments.data_dir.rglob("*")):
            name = path.relative_to(arguments.data_dir)
            # Only the schemas of generated variants are needed.
            wanted = name.parts[0] != "variants" or name.name == "schema.json"
            if wanted and path.is_file():
                inner.add(path, f"data/{name}")
    tar.add(data, data.name)
    if arguments.model != "tiny":
        folder = Path(catalogue.CATALOGUE[arguments.model].folder)
        if not folder.is_dir():
            sys.exit(
                f"pack: error: {folder}: no weights. Run `jaxaug models fetch "
                f"{arguments.model}`."
            )
        tar.add(folder, f"cache/models/{arguments.model}")
    wheels = arguments.wheels or download(work / "wheels", arguments.python)
    for path in sorted(wheels.glob("*.whl")):
        tar.add(path, f"wheels/{path.name}")
    if arguments.compiled:
        tar.add(arguments.compiled, "compiled.tar")


def tracked(folders: tuple[str, ...]) -> list[str]:
    """Returns the names of the tracked files in some folders of the checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(
        [*command, *folders], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    return sorted(filter(None, done.stdout.decode().split("\0")))


def download(folder: Path, python: str) -> Path:
    """Downloads the wheels of `LACKING` with the versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {line.partition("==")[0].replace("_", "-").lower(): line for line in lines}
    options = ["--no-deps", "--only-binary=:all:", "--implementation", "cp"]
    for version in _PLATFORMS:
        name = f"manylinux{'' if version in ('1', '2014') else '_'}{version}_x86_64"
        options += ["--platform", name]
    command = [
        sys.executable,
        *["-m", "pip", "download", "--quiet", "--dest"],
        str(folder),
    ]
    options += ["--python-version", python, *(pins.get(n, n) for n in LACKING)]
    subprocess.run([*command, *options], check=True)
    return folder


def split(archive: Path, out: Path, size: int) -> None:
    """Writes the parts of an archive, their checksums and `turn.sh`."""
    partial = archive.parent / "out"
    partial.mkdir()
    sums = []
    with archive.open("rb") as file:
        number = 0
        while data := file.read(size):
            name = f"part.{number:02}"
            (partial / name).write_bytes(data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
            number += 1
    (partial / SUMS).write_text("".join(sums))
    shutil.copy(Path(__file__).with_name(TURN), partial / TURN)
    partial.rename(out)


if __name__ == "__main__":
    main()
