"""Size and startup time of an installation with each extra.

    python benchmarks/install.py [EXTRA ...] [--folder DIR]

Without names it measures the base and all extras that need no accelerator. It builds
the wheels of this checkout. For each extra it makes a fresh virtual environment,
installs with pip, and runs one command of that extra. It prints the number of
distributions, the MB (10^6 bytes) of their files without pip itself, and the least of
three wall times of `import jaxaug` and of `jaxaug --version`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_AUGMENT = "jaxaug augment --config configs/augment/grammar.py --out variants"
_PARAPHRASE = "jaxaug paraphrase --in texts.txt --out out.jsonl --model"
COMMANDS = {
    "base": _AUGMENT,
    "jax": f"{_PARAPHRASE} mini --sampler top_k_top_p",
    "seqio": "python -m t5x.train --dry_run --gin_file=configs/d3st_aug.gin",
    "serve": "python -c 'import jaxaug.serve.app, uvicorn, h11'",
    "report": f"{_AUGMENT} && test -s variants/report.png",
    "nlp": f"{_AUGMENT} && grep -q BLEU variants/report.html",
    "endpoint": f"{_PARAPHRASE} openai:NAME --endpoint http://localhost:9/v1 --dry_run",
    "hf": "python -c 'import gguf, huggingface_hub, jinja2, transformers'",
    "all": "jaxaug doctor",
}
"""Maps an extra to a command that needs it."""


def run(command: str, path: Path | None = None, work: Path = ROOT) -> float:
    """Returns the wall time of a command, in seconds.

    Args:
        command: the command.
        path: `bin` folder of its environment; None means the current one.
        work: current folder of the command.
    """
    # With PYTHONPATH, pip would find the packages of the checkout.
    given = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    given["PATH"] = f"{path or Path(sys.executable).parent}:/usr/bin:/bin"
    given["JAXAUG_CACHE_DIR"] = str(work / "cache")
    start = time.perf_counter()
    done = subprocess.run(command, check=False, shell=True, cwd=work, env=given)
    if done.returncode:
        raise SystemExit(f"{command}: status {done.returncode}")
    return time.perf_counter() - start


def size(folder: Path) -> str:
    """Returns the number of distributions and the MB of their files, without pip."""
    (site,) = folder.glob("lib/python*/site-packages")
    own = [p for p in site.rglob("*") if not str(p.relative_to(site)).startswith("pip")]
    used = sum(p.stat().st_size for p in own if p.is_file() and p.suffix != ".pyc")
    return f"{sum(p.name == 'METADATA' for p in own)} | {used / 1e6:.0f}"


def measure(folder: Path, extra: str) -> str:
    """Returns the line of the table for one extra; `folder` has the wheels."""
    work, environment = folder / f"work-{extra}", folder / f"env-{extra}"
    work.mkdir()
    (work / "texts.txt").write_text("the app crashes in the settings\n")
    (wheel,) = folder.glob("jaxaug-*.whl")
    given = f"--constraint {ROOT}/constraints.txt --find-links {folder}"
    what = wheel if extra == "base" else f"'{wheel}[{extra}]'"
    run(f"python -m venv {environment}")
    path = environment / "bin"
    run(f"pip install --quiet --no-compile {given} {what}", path)
    run(f"({COMMANDS[extra]}) > log 2>&1", path, work)
    loading, version = (
        min(run(f"{command} > log", path, work) for _ in range(3))
        for command in ("python -c 'import jaxaug'", "jaxaug --version")
    )
    return f"| {extra} | {size(environment)} | {loading:.2f} | {version:.2f} |"


def main() -> None:
    """Measures the named extras and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", nargs="*", default=[*COMMANDS], metavar="EXTRA")
    parser.add_argument("--folder", help="for the environments; it stays")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary).resolve()
        run(f"pip wheel --quiet --no-deps --wheel-dir {folder} . ./runtime ./papers")
        print("| extra | distributions | MB | s to import | s of `--version` |")
        print("|---|---|---|---|---|", flush=True)
        for extra in arguments.extras:
            print(measure(folder, extra), flush=True)


if __name__ == "__main__":
    main()
