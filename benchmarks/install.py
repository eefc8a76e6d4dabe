"""Size and startup time of an installation with each extra.

    python benchmarks/install.py [EXTRA ...] [--folder DIR]

Without names it measures the base and all extras that need no accelerator. For each
one it makes a fresh virtual environment with the Python that runs this program,
installs the wheels of this checkout with pip, and runs one command of that extra. It
prints the distributions, the MB (10^6 bytes) of their files, without pip itself, and the
least of three wall times of `import jaxaug` and of `jaxaug --version`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BASE = "jaxaug augment --config configs/augment/grammar.py --out variants"
COMMANDS = {
    "": _BASE,
    "jax": "jaxaug paraphrase --in texts.txt --model mini --sampler top_k_top_p "
    "--out out.jsonl",
    "seqio": "python -m t5x.train --dry_run --gin_file=configs/d3st_aug.gin",
    "serve": "python -c 'import jaxaug.serve.app, uvicorn, h11'",
    "report": f"{_BASE} && test -s variants/report.png",
    "nlp": "jaxaug augment --config configs/augment/eda.py --out variants",
    "endpoint": "jaxaug paraphrase --in texts.txt --model openai:NAME --endpoint "
    "http://localhost:9/v1 --out out.jsonl --dry_run",
    "hf": "python -c 'import gguf, huggingface_hub, jinja2, transformers, yaml'",
    "all": "jaxaug doctor",
}
"""Maps an extra to a command that needs it."""


def wheels(folder: Path) -> list[str]:
    """Builds the wheels of the distributions of this repository."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    homes = [".", "./runtime", "./papers"]
    subprocess.run([*command, "--wheel-dir", folder, *homes], cwd=ROOT, check=True)
    return [str(path) for path in sorted(folder.glob("*.whl"))]


def install(folder: Path, extra: str, built: list[str]) -> Path:
    """Returns the `bin` folder of a new environment with `jaxaug[extra]`."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    (main,) = [name for name in built if Path(name).name.startswith("jaxaug-")]
    # Other wheels are found if the extra requires them.
    command: list[str | Path] = [folder / "bin/pip", "install", "--quiet"]
    command += ["--no-compile", "--constraint", ROOT / "constraints.txt"]
    command += ["--find-links", Path(main).parent]
    command.append(f"{main}[{extra}]" if extra else main)
    subprocess.run(command, check=True)
    return folder / "bin"


def size(folder: Path) -> tuple[int, float]:
    """Returns the number of distributions and the MB of their files, without pip."""
    (site,) = folder.glob("lib/python*/site-packages")
    files = [path for path in site.rglob("*") if path.is_file()]
    own = [p for p in files if not p.relative_to(site).parts[0].startswith("pip")]
    count = len({p.parent for p in own if p.name == "METADATA"})
    used = sum(p.stat().st_size for p in own if p.suffix != ".pyc")
    return count, used / 1e6


def seconds(command: str, path: Path, work: Path) -> float:
    """Returns the least of three wall times of a command in an environment."""
    found = []
    for _ in range(3):
        start = time.perf_counter()
        run(command, path, work)
        found.append(time.perf_counter() - start)
    return min(found)


def run(command: str, path: Path, work: Path) -> None:
    """Runs a command in an environment, without the programs of any other one."""
    given = os.environ | {
        "PATH": f"{path}:/usr/bin:/bin",
        "JAXAUG_CACHE_DIR": str(work / "cache"),
    }
    done = subprocess.run(
        command,
        check=False,
        shell=True,
        cwd=work,
        env=given,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        raise SystemExit(f"{command}: status {done.returncode}\n{done.stderr}")


def main() -> None:
    """Measures the named extras and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="base, jax, ...")
    parser.add_argument("--folder", help="parent of the environments, which stay")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)  # pip would find the packages of the checkout.
    chosen = ["" if name == "base" else name for name in arguments.extras]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary).resolve()
        built = wheels(folder / "wheels")
        print("| extra | distributions | MB | s to import | s of `--version` |")
        print("|---|---|---|---|---|", flush=True)
        for extra in chosen or COMMANDS:
            work = folder / f"work-{extra or 'base'}"
            work.mkdir(parents=True, exist_ok=True)
            (work / "texts.txt").write_text("the app crashes in the settings\n")
            path = install(folder / f"env-{extra or 'base'}", extra, built)
            count, used = size(path.parent)
            run(COMMANDS[extra], path, work)
            loading = seconds("python -c 'import jaxaug'", path, work)
            version = seconds("jaxaug --version", path, work)
            print(
                f"| {extra or 'none'} | {count} | {used:.0f} | {loading:.2f} "
                f"| {version:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
