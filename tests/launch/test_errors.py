"""Bad input of `jaxaug launch`: one message with the fix."""

from pathlib import Path

import pytest

from jaxaug import cli
from jaxaug.launch import templates, tpus

ROOT = Path(__file__).resolve().parents[2]
GIN = "--gin_file=configs/d3st.gin"
OUT = '--gin.MODEL_DIR="gs://b/r"'
TPU = ("tpu_pod", "--project=p", "--zone=z")
K8S = ("k8s", "--image=i")
HOST_LOST = (
    "what is written to the machines is lost with them; give "
    '--gin.MODEL_DIR=\\"gs://BUCKET/FOLDER\\", with the quotes.'
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("local",),
         ("no gin file: name the experiment with --gin_file, such as --gin_file "
         "configs/d3st_aug.gin.")),
        (("slurm", "--gin_file=configs/d3st_agu.gin"),
         (f"--gin_file configs/d3st_agu.gin: no such file in {ROOT}; did you "
         "mean 'configs/d3st_aug.gin' or 'configs/d3st.gin' or "
         "'configs/t5dst_aug.gin'?")),
        (("slurm", "--gin_file=/elsewhere/a.gin"),
         ("--gin_file /elsewhere/a.gin: the other machines have only the "
         f"checkout; give a path inside it, relative to {ROOT}, or a gs:// "
         f"address.")),
        (("slurm", GIN, "--time=1d"),
         "--time 1d: give D-HH:MM:SS or HH:MM:SS, such as 24:00:00."),
        (("slurm", GIN, "--name=My run"),
         ("--name My run: give at most 40 small letters, digits and hyphens, "
         "beginning with a letter and not ending with a hyphen.")),
        (("slurm", GIN, "--mem=400 GB"),
         ("--mem 400 GB: give a number with K, M, G or T, such as 400G, or 0 "
         "for all memory of the nodes.")),
        (("slurm", GIN, "--sbatch=-C h100"),
         ("--sbatch '-C h100': give the long name of an option of sbatch, "
         "such as --sbatch constraint=h100 or --sbatch exclusive.")),
        (("slurm", GIN, "--sbatch=signal=TERM"),
         ("--sbatch 'signal=TERM': the launch sets signal itself; see `jaxaug "
         "launch slurm --help`.")),
        ((*TPU, "create", "--type=v6e-8", "--delete=always"),
         ("--delete always: create does not wait for the end of a run. Give "
         "it to up or watch; stop deletes the TPU at once.")),
        ((*TPU, "create", "--type=v6e-8", "--network=my network"),
         ("--network 'my network': is no name of a Google Cloud resource; "
         "give one such as default.")),
        (("slurm", GIN, "--env=gs://b"),
         "--env gs://b: give NAME=VALUE, such as JAXAUG_DATA_DIR=gs://B/sgd."),
        ((*TPU, "--type=v5lite-16", GIN, OUT),
         ("--type v5lite-16: unknown kind of TPU 'v5lite'; did you mean "
         "'v5litepod'? Give KIND-NUMBER, such as v5litepod-16.")),
        ((*TPU, "--type=v6e-24", GIN, OUT),
         ("--type v6e-24: there is no such size; give one of v6e-1, v6e-4, "
         "v6e-8, v6e-16, v6e-32, v6e-64, v6e-128, v6e-256.")),
        ((*TPU, "--type=v6e-8", GIN), f"MODEL_DIR is not given: {HOST_LOST}"),
        ((*TPU, "--type=v6e-8", GIN, "--gin.MODEL_DIR='runs/x'"),
         f"--gin.MODEL_DIR='runs/x': {HOST_LOST}"),
        ((*K8S, "--type=v6e-8", GIN, "--gin.MODEL_DIR=gs://b/r"),
         ("--gin.MODEL_DIR=gs://b/r: is no value of gin; a text needs quotes of "
         "its own, which the shell leaves in place: "
         '--gin.MODEL_DIR=\\"gs://b/r\\".')),
        (("slurm", GIN, "--gin.TASK_FEATURE_LENGTHS={'inputs': 8"),
         ("--gin.TASK_FEATURE_LENGTHS={'inputs': 8: is no value of gin; a text "
         "needs quotes of its own, which the shell leaves in place: "
         "--gin.TASK_FEATURE_LENGTHS=\\\"{'inputs': 8\\\".")),
        ((*K8S, "--type=v6e-8", "--gpus=8", GIN, OUT),
         ("--gpus is for GPUs: the name of a TPU, v6e-8, says how many hosts and "
         "chips there are.")),
        ((*K8S, "--accelerator=nvidia-h100", GIN, OUT),
         ("--accelerator nvidia-h100: GKE has no such GPU; did you mean "
         "'nvidia-b200' or 'nvidia-h100-80gb' or 'nvidia-a100-80gb'?")),
        ((*K8S, "--accelerator=nvidia-l4", "--slices=2", GIN, OUT),
         "--slices 2 is for TPUs: give --nodes for GPUs."),
    ],
)  # fmt: skip
def test_a_mistake_has_one_message(capsys, monkeypatch, words, message):
    monkeypatch.chdir(ROOT)
    assert cli.main(["launch", *words, "--dry-run"]) == 1
    assert capsys.readouterr() == ("", f"jaxaug: error: {message}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("slurm", GIN),
         ("sbatch is not on PATH: run this on a login node of the Slurm cluster, "
         "or add --dry-run to see what would run.")),
        ((*TPU, "logs", "--type=v6e-8"),
         ("gcloud is not on PATH: install the Google Cloud CLI "
         "(https://cloud.google.com/sdk/docs/install) and run `gcloud auth "
         "login`, or add --dry-run to see what would run.")),
        ((*K8S, "--type=v6e-8", GIN, OUT), ("kubectl is not on PATH: install kubectl "
         "(https://kubernetes.io/docs/tasks/tools) and run `gcloud container "
         "clusters get-credentials CLUSTER`, or add --dry-run to see what would "
         "run.")),
    ],
)  # fmt: skip
def test_a_missing_tool(capsys, monkeypatch, tmp_path, words, message):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["launch", *words]) == 1
    assert capsys.readouterr() == ("", f"jaxaug: error: {message}\n")


def test_an_unknown_kind(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["launch", "pod"])
    assert left.value.code == 2
    assert "invalid choice: 'pod' (choose from" in capsys.readouterr().err


def test_no_checkout(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(templates, "__file__", str(tmp_path / "a/b/c.py"))
    assert cli.main(["launch", "local", GIN]) == 1
    assert capsys.readouterr().err == (
        f"jaxaug: error: {tmp_path} has no folder launch/: `jaxaug launch` sends a "
        "checkout to the other machines. Clone the repository and run `make install` "
        "there.\n"
    )


def test_a_missing_file_elsewhere(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ["launch", "local", "--gin_file=configs/d3st_agu.gin", "--dry-run"]
    assert cli.main(words) == 1
    assert (
        f"no such file in the current folder or {ROOT}; did you mean "
        "'configs/d3st_aug.gin' or " in capsys.readouterr().err
    )


def test_a_flag_without_its_value(capsys):
    with pytest.raises(SystemExit):
        cli.main(["launch", "local", GIN, "--gin_search_paths"])
    assert "argument --gin_search_paths: expected one" in capsys.readouterr().err


def test_files_of_the_runtime_are_found(capsys):
    words = ("slurm", "--gin_file=t5x/examples/t5/t5_1_1/base.gin", "--dry-run")
    assert cli.main(["launch", *words]) == 0
    assert "--gin_file=t5x/examples/t5/t5_1_1/base.gin" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "topology", "hosts", "chips"),
    [
        ("v5litepod-1", "1x1", 1, 1),
        ("v5litepod-8", "2x4", 1, 8),
        ("v5litepod-16", "4x4", 4, 4),
        ("v6e-256", "16x16", 64, 4),
        # These types count TensorCores, two per chip.
        ("v4-8", "2x2x1", 1, 4),
        ("v5p-16", "2x2x2", 2, 4),
        ("v5p-2048", "8x8x16", 256, 4),
    ],
)
def test_sizes(name, topology, hosts, chips):
    found = tpus.parse(name)
    assert (found.topology, found.hosts, found.chips) == (topology, hosts, chips)


@pytest.mark.parametrize("family", ["_FLAT", "_CUBES"])
def test_chips_equal_their_topology(family):
    for chips, topology in getattr(tpus, family).items():
        product = 1
        for side in topology.split("x"):
            product *= int(side)
        assert product == chips
