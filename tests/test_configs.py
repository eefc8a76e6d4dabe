"""Every gin file parses, resolves and says how it is run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = [
    "d3st", "d3st_aug", "t5dst", "t5dst_aug", "paraphrase_minisgd",
    "personachat_t5", "personachat_dialogpt", "personachat_smollm2",
]  # fmt: skip
SIZES = ["small", "base", "large", "xl"]


def run(*files: str, program: str = "t5x.train", bindings: tuple[str, ...] = ()):
    return subprocess.run(
        [
            sys.executable,
            "-m",
            program,
            "--dry_run",
            *(f"--gin_file={file}" for file in files),
            *(f"--gin_bindings={binding}" for binding in bindings),
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_resolve(name):
    done = run(f"configs/{name}.gin")
    assert done.returncode == 0, done.stderr
    assert f"runs/{name}" in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_scales_stack_on_an_experiment(size):
    done = run("configs/d3st_aug.gin", f"configs/scale/{size}.gin")
    assert done.returncode == 0, done.stderr
    text = done.stdout + done.stderr
    assert f"t5_1_1_{size}/checkpoint_1000000" in text
    assert re.search(r"'inputs': 1024, 'targets': 256", text)


@pytest.mark.slow
def test_robustness_stacks_on_a_model():
    done = run(
        "configs/models/t5_scratch.gin",
        "configs/runs/robustness.gin",
        program="t5x.eval",
        bindings=("CHECKPOINT_PATH = 'x'",),
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs").rglob("*.gin")), ids=lambda path: path.stem
)
def test_headers_are_lab_book_pages(path):
    head = path.read_text(encoding="utf-8").split("\n\n")[0]
    assert head.startswith("# ")
    if path.parent.name in ("configs", "scale"):
        for word in ("Command:", "Hardware:", "Duration", "core"):
            assert word in head or word.lower() in head, f"{path}: no {word!r}"
