"""The plot at the start of a run, and the gin files of curricula."""

import json
import subprocess
from pathlib import Path

import pytest

from jaxaug.curriculum import schedule
from tasks import curriculum
from tests.support import grids

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
    """Prints the dry runs of the files of these names."""

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


SCALES = sorted(path.stem for path in (ROOT / "configs" / "scale").glob("*.gin"))
STAGES = {
    "cyclic": 12, "gradual": 6, "inverse": 6, "inverse_cyclic": 12, "random": 1,
    "two_stage": 2,
}  # fmt: skip
STACKS = [
    ("scale/small_hf", "curriculum/cyclic"), ("scale/smollm2_sgd", "curriculum/random"),
    ("scale/small_hf", "curriculum/whole_prompts"),
    *((f"scale/{scale}", "curriculum/cyclic") for scale in SCALES),
    *(
        (f"scale/{scale}", f"curriculum/{name}")
        for scale in ("small_hf", "smollm2_sgd")
        for name in (*sorted(STAGES.keys() - {"cyclic"}), "whole_prompts")
    ),
]  # fmt: skip
STACKS = list(dict.fromkeys(STACKS))
SHORT = 3  # The other stacks are long.


def job(*parts):
    """Returns the dry run of gin files and bindings on configs/d3st_cyclic.gin."""
    flags = [
        f"--gin.{part}" if "=" in part else f"--gin_file=configs/{part}.gin"
        for part in parts
    ]
    return ["t5x.train", "--gin_file=configs/d3st_cyclic.gin", *flags]


def begun(folder, steps):
    """Returns the folder of a run with a checkpoint and a schedule of `steps`."""
    (folder / "checkpoint_5" / "state").mkdir(parents=True)
    (folder / "checkpoint_5" / "state" / "_METADATA").write_text("{}")
    (folder / "curriculum.txt").write_text(f"curriculum: 12 stages, {steps} steps\n")
    return f'MODEL_DIR="{folder}"'


@pytest.fixture(scope="module")
def planned(request, python, tmp_path_factory):
    """Returns the output of dry runs, by the names of their files and bindings."""
    folder = tmp_path_factory.mktemp("plans")
    tests = [item for item in request.session.items if item.path == request.path]
    is_long = any(item.get_closest_marker("long") for item in tests)
    runs = {
        **{stack: job(*stack) for stack in STACKS[: None if is_long else SHORT]},
        "more": job("TRAIN_STEPS=3000"),
        "direct": job("train.total_steps=2400"),
        "relative": job("train.relative_steps=240"),
        "few": job("TRAIN_STEPS=11"),
        "half": job("CURRICULUM_STEPS=900"),
        "double": job("CURRICULUM_STEPS=3600"),
        "unpacked": job("train/utils.DatasetConfig.pack=False"),
        "longer": job("TRAIN_STEPS=3600", begun(folder / "longer", "1,800")),
        "shorter": job("TRAIN_STEPS=900", begun(folder / "shorter", "1,800")),
        "persona": [
            "t5x.train",
            "--gin_file=configs/personachat_dialogpt.gin",
            "--gin_file=configs/runs/personachat_flatten.gin",
            "--gin.RESTORE=None",
        ],
    }  # fmt: skip
    (folder / "jobs.json").write_text(json.dumps(list(runs.values())))
    script = str(ROOT / "tests" / "dry_runs.py")
    words = [python, script, str(folder / "jobs.json"), str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, timeout=600)
    return {name: (folder / f"{n}.txt").read_text() for n, name in enumerate(runs)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "stack", grids.first(SHORT, map(pytest.param, STACKS)), ids=" ".join
)
def test_every_schedule_fits_every_scale(planned, stack):
    scale, name = (part.split("/")[1] for part in stack)
    steps = 6000 if "smollm2" in scale else 100_000
    if name == "whole_prompts":
        steps = min(steps, 12_000)
    out = planned[stack]
    number = STAGES.get(name, 12)
    assert f"curriculum: {number} stages, {steps:,} steps\n" in out
    assert ("(train.actions) may stop it earlier" in out) == ("smollm2" not in scale)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("more", "curriculum: 12 stages, 3,000 steps\n"),
        ("direct", "curriculum: 12 stages, 2,400 steps\n"),
        ("relative", "curriculum: 12 stages, 240 steps\n"),
        ("unpacked", "curriculum: 12 stages, 1,800 steps\n"),
        ("few", "error: curriculum: 12 stages do not fit into the 11 steps of the run"),
        ("half", "curriculum: 12 stages, 900 steps\n"),
        ("half", "the last stage goes on until step 1,800, the end of the run\n"),
        ("double", "curriculum: the schedule has 3,600 steps, but the run only 1,800."),
        ("double", "schedule to the run with --gin.CURRICULUM_STEPS=None.\n"),
        ("longer", "curriculum: 12 stages, 1,800 steps\n"),
        ("longer", "the last stage goes on until step 3,600, the end of the run\n"),
        ("shorter", "the schedule has 1,800 steps, but the run only 900."),
        ("persona", "curriculum: 2 stages, 430,000 steps\n"),
        ("persona", "the last stage goes on until step 860,000, the end of the run\n"),
    ],
)  # fmt: skip
def test_a_schedule_has_the_steps_of_the_run(planned, name, expected):
    assert expected in planned[name]


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
