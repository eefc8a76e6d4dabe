"""Options of `jaxaug launch`; this module imports quickly."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from jaxaug.core.arguments import (
    MANY,
    Arg,
    Count,
    Parser,
    Range,
    Settings,
    Words,
    adds,
)  # fmt: skip

_TARGET = "jaxaug.launch.run:run"
_PREFIX = "--gin."
# Flags of the programs that are theirs on every machine; the others are for `launch`.
VALUES = (
    "gin_bindings", "gin_search_paths", "seqio_additional_cache_dirs", "tfds_data_dir",
    "shard_id", "initialization_timeout", "compilation_cache", "verbosity",
)  # fmt: skip
SWITCHES = ("accept_truncation", "keep_memory", "ynn_fusions")
_SWITCHES = {f"--{no}{name}" for name in SWITCHES for no in ("", "no")}
_FLAGS = _SWITCHES | {f"--{name}" for name in VALUES}

_Port = Annotated[int, Range(1024, 65_535)]
_GPUs = Annotated[int, Range(1, 16)]
_Restarts = Annotated[int, Range(0, MANY)]


def _repeated(metavar: str | None = None) -> Arg:
    return Arg(metavar=metavar, action="append", nargs=None)


class _Parser(Parser):
    """Leaves `--gin.NAME=VALUE` and the flags above to the program that is launched."""

    def __init__(self, **form: Any):
        names = ", ".join(f"--{name}" for name in VALUES)
        said = (
            f"--gin.NAME=VALUE is passed to the program, and so are its flags {names}."
        )
        super().__init__(**form, epilog=said)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str], namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        ours, flags = [], []
        words = iter(args)
        for word in words:
            name, equals, _ = word.partition("=")
            if name not in _FLAGS and not word.startswith(_PREFIX):
                ours.append(word)
            elif equals or name in _SWITCHES:
                flags.append(word)
            else:
                flags.append(f"{word}={self._next(word, words)}")
        found, unknown = super().parse_known_args(ours, namespace)
        found.flags = flags
        return found, unknown

    def _next(self, word: str, words: Iterator[str]) -> str:
        value = next(words, None)
        if value is None:
            self.error(f"argument {word}: expected one argument")
        return value


class Launch(Settings, verb="launch"):
    """Run a T5X program on TPU pods, GPU clusters or this machine."""


class Program(Settings):
    """The program to launch.

    Attributes:
        gin_file: may be repeated
        dry_run: print what would run, as a script, and stop
    """

    program: Literal["train", "eval", "infer"] = "train"
    gin_file: Annotated[Words, _repeated()] = ()
    dry_run: Annotated[bool, Arg("--dry-run", "--dry_run")] = False
    flags: Annotated[Words, Arg(help=argparse.SUPPRESS)] = ()


class Named(Program):
    """A program on other machines.

    Attributes:
        name: name of the run
        env: environment variable for the program, such as
            JAXAUG_DATA_DIR=gs://B/sgd; may be repeated
    """

    name: str = "jaxaug"
    env: Annotated[Words, _repeated("NAME=VALUE")] = ()


class Local(Program, verb="launch local", target=_TARGET):
    """Several processes on this machine.

    Attributes:
        devices: CPU devices per process (default: as found)
        logs: folder for the logs of processes 1, 2, ...
        port: where the processes meet
    """

    processes: Annotated[int, Range(1, 256)] = 2
    devices: Annotated[int, Range(1, 1024)] | None = None
    logs: str = "launch_logs"
    port: _Port = 8476


class Slurm(Named, verb="launch slurm", target=_TARGET):
    """GPU nodes through sbatch.

    Attributes:
        gpus: GPUs per node
        cpus: CPUs per node
        time: D-HH:MM:SS or HH:MM:SS
        qos: quality of service, as the cluster names it
        mem: memory per node, such as 400G; 0 is all of it
        sbatch: further option of sbatch, such as constraint=h100 or exclusive; may be
            repeated
        port: where the processes meet
    """

    nodes: Count = 1
    gpus: _GPUs = 8
    cpus: Count | None = None
    time: str = "24:00:00"
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    mem: str | None = None
    sbatch: Annotated[Words, _repeated("NAME[=VALUE]")] = ()
    port: _Port = 8476


class TpuPod(Named, verb="launch tpu_pod", target=_TARGET):
    """A Google Cloud TPU as a queued resource.

    Attributes:
        action: up (the default) is create, sync, run and watch
        project: Google Cloud project
        zone: such as us-east5-b
        type: such as v5litepod-16
        spot: cheaper, but may be preempted at any time
        delete: delete the TPU after a run that succeeded, or after any that ended
            (default: say that it costs money)
        restarts: maximum requests for another TPU after a loss
        service_account: account of the workers, such as NAME@P.iam...
        network: VPC network of the workers
        subnetwork: its subnetwork
    """

    action: Annotated[
        Literal["up", "create", "sync", "run", "watch", "logs", "stop"], Arg("")
    ] = "up"
    project: str
    zone: str
    type: str
    spot: bool = False
    delete: Literal["success", "always"] | None = None
    restarts: _Restarts = 20
    service_account: Annotated[
        str | None, Arg("--service-account", "--service_account")
    ] = None
    network: str | None = None
    subnetwork: str | None = None


class K8s(Named, verb="launch k8s", target=_TARGET):
    """A JobSet on GKE: a TPU slice or GPU nodes.

    Attributes:
        type: TPU slice, such as v5litepod-16
        accelerator: GPU type of the nodes, such as nvidia-h100-80gb
        slices: with --type (default: 1)
        nodes: with --accelerator (default: 1)
        gpus: GPUs per node, with --accelerator (default: 8)
        image: image built from launch/docker and pushed
        service_account: account with access to the bucket
        restarts: maximum restarts after failures
        spot: cheaper, but may be preempted at any time
        port: where the processes meet
    """

    type: Annotated[str | None, Arg(either="machines", required=True)] = None
    accelerator: Annotated[str | None, Arg(either="machines")] = None
    slices: Annotated[int, Range(1, 1024)] | None = None
    nodes: Count | None = None
    gpus: _GPUs | None = None
    image: str
    namespace: str = "default"
    service_account: Annotated[str, Arg("--service-account", "--service_account")] = (
        "default"
    )
    restarts: _Restarts = 10
    spot: bool = False
    port: _Port = 8476


class Sky(Named, verb="launch sky", target=_TARGET):
    """GPU nodes of any cloud through SkyPilot.

    Attributes:
        accelerator: GPU as `sky show-gpus` names it: H100
        gpus: GPUs per node
        infra: CLOUD[/REGION] (default: the cheapest)
        restarts: maximum restarts of a program that fails
        spot: cheaper, but may be preempted at any time
        port: where the processes meet
    """

    accelerator: str
    gpus: _GPUs = 8
    nodes: Count = 1
    infra: str | None = None
    restarts: _Restarts = 3
    spot: bool = False
    port: _Port = 8476


add = adds(Launch, Local, Slurm, TpuPod, K8s, Sky, metavar="KIND", kind=_Parser)
