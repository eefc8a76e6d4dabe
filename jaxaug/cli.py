"""`jaxaug <verb>`: the command line.

Parsing imports no heavy modules. Each verb names its function as `module:function`. The
function is imported when the verb runs. It takes the parsed arguments and returns the
exit status.
"""

import contextlib
import errno
import importlib
import io
import os
import select
import sys
from collections.abc import Sequence
from typing import NoReturn

from jaxaug.augment import arguments as augment
from jaxaug.core import arguments, completion
from jaxaug.core import verbs as others
from jaxaug.core.errors import UserError
from jaxaug.core.garbage import paused
from jaxaug.core.installed import ShowVersions, extras_of
from jaxaug.curriculum import arguments as curriculum
from jaxaug.data import arguments as data
from jaxaug.formats import arguments as formats
from jaxaug.launch import arguments as launch
from jaxaug.look import arguments as look
from jaxaug.metrics import arguments as metrics
from jaxaug.models import arguments as models
from jaxaug.paraphrase import arguments as paraphrase
from jaxaug.serve import arguments as serve
from jaxaug.tools import arguments as tools
from jaxaug.track import arguments as track

_SPACE = "Free some space, then run the same command again."
_RIGHTS = "Change its permissions, or name another path."
_FIXES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "Name a place that takes larger files, or raise the limit "
    "(`ulimit -f`).",
    errno.EIO: "Check the disk, or name another path.",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
}
_SIGPIPE = 128 + 13  # Exit status of a program that SIGPIPE ends, as in shells.


class Doctor(arguments.DataDir, verb="doctor", target="jaxaug.doctor:run"):
    """Versions, devices, data found, what is missing and the fix for each."""


VERBS = others.table(
    {
        "doctor": arguments.adds(Doctor),
        "init": data.add_init,
        "data": data.add,
        "format": formats.add,
        "schema": tools.add,
        "evaluate": metrics.add_evaluate,
        "predict": track.add,
        "robustness": track.add_robustness,
        "advise": track.add_advise,
        "attack": track.add_attack,
        "sensitivity": tools.add_sensitivity,
        "serve": serve.add,
        "paraphrase": paraphrase.add,
        "levels": curriculum.add,
        "models": models.add,
        "convert": models.add_convert,
        "augment": augment.add,
        "launch": launch.add,
        "report": metrics.add_report,
        "errors": look.add_errors,
        "tasks": look.add_tasks,
        "completion": completion.add,
    }
)
"""Verb -> the function that adds it to the command line, in the order of `--help`."""


def build_parser(argv: Sequence[str] | None = None) -> arguments.Parser:
    """Returns the parser of the command line.

    Args:
        argv: command line. Packages are searched for further verbs only if its verb is
            not part of jaxaug. None, and `completion`, load the verbs of all packages
            and all options.

    Raises:
        UserError: the verb belongs to a package that is broken or not installed.
    """
    parser = arguments.Parser(
        prog="jaxaug", description="Schema augmentation for dialogue state tracking."
    )
    parser.add_argument(
        "--version",
        action=ShowVersions,
        help="show the versions of jaxaug, its runtime, JAX and Python",
    )
    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    for add in VERBS.data.values():
        add(verbs)
    verbs.choices["completion"].set_defaults(program=parser)
    wanted = next((word for word in argv or () if not word.startswith("-")), None)
    if wanted not in VERBS.data or wanted == "completion":
        parser.epilog = others.add_others(verbs, VERBS, wanted)
    if argv is None or wanted == "completion":
        parser.fill(deep=True)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit status.

    A `UserError` or an operating-system error (such as a full disk) prints one line to
    stderr and gives status 1. A closed output pipe (`| head`) ends the verb silently
    with status 141.
    """
    _print_any_name()
    try:
        argv = sys.argv[1:] if argv is None else argv
        parsed = build_parser(argv).parse_args(argv)
        settings = getattr(parsed, "settings", None)
        given = arguments.given(parsed, settings) if settings else parsed
        if getattr(parsed, "accept_changed_config", False):
            os.environ["JAXAUG_ACCEPT_CHANGED_CONFIG"] = "1"  # Workers inherit it.
        if getattr(parsed, "offline", False):
            os.environ["JAXAUG_OFFLINE"] = "1"
        module, function = parsed.target.split(":")
        with extras_of(f"`jaxaug {parsed.verb}`"):
            with paused():  # A tenth of the time of the imports.
                run = getattr(importlib.import_module(module), function)
            status = run(given) or 0
        sys.stdout.flush()
        return status
    except (UserError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _is_pipe_closed():
            return _SIGPIPE
        if isinstance(error, OSError) and error.errno in _FIXES and not error.filename:
            # Errors of other files have their names (see `jaxaug_base.files.naming`).
            error.filename = "standard output"
            _drop_output()
        print(f"jaxaug: error: {_message(error)}", file=sys.stderr)
        return 1
    except MemoryError as error:
        print(
            "jaxaug: error: the memory is full "
            f"({str(error) or type(error).__name__}). Use "
            "smaller inputs, or a machine with more memory.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("jaxaug: interrupted", file=sys.stderr)
        return 130


def _print_any_name() -> None:
    """Lets standard output escape bytes of file names that are not UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _message(error: Exception) -> str:
    """Returns an error message, with advice for operating-system errors."""
    if not isinstance(error, OSError) or not (error.filename and error.strerror):
        return str(error)
    from jaxaug_base.files import final_name

    fix = _FIXES.get(error.errno or 0, "Name another path.")
    return f"{final_name(str(error.filename))}: {error.strerror}. {fix}"


def _is_pipe_closed() -> bool:
    """Returns whether standard output is a closed pipe; if so, drops the output."""
    try:
        output = sys.stdout.fileno()
    except OSError:  # Standard output has no file descriptor.
        return False
    poll = select.poll()
    poll.register(output, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    _drop_output()
    return True


def _drop_output() -> None:
    # Python would write the rest of the buffer at exit, and fail again.
    with contextlib.suppress(OSError):  # Standard output has no file descriptor.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command() -> NoReturn:
    """Runs the program `jaxaug` and exits with the status of its verb."""
    status = main()
    storage = sys.modules.get("jaxaug.core.storage")  # If the verb has used it.
    if storage is not None and storage.is_waiting():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    command()
