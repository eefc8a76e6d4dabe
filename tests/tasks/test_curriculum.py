"""The plot at the start of a run, and the gin files of curricula."""

import subprocess
from pathlib import Path

import pytest

from jaxaug.curriculum import schedule
from tasks import curriculum

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path.stem for path in (ROOT / "configs" / "curriculum").glob("*.gin"))


class Writer:
    def __init__(self) -> None:
        self.texts: list = []

    def write_texts(self, step: int, texts: dict) -> None:
        self.texts.append((step, texts))

    def flush(self) -> None:
        self.texts.append("flushed")


def test_the_plot_is_written_when_a_run_starts(tmp_path):
    writer, calls = Writer(), []
    curriculum.summarize(
        str(tmp_path / "run"),
        writer,
        7,
        schedule=schedule.gradual(10, levels=1),
        then=lambda *arguments: calls.append(arguments),
    )
    text = (tmp_path / "run" / "curriculum.txt").read_text()
    assert text.startswith("curriculum: 2 stages, 20 steps\nlevel 1 |    ")
    assert (tmp_path / "run" / "curriculum.png").stat().st_size > 1000
    assert writer.texts == [(7, {"curriculum": f"```\n{text}```"}), "flushed"]
    assert calls == [(str(tmp_path / "run"), writer, 7)]


@pytest.fixture
def dry_run(python):
    """Prints what the files of these names would run."""

    def run(*names: str) -> str:
        files = [f"--gin_file=configs/{name}.gin" for name in names]
        done = subprocess.run(
            [python, "-m", "t5x.train", "--dry_run", *files],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run


@pytest.mark.slow
def test_a_dry_run_prints_the_plot(dry_run):
    out = dry_run("d3st_cyclic")
    assert "curriculum: 12 stages, 1,800 steps\nlevel 5 |" in out
    row = next(line for line in out.splitlines() if line.startswith("level 0"))
    assert row.count("###") == 2
    assert "train_script.train.model_dir" in out
    assert out.count("Parameters for train_script.train") == 1


@pytest.mark.slow
def test_other_schedules_and_scales_stack_on_it(dry_run):
    out = dry_run("d3st_cyclic", "curriculum/two_stage")
    assert "curriculum: 2 stages, 1,800 steps" in out
    out = dry_run("d3st_cyclic", "runs/from_nothing", "curriculum/short_prompts")
    assert "curriculum: 14 stages, 12,000 steps\nlevel      5 |    " in out
    out = dry_run("d3st_cyclic", "scale/small", "curriculum/whole_prompts")
    assert "curriculum: 12 stages, 12,000 steps\nlevel 5 |" in out


def test_there_is_a_file_for_each_schedule():
    schedules = {
        "cyclic", "gradual", "inverse", "inverse_cyclic", "random", "two_stage"
    }  # fmt: skip
    assert set(FILES) == schedules | {"short_prompts", "whole_prompts"}
