"""`jaxaug launch KIND`: the text that each kind gives to bash, sbatch, or kubectl."""

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion
from jaxaug.launch import arguments as settings
from jaxaug.launch import program, templates, tpus
from jaxaug.launch.templates import Launch

_TOOLS = {
    "bash": "install bash 4.3 or newer",
    "sbatch": "run this on a login node of the Slurm cluster",
    "gcloud": "install the Google Cloud CLI "
    "(https://cloud.google.com/sdk/docs/install) and run `gcloud auth login`",
    "kubectl": "install kubectl (https://kubernetes.io/docs/tasks/tools) and run "
    "`gcloud container clusters get-credentials CLUSTER`",
    "sky": "install SkyPilot (`pip install 'skypilot[gcp]'`) and run `sky check`",
}
# Exit status of a run that SIGTERM stopped, where somebody starts it again.
_STOPPED = "75"
_GPUS = {
    "nvidia-tesla-t4", "nvidia-l4", "nvidia-tesla-a100", "nvidia-a100-80gb",
    "nvidia-h100-80gb", "nvidia-h100-mega-80gb", "nvidia-h200-141gb", "nvidia-b200",
}  # fmt: skip
_RESOURCE = re.compile(r"[A-Za-z0-9][\w.:/@-]*")
_SKY = re.compile(r"[A-Za-z0-9*][\w./*-]*")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_MEMORY = re.compile(r"\d+[KMGT]?")
_SBATCH = re.compile(r"(?:--)?([a-z][a-z-]+)(?:=(.+))?")
_TIME = re.compile(r"(\d+-)?\d{1,2}:\d{2}:\d{2}")


def run(arguments: settings.Program) -> int:
    """Runs the verb; see `jaxaug launch --help`."""
    launch, tool = _KINDS[type(arguments)](arguments)
    if arguments.dry_run:
        print(launch.shown(), end="")
        return 0
    if shutil.which(tool) is None:
        raise UserError(
            f"{tool} is not on PATH: {_TOOLS[tool]}, or add --dry-run to see what "
            "would run."
        )
    sys.stdout.flush()
    if launch.by_argument:
        # The script takes the place of this process, and gets its signals.
        os.execvp(launch.command[0], [*launch.command, launch.text])
    return subprocess.run(
        launch.command, input=launch.text, text=True, check=False
    ).returncode


def _script(*parts: str) -> Launch:
    return Launch(("bash", "-c"), "".join(parts), by_argument=True)


def _local(arguments: settings.Local) -> tuple[Launch, str]:
    variables = {
        "JAXAUG_ROOT": str(templates.root()),
        "JAXAUG_PYTHON": sys.executable,
        "JAXAUG_JOIN": f"127.0.0.1:{arguments.port}",
        "JAXAUG_PROCESS_COUNT": str(arguments.processes),
        "JAXAUG_LOGS": arguments.logs,
    }
    if arguments.devices is not None:
        variables["JAXAUG_DEVICES"] = str(arguments.devices)
    words = program.words(arguments, here=True)
    head = templates.head(variables, words)
    return _script(head, templates.body("local/run.sh")), "bash"


def _slurm(arguments: settings.Slurm) -> tuple[Launch, str]:
    if not _TIME.fullmatch(arguments.time):
        raise UserError(
            f"--time {arguments.time}: give D-HH:MM:SS or HH:MM:SS, such as 24:00:00."
        )
    if arguments.mem and not _MEMORY.fullmatch(arguments.mem):
        raise UserError(
            f"--mem {arguments.mem}: give a number with K, M, G or T, such as 400G, or "
            "0 for all memory of the nodes."
        )
    options = {
        "job-name": _name(arguments),
        "nodes": arguments.nodes,
        "ntasks-per-node": 1,
        "gpus-per-node": arguments.gpus,
        "cpus-per-task": arguments.cpus,
        "time": arguments.time,
        "partition": arguments.partition,
        "account": arguments.account,
        "qos": arguments.qos,
        "mem": arguments.mem,
        "output": f"{arguments.name}-%j.log",
        "open-mode": "append",
        "signal": "B:USR1@300",
        "requeue": "",
        "chdir": str(templates.root()),
    }
    root = str(templates.root())
    variables = {
        "JAXAUG_ROOT": root,
        "JAXAUG_PORT": str(arguments.port),
        "JAX_LOCAL_DEVICE_IDS": _all_devices(arguments.gpus),
        **dict(program.environment(arguments.env)),
    }
    text = (
        f"#!/usr/bin/env bash\n{_directives(options, arguments.sbatch)}"
        + templates.head(variables, program.words(arguments))
        + templates.body("slurm/job.sh")
    )
    return Launch(("sbatch",), text), "sbatch"


def _directives(options: dict[str, Any], further: Sequence[str]) -> str:
    """Returns the options of sbatch as lines of a script.

    Args:
        options: name -> value; an empty value is a switch, None leaves the option out.
        further: `NAME` or `NAME=VALUE` of `--sbatch`; leading hyphens are optional.

    Raises:
        UserError: an item of `further` has another form, or the launch sets it itself.
    """
    found = {name: value for name, value in options.items() if value is not None}
    for text in further:
        option = _SBATCH.fullmatch(text)
        if not option:
            raise UserError(
                f"--sbatch {text!r}: give the long name of an option of sbatch, such "
                "as --sbatch constraint=h100 or --sbatch exclusive."
            )
        name, value = option[1], option[2] or ""
        if name in options and name != "output":
            raise UserError(
                f"--sbatch {text!r}: the launch sets {name} itself; see `jaxaug launch "
                "slurm --help`."
            )
        found[name] = value
    return "".join(
        f"#SBATCH --{name}{f'={shlex.quote(str(value))}' if value != '' else ''}\n"
        for name, value in found.items()
    )


def _tpu_pod(arguments: settings.TpuPod) -> tuple[Launch, str]:
    tpu = tpus.parse(arguments.type)
    action = arguments.action
    if arguments.delete and action not in ("up", "watch"):
        raise UserError(
            f"--delete {arguments.delete}: {action} does not wait for the end of a "
            "run. Give it to up or watch; stop deletes the TPU at once."
        )
    exports = "".join(
        f"export {name}={shlex.quote(value)}; "
        for name, value in program.environment(arguments.env)
    )
    own = {name: getattr(arguments, name) for name in ("project", "zone", "type")}
    own["name"] = _name(arguments)
    stop = ["jaxaug", "launch", "tpu_pod", "stop"]
    variables = {
        "CLOUDSDK_CORE_PROJECT": arguments.project,
        "CLOUDSDK_COMPUTE_ZONE": arguments.zone,
        "JAXAUG_ROOT": str(templates.root()),
        "JAXAUG_NAME": arguments.name,
        "JAXAUG_TYPE": arguments.type,
        "JAXAUG_VERSION": tpu.image,
        "JAXAUG_OPTIONS": " ".join(_tpu_options(arguments)),
        "JAXAUG_RESTARTS": str(arguments.restarts),
        "JAXAUG_DELETE": arguments.delete or "",
        "JAXAUG_STOP": shlex.join(
            [*stop, *(f"--{name}={value}" for name, value in own.items())]
        ),
        "JAXAUG_REMOTE_ENV": exports,
    }
    words = []
    if action in ("up", "run", "watch"):
        words = program.words(arguments)
        program.require_remote_output(arguments)
    head = templates.head(variables, words)
    if action in ("logs", "stop"):
        return _script(head, templates.body(f"tpu_pod/{action}.sh")), "gcloud"
    return _script(head, *_tpu_steps(action)), "gcloud"


def _tpu_options(arguments: settings.TpuPod) -> Iterator[str]:
    """Yields further options of the request, none of which contains a space.

    Raises:
        UserError: a value is not a name.
    """
    if arguments.spot:
        yield "--spot"
    for name, example in (
        ("service_account", "trainer@PROJECT.iam.gserviceaccount.com"),
        ("network", "default"),
        ("subnetwork", "projects/P/regions/R/subnetworks/S"),
    ):
        value = getattr(arguments, name)
        option = f"--{name.replace('_', '-')}"
        if value is None:
            continue
        if not _RESOURCE.fullmatch(value):
            raise UserError(
                f"{option} {value!r}: is no name of a Google Cloud resource; give one "
                f"such as {example}."
            )
        yield f"{option}={value}"


def _tpu_steps(action: str) -> Iterator[str]:
    """Yields the parts of a script that carries out an action on a TPU."""
    watched = action in ("up", "watch")
    steps = ("create", "sync", "run")
    for name in (*steps, "stop") if watched else (action,):
        yield templates.function(name, f"tpu_pod/{name}.sh")
    yield templates.body("tpu_pod/end.sh")
    for name in {"up": steps, "watch": ()}.get(action, (action,)):
        yield f'step={name}\n{name} "$@"\n'
    if watched:
        yield f"step=watch\n{templates.body('tpu_pod/watch.sh')}"


@dataclasses.dataclass
class _Nodes:
    """Resources of a JobSet on GKE: `slices` times `hosts` pods with `chips` each.

    `key` names a chip, `selector` the node pool; `environment` says how the processes
    find each other.
    """

    slices: int
    hosts: int
    chips: int
    key: str
    selector: dict[str, str]
    environment: dict[str, str]


def _tpu_nodes(arguments: settings.K8s) -> _Nodes:
    given = [n for n in ("nodes", "gpus") if getattr(arguments, n) is not None]
    if given:
        raise UserError(
            f"--{given[0]} is for GPUs: the name of a TPU, {arguments.type}, says how "
            "many hosts and chips there are."
        )
    tpu = tpus.parse(arguments.type or "")
    selector = {
        "cloud.google.com/gke-tpu-accelerator": tpu.gke,
        "cloud.google.com/gke-tpu-topology": tpu.topology,
    }
    slices = arguments.slices or 1
    join = {"JAXAUG_JOIN": "auto"}
    return _Nodes(slices, tpu.hosts, tpu.chips, "google.com/tpu", selector, join)


def _gpu_nodes(arguments: settings.K8s) -> _Nodes:
    if arguments.slices is not None:
        raise UserError(
            f"--slices {arguments.slices} is for TPUs: give --nodes for GPUs."
        )
    if arguments.accelerator not in _GPUS:
        raise UserError(
            f"--accelerator {arguments.accelerator}: GKE has no such GPU; "
            f"{suggestion(str(arguments.accelerator), _GPUS)}"
        )
    hosts = arguments.nodes or 1
    chips = arguments.gpus or 8
    # The host names that JobSet gives: set, job, its number, pod; then the service.
    first = f"{arguments.name}-workers-0-0.{arguments.name}"
    join = {
        "JAXAUG_JOIN": f"{first}:{arguments.port}",
        "JAXAUG_PROCESS_COUNT": str(hosts),
        "JAX_LOCAL_DEVICE_IDS": _all_devices(chips),
    }
    selector = {"cloud.google.com/gke-accelerator": arguments.accelerator}
    return _Nodes(1, hosts, chips, "nvidia.com/gpu", selector, join)


def _k8s(arguments: settings.K8s) -> tuple[Launch, str]:
    nodes = (_tpu_nodes if arguments.type else _gpu_nodes)(arguments)
    tolerations = [{"key": nodes.key, "operator": "Exists", "effect": "NoSchedule"}]
    if arguments.spot:
        spot = {"key": "cloud.google.com/gke-spot", "value": "true"}
        nodes.selector[spot["key"]] = spot["value"]
        tolerations.append({**spot, "operator": "Equal", "effect": "NoSchedule"})
    environment = {
        **dict(program.environment(arguments.env)),
        "T5X_STOPPED_STATUS": _STOPPED,
        **nodes.environment,
    }
    variables: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in environment.items()
    ]
    if not arguments.type:
        index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        source = {"fieldRef": {"fieldPath": index}}
        variables.append({"name": "JAXAUG_PROCESS_INDEX", "valueFrom": source})
    program.require_remote_output(arguments)
    values = {
        "name": _name(arguments),
        "namespace": arguments.namespace,
        "restarts": arguments.restarts,
        "slices": nodes.slices,
        "hosts": nodes.hosts,
        "service_account": arguments.service_account,
        "selector": nodes.selector,
        "tolerations": tolerations,
        "image": arguments.image,
        # In an argument of a pod $(NAME) is a variable.
        "program": [w.replace("$", "$$") for w in program.words(arguments)],
        "environment": variables,
        "chips": nodes.chips,
    }
    # JSON is YAML, and quotes what would be something else there.
    filled = {name: json.dumps(value) for name, value in values.items()}
    template = "k8s/tpu.yaml" if arguments.type else "k8s/gpu.yaml"
    text = templates.manifest(template, filled)
    return Launch(("kubectl", "apply", "--filename", "-"), text), "kubectl"


def _sky(arguments: settings.Sky) -> tuple[Launch, str]:
    for name, example in (("accelerator", "H100"), ("infra", "gcp/us-central1")):
        value = getattr(arguments, name)
        if value is not None and not _SKY.fullmatch(value):
            raise UserError(
                f"--{name} {value!r}: is no name of SkyPilot, such as {example}; give "
                "one that `sky show-gpus --all` lists."
            )
    resources: dict[str, Any] = {
        "accelerators": f"{arguments.accelerator}:{arguments.gpus}",
        "use_spot": arguments.spot,
        "job_recovery": {"max_restarts_on_errors": arguments.restarts},
    }
    if arguments.infra:
        resources["infra"] = arguments.infra
    program.require_remote_output(arguments)
    values = {
        "name": _name(arguments),
        "root": str(templates.root()),
        "nodes": arguments.nodes,
        "resources": resources,
        "environment": dict(program.environment(arguments.env)),
        "port": arguments.port,
    }
    filled = {name: json.dumps(value) for name, value in values.items()}
    # Lines of a block scalar in YAML are indented.
    words = shlex.join(program.words(arguments)).replace("\n", "\n  ")
    task = templates.manifest("sky/task.yaml", {**filled, "program": words})
    return _script(templates.with_file(task, "sky jobs launch")), "sky"


def _name(arguments: settings.Named) -> str:
    if not _NAME.fullmatch(arguments.name):
        raise UserError(
            f"--name {arguments.name}: give at most 40 small letters, digits and "
            "hyphens, beginning with a letter and not ending with a hyphen."
        )
    return arguments.name


def _all_devices(count: int) -> str:
    """Returns the ids of all GPUs: inside a Slurm job, JAX would use only one."""
    return ",".join(map(str, range(count)))


_KINDS: dict[type[settings.Program], Callable[[Any], tuple[Launch, str]]] = {
    settings.Local: _local,
    settings.Slurm: _slurm,
    settings.TpuPod: _tpu_pod,
    settings.K8s: _k8s,
    settings.Sky: _sky,
}
