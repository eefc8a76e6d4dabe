"""The arguments of `jaxaug launch`; importing this is cheap."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxaug.core import arguments

ACTIONS = ("up", "create", "sync", "run", "watch", "logs", "stop")
_PREFIX = "--gin."
# Flags of the programs that are theirs on every machine; the others are for `launch`.
VALUES = (
    "gin_bindings", "gin_search_paths", "seqio_additional_cache_dirs", "tfds_data_dir",
    "shard_id", "initialization_timeout", "compilation_cache", "verbosity",
)  # fmt: skip
SWITCHES = ("accept_truncation", "keep_memory", "ynn_fusions")
_SWITCHES = {f"--{no}{name}" for name in SWITCHES for no in ("", "no")}
_FLAGS = _SWITCHES | {f"--{name}" for name in VALUES}


class _Parser(arguments.Parser):
    """Leaves `--gin.NAME=VALUE` and the flags above to the program that is launched."""

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


def add(verbs: argparse._SubParsersAction) -> None:
    """Adds the verb `launch`."""
    parser = verbs.add_parser(
        "launch", help="run a T5X program on TPU pods, GPU clusters or this machine"
    )
    kinds = parser.add_subparsers(metavar="KIND", required=True, parser_class=_Parser)
    for kind, text, add in (
        ("local", "several processes on this machine", _local),
        ("slurm", "GPU nodes through sbatch", _slurm),
        ("tpu_pod", "a Google Cloud TPU as a queued resource", _tpu_pod),
        ("k8s", "a JobSet on GKE: a TPU slice or GPU nodes", _k8s),
        ("sky", "GPU nodes of any cloud through SkyPilot", _sky),
    ):
        _add_kind(kinds, kind, text, add)


def _add_kind(
    kinds: argparse._SubParsersAction,
    kind: str,
    text: str,
    add: Callable[[Any], None],
) -> None:
    parser = kinds.add_parser(
        kind,
        help=text,
        description=f"{text}. --gin.NAME=VALUE is passed to the program, and so are "
        f"its flags {', '.join(f'--{name}' for name in VALUES)}.",
    )
    parser.set_defaults(target="jaxaug.launch.run:run", kind=kind)
    add(parser)
    parser.add_argument(
        "--program", choices=("train", "eval", "infer"), default="train"
    )
    parser.add_argument(
        "--gin_file", action="append", default=[], help="may be repeated"
    )
    parser.add_argument(
        "--dry-run",
        "--dry_run",
        action="store_true",
        dest="dry_run",
        help="print what would run, as a script, and stop",
    )


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="jaxaug", help="name of the run")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="environment variable for the program, such as "
        "JAXAUG_DATA_DIR=gs://B/sgd; may be repeated",
    )


def _number(
    parser: argparse.ArgumentParser,
    name: str,
    default: int | None = None,
    text: str | None = None,
    most: int = arguments.MANY,
) -> None:
    parser.add_argument(name, type=arguments.whole(most), default=default, help=text)


def _port(parser: argparse.ArgumentParser) -> None:
    _number(parser, "--port", 8476, "where the processes meet", 65_535)


def _spot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spot", action="store_true", help="cheaper, but may be preempted at any time"
    )


def _service_account(
    parser: argparse.ArgumentParser, default: str | None, text: str
) -> None:
    names = ("--service-account", "--service_account")
    parser.add_argument(*names, default=default, help=text)


def _local(parser: argparse.ArgumentParser) -> None:
    _number(parser, "--processes", 2, most=10_000)
    devices = "CPU devices per process (default: as found)"
    _number(parser, "--devices", None, devices, 10_000)
    parser.add_argument(
        "--logs",
        default="launch_logs",
        help="folder for the logs of processes 1, 2, ...",
    )
    _port(parser)


def _slurm(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    _number(parser, "--nodes", 1)
    _number(parser, "--gpus", 8, "GPUs per node")
    _number(parser, "--cpus", None, "CPUs per node")
    parser.add_argument("--time", default="24:00:00", help="D-HH:MM:SS or HH:MM:SS")
    parser.add_argument("--partition")
    parser.add_argument("--account")
    parser.add_argument("--qos", help="quality of service, as the cluster names it")
    parser.add_argument("--mem", help="memory per node, such as 400G; 0 is all of it")
    parser.add_argument(
        "--sbatch",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="further option of sbatch, such as constraint=h100 or exclusive; may be "
        "repeated",
    )
    _port(parser)


def _tpu_pod(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=ACTIONS,
        default="up",
        help="up (the default) is create, sync, run and watch",
    )
    _name(parser)
    parser.add_argument("--project", required=True, help="Google Cloud project")
    parser.add_argument("--zone", required=True, help="such as us-east5-b")
    parser.add_argument("--type", required=True, help="such as v5litepod-16")
    _spot(parser)
    parser.add_argument(
        "--delete",
        choices=("success", "always"),
        help="delete the TPU after a run that succeeded, or after any that ended "
        "(default: say that it costs money)",
    )
    _number(parser, "--restarts", 20, "maximum requests for another TPU after a loss")
    _service_account(parser, None, "account of the workers, such as NAME@P.iam...")
    parser.add_argument("--network", help="VPC network of the workers")
    parser.add_argument("--subnetwork", help="its subnetwork")


def _k8s(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    machines = parser.add_mutually_exclusive_group(required=True)
    machines.add_argument("--type", help="TPU slice, such as v5litepod-16")
    machines.add_argument(
        "--accelerator", help="GPU type of the nodes, such as nvidia-h100-80gb"
    )
    _number(parser, "--slices", None, "with --type (default: 1)")
    _number(parser, "--nodes", None, "with --accelerator (default: 1)")
    _number(parser, "--gpus", None, "GPUs per node, with --accelerator (default: 8)")
    parser.add_argument(
        "--image", required=True, help="image built from launch/docker and pushed"
    )
    parser.add_argument("--namespace", default="default")
    _service_account(parser, "default", "account with access to the bucket")
    _number(parser, "--restarts", 10, "maximum restarts after failures")
    _spot(parser)
    _port(parser)


def _sky(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument(
        "--accelerator", required=True, help="GPU as `sky show-gpus` names it: H100"
    )
    _number(parser, "--gpus", 8, "GPUs per node")
    _number(parser, "--nodes", 1)
    parser.add_argument("--infra", help="CLOUD[/REGION] (default: the cheapest)")
    _number(parser, "--restarts", 3, "maximum restarts of a program that fails")
    _spot(parser)
    _port(parser)
