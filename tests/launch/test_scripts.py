"""The scripts of launch/, with stand-ins for the tools that they call."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jaxaug.launch import templates
from tests.support.launch_tools import environment
from tests.support.programs import ran

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [
    "t5x.train",
    "--gin_file=a.gin",
    '--gin.MODEL_DIR="gs://b/a run"',
    "--gin.L={'inputs': 8}",
]


def entry(tools, *words, **variables):
    return ran([ROOT / "launch/entry.sh", *words], env=environment(tools, **variables))


def test_one_process_gets_no_flags(tools):
    words, given = json.loads(entry(tools, *PROGRAM).stdout)
    assert words == ["-m", *PROGRAM]
    assert given == {"TF_CPP_MIN_LOG_LEVEL": "3"}


@pytest.mark.parametrize(
    ("variables", "flags"),
    [
        ({"JAXAUG_JOIN": "auto"}, ["--multiprocess_gpu"]),
        ({"JAXAUG_JOIN": "host:1", "JAXAUG_PROCESS_COUNT": "4",
         "JAXAUG_PROCESS_INDEX": "3"},
         ["--multiprocess_gpu", "--coordinator_address=host:1", "--process_count=4",
         "--process_index=3"]),
    ],
)  # fmt: skip
def test_processes_that_join(tools, variables, flags):
    words, _ = json.loads(entry(tools, "t5x.eval", **variables).stdout)
    assert words == ["-m", "t5x.eval", *flags]


def test_devices_of_a_trial(tools):
    _, given = json.loads(
        entry(tools, "t5x.eval", JAXAUG_DEVICES="2", XLA_FLAGS="--a").stdout
    )
    assert given["JAX_PLATFORMS"] == "cpu"
    assert given["XLA_FLAGS"] == "--a --xla_force_host_platform_device_count=2"


def test_requirements_of_the_entry_script(tools):
    done = entry(tools)
    assert (done.returncode, done.stderr) == (
        2,
        "entry.sh: name a program, such as t5x.train, and its flags\n",
    )
    done = entry(tools, "t5x.train", JAXAUG_JOIN="host:1")
    assert done.returncode == 1
    assert "JAXAUG_PROCESS_COUNT: how many processes run" in done.stderr


def local(tools, script, count=3):
    """Runs `script` as the program of a local run; $INDEX is the process's number."""
    tools(
        "python-shows", f'INDEX=$JAXAUG_PROCESS_INDEX\necho "$$" >pid_$INDEX\n{script}'
    )
    variables = {
        "JAXAUG_ROOT": str(ROOT),
        "JAXAUG_JOIN": "127.0.0.1:1",
        "JAXAUG_PROCESS_COUNT": str(count),
        "JAXAUG_LOGS": "logs",
    }
    text = templates.head(variables, PROGRAM) + templates.body("local/run.sh")
    return subprocess.Popen(
        ["bash", "-c", text], env=environment(tools), cwd=tools.folder.parent,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_local_processes_that_end_well(tools):
    run = local(tools, 'echo "here $INDEX $*"')
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    flags = "--multiprocess_gpu --coordinator_address=127.0.0.1:1 --process_count=3"
    text = f"-m {' '.join(PROGRAM)} {flags}"
    assert out == f"here 0 {text} --process_index=0\n"
    log = (tools.folder.parent / "logs/process_2.log").read_text()
    assert log == f"here 2 {text} --process_index=2\n"


def test_when_one_fails_the_others_are_stopped(tools):
    run = local(tools, "if ((INDEX == 1)); then echo bad; exit 3; fi; exec sleep 50")
    _, err = run.communicate(timeout=30)
    assert run.returncode == 1
    assert err.splitlines() == [
        "process 0 of 3 ended with status 143",
        "process 1 of 3 ended with status 3",
        "bad",
        "process 2 of 3 ended with status 143",
    ]


def test_sigterm_reaches_all_and_is_waited_for(tools):
    run = local(
        tools, "trap 'kill $!; sleep 0.2; echo saved; exit 0' TERM; sleep 30 & wait"
    )
    folder = tools.folder.parent
    deadline = time.time() + 20
    while len(list(folder.glob("pid_*"))) < 3:
        assert time.time() < deadline
        time.sleep(0.02)
    time.sleep(0.2)
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=40)
    assert (run.returncode, out) == (0, "saved\n"), err
    for index in (1, 2):
        assert (folder / f"logs/process_{index}.log").read_text() == "saved\n"


def slurm(tools, srun):
    tools("scontrol", '[[ $1 == show ]] && printf "n7\\nn8\\n" || echo "scontrol $*"')
    tools("srun", srun)
    variables = {"JAXAUG_ROOT": str(ROOT), "JAXAUG_PORT": "9"}
    text = templates.head(variables, PROGRAM) + templates.body("slurm/job.sh")
    return subprocess.Popen(
        ["bash", "-c", text],
        env=environment(
            tools, SLURM_JOB_ID="12", SLURM_JOB_NODELIST="n[7-8]", SLURM_NNODES="2"
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tools.folder.parent,
    )


def test_slurm_joins_the_nodes(tools):
    run = slurm(tools, 'shift; SLURM_PROCID=1 exec "$@"')
    out, err = run.communicate(timeout=30)
    assert run.returncode == 0, err
    words, _ = json.loads(out)
    assert words == [
        *("-m", *PROGRAM, "--multiprocess_gpu", "--coordinator_address=n7:9"),
        *("--process_count=2", "--process_index=1"),
    ]


def test_slurm_queues_a_job_again_that_runs_out_of_time(tools):
    run = slurm(
        tools, "trap 'kill $!; echo saved; exit 0' TERM; sleep 30 & touch up; wait"
    )
    deadline = time.time() + 20
    while not (tools.folder.parent / "up").exists():
        assert time.time() < deadline
        time.sleep(0.02)
    run.send_signal(signal.SIGUSR1)
    out, err = run.communicate(timeout=40)
    assert (run.returncode, out) == (0, "saved\nscontrol requeue 12\n"), err


def test_slurm_queues_no_failure_again(tools):
    run = slurm(tools, "exit 4")
    assert run.communicate(timeout=30) == ("", "")
    assert run.returncode == 4


def test_texts_for_standard_input_are_handed_over(tools, capfd, monkeypatch):
    from jaxaug import cli

    tools("sbatch", "cat; exit 5")
    monkeypatch.setenv("PATH", environment(tools)["PATH"])
    words = ["launch", "slurm", "--gin_file=configs/d3st.gin"]
    assert cli.main([*words, "--dry-run"]) == 0
    shown = capfd.readouterr().out
    assert cli.main(words) == 5
    text = capfd.readouterr().out
    assert shown == f"sbatch <<'END_OF_LAUNCH'\n{text}END_OF_LAUNCH\n"
