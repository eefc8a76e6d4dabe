"""benchmarks/compare.sh with stand-ins for the programs that it calls."""

import os
import re
from pathlib import Path

import pytest

from tests.support.programs import ran

ROOT = Path(__file__).resolve().parent.parent
CYCLIC = ROOT / "configs/d3st_cyclic.gin"
# `-c` asks for the core; otherwise it is a training, which fails if a file says so.
TRAIN = """#!/usr/bin/env bash
[ "$1" = -c ] && { echo "$CORE"; exit; }
for word in "$@"; do
  case $word in --gin.MODEL_DIR=*) run=${word#*=}; run=${run//\\'/};; esac
done
[ -e "$RUNS/fail" ] && { echo broken; exit 1; }
[ -e "$RUNS/stop" ] && { echo stopped; exit "${T5X_STOPPED_STATUS:-0}"; }
mkdir -p "$run"
echo "$@" >> "$RUNS/trained.txt"
"""
PIN = """#!/usr/bin/env bash
echo "$2" >> "$RUNS/pinned.txt"
shift 2
exec "$@"
"""
SHOW = '#!/usr/bin/env bash\necho "$(basename "$0") $*"\n'


@pytest.fixture
def compare(tmp_path):
    """Runs the script with two sets; returns (exit status, lines printed, stderr)."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {"python": TRAIN, "jaxaug": SHOW, "taskset": PIN}
    programs["nproc"] = "#!/usr/bin/env bash\necho 2\n"
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "RUNS": str(tmp_path), "SETS": "sgd tree_6x"}

    def call(*words, **variables):
        done = ran(
            [ROOT / "benchmarks/compare.sh", *words], cwd=ROOT, env=env | variables
        )
        return done.returncode, done.stdout.splitlines(), done.stderr

    return call


def trained(folder):
    return sorted((folder / "trained.txt").read_text().splitlines())


def test_finished_runs_are_skipped_and_the_page_is_made(compare, tmp_path):
    status, lines, error = compare("3", "4")
    assert status == 0, error
    assert lines[0] == "4 runs, left: 4"
    assert {"left: 0"} <= {line.rpartition("; ")[2] for line in lines}
    names = [f"d3st_{name}-seed{seed}" for seed in "34" for name in ("sgd", "tree_6x")]
    runs = " ".join(f"{tmp_path}/{name}" for name in names)
    page = f"{tmp_path}/compare_d3st"
    files = f"--html {page}.html --csv {page}.csv --png {page}.png"
    assert lines[-1] == f"jaxaug report {runs} {files}"
    assert trained(tmp_path)[0] == (
        "-m t5x.train --gin_file=configs/d3st_aug.gin "
        "--gin.MIXTURE_OR_TASK_NAME='d3st_sgd' --gin.RANDOM_SEED=3 "
        f"--gin.MODEL_DIR='{tmp_path}/d3st_sgd-seed3'"
    )
    assert len(trained(tmp_path)) == 4
    assert compare("3", "4")[1] == ["4 runs, left: 0", lines[-1]]
    assert len(trained(tmp_path)) == 4
    # A changed configuration makes the script look at the run again.
    (tmp_path / names[1] / "compare.finished").write_text("1 2\n")
    assert compare("--left", "3", "4")[1] == ["4 runs, left: 1", names[1]]
    assert len(trained(tmp_path)) == 4
    compare("3", "4")
    assert len(trained(tmp_path)) == 5


def test_other_data_make_a_run_stale(compare, tmp_path):
    schema = tmp_path / "my data" / "train" / "schema.json"
    schema.parent.mkdir(parents=True)
    schema.write_text("[]")
    data = {"JAXAUG_DATA_DIR": str(tmp_path / "my data")}
    compare("0", **data)
    assert compare("--left", "0", **data)[1] == ["2 runs, left: 0"]
    schema.write_text("[{}]")
    assert compare("--left", "0", **data)[1][0] == "2 runs, left: 2"
    assert compare("--left", "0")[1][0] == "2 runs, left: 2"


def test_curricula_get_as_many_updates_as_the_mixture(compare, tmp_path):
    status, lines, error = compare("2", SETS="curricula")
    assert status == 0, error
    steps = re.search(r"^TRAIN_STEPS = (\d+)", CYCLIC.read_text(), re.MULTILINE)[1]
    updates = f"--gin.TRAIN_STEPS={steps} --gin.EVAL_PERIOD={steps}"
    seed = f"--gin.RANDOM_SEED=2 --gin.MODEL_DIR='{tmp_path}/d3st_"
    assert trained(tmp_path) == [
        f"-m t5x.train --gin_file=configs/d3st_aug.gin {updates} {seed}mixture-seed2'",
        *(
            "-m t5x.train --gin_file=configs/d3st_cyclic.gin "
            f"--gin_file=configs/curriculum/{name}.gin {seed}{name}-seed2'"
            for name in ("cyclic", "gradual", "inverse", "random")
        ),
    ]
    assert f"--html {tmp_path}/compare_curricula.html" in lines[-1]
    compare("2", SETS="gradual", FORMAT="t5dst", WITH="--gin_file=a.gin --pack")
    assert trained(tmp_path)[-1] == (
        "-m t5x.train --gin_file=configs/t5dst_cyclic.gin "
        "--gin_file=configs/curriculum/gradual.gin --gin_file=a.gin --pack "
        f"{seed.replace('d3st', 't5dst')}gradual-seed2'"
    )


def test_a_run_that_would_be_left_over_has_all_cores_at_the_beginning(
    compare, tmp_path
):
    status, lines, error = compare("0", SETS="sgd eda_6x tree_6x")
    assert status == 0, error
    sgd, eda, tree = (
        f"{tmp_path}/d3st_{x}-seed0" for x in ("sgd", "eda_6x", "tree_6x")
    )
    assert lines[1] == f"training {sgd}"
    assert re.fullmatch(rf"finished {sgd} in \d+s; left: 2", lines[2])
    assert {f"training {eda}", f"training {tree}"} <= set(lines[3:])
    cores = (tmp_path / "pinned.txt").read_text().split()
    assert len(cores) == 2
    # One of four is left; the other three are finished.
    for done in (sgd, eda, tree):
        assert Path(done, "compare.finished").exists()
    compare("0", SETS="sgd eda_6x tree_6x aug_6x", CORE="1")
    assert (tmp_path / "pinned.txt").read_text().split() == cores


@pytest.mark.parametrize("sets", ["sgd tree_6x", "sgd tree_6x aug_6x"])
@pytest.mark.parametrize(("how", "said"), [("fail", "broken"), ("stop", "stopped")])
def test_a_run_that_failed_or_was_stopped_stops_the_rest_and_is_left(
    compare, tmp_path, sets, how, said
):
    (tmp_path / how).touch()
    status, lines, error = compare("0", SETS=sets)
    assert status != 0 and said in error
    assert not any(line.startswith("jaxaug") for line in lines)
    left = compare("--left", "0", SETS=sets)[1]
    names = sets.split()
    assert left[0] == f"{len(names)} runs, left: {len(names)}"
    assert left[1:] == [f"d3st_{name}-seed0" for name in names]


def test_five_seeds_by_default_and_other_words(compare):
    assert compare("--left")[1][0] == "10 runs, left: 10"
    status, _, error = compare("0", "one")
    assert status == 2 and "(got one)" in error
