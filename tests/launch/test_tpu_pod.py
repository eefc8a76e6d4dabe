"""The scripts of launch/tpu_pod, with a stand-in for gcloud."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.launch_tools import environment
from tests.support.programs import ran

ROOT = Path(__file__).resolve().parents[2]
# Writes down its calls. `describe` answers with the next line of the file states; a
# command for worker 0 that asks for the status with the next one of statuses.
GCLOUD = r"""
next() { head -n 1 "$HOME/$1"; sed -i 1d "$HOME/$1"; }
echo "$*" | head -n 1 | cut -d ' ' -f 3- >>"$HOME/calls"
case "$*" in
  $REFUSED) exit 1 ;;
  *queued-resources\ describe*)
    state=$(next states)
    [[ $state != silent ]] || exit 1
    echo "$state"
    ;;
  *run.status\ 2*) next statuses ;;
esac
"""


def script(tools, states, statuses, **variables):
    """Returns the stored script of `tpu_pod up --spot`, after setting its variables.

    Each item of states and statuses answers a question of the script.
    """
    home = tools.folder.parent
    (home / "states").write_text("".join(f"{s}\n" for s in states))
    (home / "statuses").write_text("".join(f"{s}\n" for s in statuses))
    (home / "calls").unlink(missing_ok=True)
    tools("gcloud", GCLOUD)
    for tool in ("sleep", "git", "tar"):
        tools(tool, "cat </dev/null")
    shown = (Path(__file__).parent / "golden/tpu_pod_up.txt").read_text()
    for name, value in variables.items():
        shown, times = re.subn(rf"(?m)^(export {name})=.*$", rf"\1={value}", shown)
        assert times == 1
    return shown


def tpu_pod(tools, states, statuses=(), refused="nothing", **variables):
    """Runs that script: (status, standard error, calls of gcloud).

    gcloud refuses calls that match the pattern `refused`.
    """
    shown = script(tools, states, statuses, **variables)
    env = environment(tools, REFUSED=refused)
    done = ran(["bash"], input=shown, env=env, timeout=60)
    calls = (tools.folder.parent / "calls").read_text().splitlines()
    names = [call.removeprefix("tpus ").split(" --worker")[0] for call in calls]
    return done.returncode, done.stderr.splitlines(), names


CREATE = (
    "queued-resources create d3st --node-id=d3st --accelerator-type=v5litepod-16 "
    "--runtime-version=v2-alpha-tpuv5-lite --spot"
)
DESCRIBE = "queued-resources describe d3st --format=value(state.state)"
SSH = "tpu-vm ssh d3st"


DELETE = "queued-resources delete d3st --force --quiet"
STOP = (
    "jaxaug launch tpu_pod stop --project=p --zone=us-east5-b --type=v5litepod-16 "
    "--name=d3st"
)
COSTS = f"d3st: a TPU that is up costs money until you delete it: {STOP}"
FINISHED = "d3st: the run is finished"
UP = ["ACTIVE", "ACTIVE"]  # once for `create`, once for `watch`


def test_a_pod_from_nothing_to_the_end(tools):
    status, err, calls = tpu_pod(
        tools, ["WAITING_FOR_RESOURCES", "ACTIVE", "ACTIVE", "ACTIVE"], ["running", 0]
    )
    assert status == 0
    assert err == ["d3st: WAITING_FOR_RESOURCES", FINISHED, COSTS]
    assert calls[:3] == [CREATE, DESCRIBE, DESCRIBE]
    assert calls[3].endswith("/jaxaug.tgz d3st:jaxaug.tgz")
    # Installs, starts, and then looks twice.
    assert calls[4:] == [SSH, SSH, DESCRIBE, SSH, DESCRIBE, SSH]


def test_a_pod_that_is_taken_away_is_asked_for_again(tools):
    states = ["ACTIVE", "ACTIVE", "SUSPENDED", "FAILED", "ACTIVE", "ACTIVE"]
    status, err, calls = tpu_pod(tools, states, [75, 0])
    assert status == 0, err
    assert err == [
        "d3st: SUSPENDED; asking for another one (1 of 20)",
        "d3st: FAILED before it was ready",
        "d3st: LOST; asking for another one (2 of 20)",
        FINISHED,
        COSTS,
    ]
    assert (calls.count(CREATE), calls.count(DELETE)) == (3, 2)


def test_requests_for_a_pod_come_to_an_end(tools):
    status, err, calls = tpu_pod(
        tools, [*UP, *["SUSPENDED"] * 9], ["running"], JAXAUG_RESTARTS=2
    )
    assert (status, calls.count(CREATE)) == (1, 3)
    assert err[-2:] == [
        "d3st: LOST, and --restarts=2 allows no further request",
        COSTS,
    ]


def test_a_run_that_fails_is_not_started_again(tools):
    status, err, calls = tpu_pod(tools, UP, [1])
    assert (status, err) == (1, ["d3st: the run failed with status 1", COSTS])
    assert (calls.count(CREATE), calls.count(DELETE)) == (1, 0)


@pytest.mark.parametrize(
    ("delete", "ended", "deleted"),
    [("success", 0, 1), ("success", 1, 0), ("always", 0, 1), ("always", 1, 1)],
)
def test_a_pod_is_deleted_after_the_run(tools, delete, ended, deleted):
    status, err, calls = tpu_pod(tools, UP, [ended], JAXAUG_DELETE=delete)
    assert (status, calls.count(DELETE)) == (ended, deleted)
    assert err[-1] == ("d3st: deleted" if deleted else COSTS)
    # A failed run shows the end of its log; then its programs end.
    assert calls[7:-1] == [SSH] * (ended + 1) if deleted else calls[7:] == []


def test_a_pod_that_cannot_be_deleted_still_costs_money(tools):
    _, err, _ = tpu_pod(tools, UP, [0], "*delete*", JAXAUG_DELETE="always")
    assert err == [FINISHED, COSTS]


@pytest.mark.parametrize(
    ("step", "refused", "deleted"),
    [("sync", "*scp*", 1), ("run", "*nohup*", 1)],
)
def test_a_step_that_fails_says_that_a_machine_is_up(tools, step, refused, deleted):
    said = f"d3st: {step} failed with status 1"
    status, err, calls = tpu_pod(tools, UP, [], refused)
    assert (status, err) == (1, [said, COSTS])
    assert DELETE not in calls
    status, err, calls = tpu_pod(tools, UP, [], refused, JAXAUG_DELETE="always")
    assert (status, err) == (1, [said, "d3st: deleted"])
    assert DELETE in calls


def test_a_refused_request_deletes_no_other_pod(tools):
    """The name may belong to a pod on which somebody works."""
    status, err, calls = tpu_pod(tools, [], [], "*create*", JAXAUG_DELETE="always")
    assert (status, calls) == (9, [CREATE])
    assert err == ["d3st: gcloud refused the request", COSTS]


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_watcher_that_is_ended_deletes_nothing(tools, name):
    """The run continues, even if the tool that is ended calls it a failure."""
    home = tools.folder.parent
    shown = script(tools, UP, ["running"], JAXAUG_DELETE="always")
    tools("sleep", "trap 'exit 1' INT TERM HUP; touch $HOME/sleeps; /bin/sleep 60")
    run = subprocess.Popen(
        # A shell in the background and nohup ignore some signals.
        ["env", "--default-signal", "bash"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tools, REFUSED="nothing"),
        text=True,
        start_new_session=True,
    )
    run.stdin.write(shown)
    run.stdin.close()
    run.stdin = None
    deadline = time.time() + 20
    while not (home / "sleeps").exists():
        assert time.time() < deadline
        time.sleep(0.02)
    os.killpg(run.pid, name)
    assert COSTS in run.communicate(timeout=20)[1].splitlines()
    assert DELETE not in (home / "calls").read_text()


def test_a_pod_that_gcloud_does_not_see_for_a_while(tools):
    states = ["silent", "ACTIVE", "ACTIVE", *["silent"] * 9, "ACTIVE", "ACTIVE"]
    status, err, calls = tpu_pod(tools, states, ["running", "running", 0])
    assert (status, calls.count(CREATE)) == (0, 1)
    assert err == ["d3st: UNKNOWN", FINISHED, COSTS]


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ([], "d3st: gcloud does not answer; the request stays"),
        (["ACTIVE"], "d3st: gcloud does not answer; repeat `watch`"),
    ],
    ids=["create", "watch"],
)
def test_a_pod_that_gcloud_does_not_see_any_more(tools, before, message):
    status, err, calls = tpu_pod(
        tools, [*before, *["silent"] * 10], JAXAUG_DELETE="always"
    )
    assert (status, err[-2:]) == (9, [message, COSTS])
    assert calls.count(DESCRIBE) == len(before) + 10
    assert DELETE not in calls


def test_workers_get_the_words_and_the_environment(tools):
    """The command of `run.sh` runs here instead of on the workers."""
    home = tools.folder.parent
    (home / "jaxaug").symlink_to(ROOT)
    tools("gcloud", 'for word; do :; done; exec bash -c "${word#--command=}"')
    shown = (Path(__file__).parent / "golden/tpu_pod_run.txt").read_text()
    subprocess.run(["bash"], input=shown, env=environment(tools), text=True, check=True)
    deadline = time.time() + 20
    while not (home / "run.status").exists():
        assert time.time() < deadline
        time.sleep(0.02)
    words, given = json.loads((home / "run.log").read_text())
    assert words == [
        *("-m", "t5x.train", "--gin_file=configs/d3st_aug.gin"),
        *("--gin_file=configs/scale/base.gin", '--gin.MODEL_DIR="gs://bucket/a run"'),
        *("--gin.TASK_FEATURE_LENGTHS={'inputs': 512, 'targets': 64}",),
        "--multiprocess_gpu",
    ]
    assert given["JAXAUG_DATA_DIR"] == "gs://bucket/sgd"
    assert given["T5X_STOPPED_STATUS"] == "75"
    time.sleep(0.1)
    assert (home / "run.status").read_text() == "0\n"
