"""An interpreter with preloaded libraries, for the programs of tests.

    python warm_python.py SOCKET        serves, until its standard input ends
    python -IS warm_python.py SOCKET ARGUMENTS...

The second form acts as `python ARGUMENTS...` for `-m NAME`, `-c CODE`, and a script. It
sends its arguments, folder, environment, and streams to the server. The server forks,
and the caller ends as the fork ends. A signal that ends the caller ends the fork.
AutoGraph translations of a fork are repeated in the server, for later forks. Importing
JAX, TensorFlow, SeqIO, and T5X takes 6 s of CPU time, most of the time of a small
program.

Some environment variables have no effect here: TensorFlow reads them at import, or they
hide modules. A program that needs them is started with `sys.executable`.
"""

import array
import contextlib
import json
import os
import signal
import socket
import sys
import types
import warnings
from collections.abc import Iterator

STREAMS = 3


def call(path: str, arguments: list[str]) -> int:
    """Sends the arguments to the server and returns the exit status."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(path)
    request = {"argv": arguments, "cwd": os.getcwd(), "env": dict(os.environ)}
    data = json.dumps(request).encode()
    streams = array.array("i", range(STREAMS))
    line.sendmsg(
        [len(data).to_bytes(8, "big")],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)],
    )
    line.sendall(data)
    pid = int.from_bytes(_exactly(line, 8), "big")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = int.from_bytes(_exactly(line, 8), "big", signed=True)
    if status < 0:  # The program ended by a signal.
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _exactly(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = line.recv(count - len(data))
        if not part:
            raise EOFError("the other side has gone")
        data += part
    return data


class Server:
    """Forks a program for each call."""

    def __init__(self, path: str):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(path)
        self._socket.listen(64)
        self._running: dict[int, socket.socket] = {}  # By process id.
        self.translations = Translations(f"{path}.translated")

    def serve(self) -> list[str] | None:
        """Returns the arguments of a program in its fork; None when the server ends."""
        import select

        wake, waker = os.pipe()
        for end in (wake, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            lines = {line: pid for pid, line in self._running.items()}
            ready, _, _ = select.select([0, wake, self._socket, *lines], [], [])
            if wake in ready:
                os.read(wake, 4096)
            # The end of a caller is handled before the call of the next one.
            for line in lines.keys() & set(ready):
                os.kill(lines[line], signal.SIGKILL)
            self._reap(sure={lines[line] for line in lines.keys() & set(ready)})
            if self._socket in ready:
                program = self._fork()
                if program is not None:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os.close(wake)
                    os.close(waker)
                    return program
            if 0 in ready and not os.read(0, 1):
                for pid in self._running:
                    os.kill(pid, signal.SIGKILL)
                return None

    def _reap(self, sure: set[int]) -> None:
        for pid, line in list(self._running.items()):
            found, status = os.waitpid(pid, 0 if pid in sure else os.WNOHANG)
            if found:
                del self._running[pid]
                code = os.waitstatus_to_exitcode(status)
                with line, contextlib.suppress(OSError):  # The caller was killed.
                    line.sendall(code.to_bytes(8, "big", signed=True))

    def _fork(self) -> list[str] | None:
        line, _ = self._socket.accept()
        room = socket.CMSG_SPACE(STREAMS * array.array("i").itemsize)
        head, extra, _, _ = line.recvmsg(8, room)
        streams = array.array("i")
        streams.frombytes(extra[0][2][: STREAMS * streams.itemsize])
        request = json.loads(_exactly(line, int.from_bytes(head, "big")))
        self.translations.repeat()
        with warnings.catch_warnings(
            action="ignore"
        ):  # JAX warns about its own threads.
            pid = os.fork()
        if pid:
            for stream in streams:
                os.close(stream)
            self._running[pid] = line
            with contextlib.suppress(OSError):  # The caller was killed.
                line.sendall(pid.to_bytes(8, "big"))
            return None
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        for other in (line, self._socket, *self._running.values()):
            other.close()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        return request["argv"]


class Translations:
    """AutoGraph translations of the forks, which are repeated once in the server.

    AutoGraph analyzes the functions that SeqIO maps over a dataset, a quarter of the
    time of a program with SeqIO. Unlike the rest of TensorFlow, it starts no thread.
    """

    def __init__(self, path: str):
        self._path = path
        self._done = 0

    def note(self) -> None:
        """Makes this fork record its translations."""
        from tensorflow.python.autograph.impl import api

        transpiler = api._TRANSPILER
        transform = transpiler.transform_function

        def noted(function, context):
            options = context.options
            if (
                not transpiler._cache.has(function, options)
                and not options.optional_features
            ):
                code = function.__code__
                name = function.__module__, code.co_qualname, code.co_firstlineno
                with open(self._path, "a") as file:
                    file.write(json.dumps([*name, *options.as_tuple()[:3]]) + "\n")
            return transform(function, context)

        transpiler.transform_function = noted

    def repeat(self) -> None:
        """Translates the recorded functions of loaded modules."""
        if not os.path.exists(self._path):
            return
        from tensorflow.python.autograph.core import converter
        from tensorflow.python.autograph.impl import api

        with open(self._path) as file:
            lines = file.readlines()
        for line in dict.fromkeys(lines[self._done :]):
            module, name, number, *how = json.loads(line)
            options = converter.ConversionOptions(*how, optional_features=())
            context = converter.ProgramContext(options)
            found = sys.modules.get(module)
            for code in _codes(found) if found else ():
                if (code.co_qualname, code.co_firstlineno) == (name, number):
                    cells = tuple(types.CellType() for _ in code.co_freevars) or None
                    function = types.FunctionType(code, vars(found), closure=cells)
                    with contextlib.suppress(
                        Exception
                    ):  # Errors are reported by the forks.
                        api._TRANSPILER.transform(function, context)
                    break
        self._done = len(lines)


def _codes(module: types.ModuleType) -> Iterator[types.CodeType]:
    """Yields the code of all functions of a module, nested ones included."""
    pending = list(vars(module).values())
    while pending:
        one = pending.pop()
        if isinstance(one, types.CodeType):
            yield one
            pending += one.co_consts
        elif getattr(one, "__module__", None) == module.__name__:
            if isinstance(one, type):
                pending += vars(one).values()
            pending += [getattr(one, n, None) for n in ("__code__", "__wrapped__")]
        elif isinstance(one, staticmethod | classmethod):
            pending.append(one.__func__)
        elif isinstance(one, property):
            pending.append(one.fget)


def become(arguments: list[str]) -> None:
    """Runs a program as the interpreter would."""
    import runpy

    import jax

    for name, value in jax.config.values.items():
        text = os.environ.get(name.upper())
        if text is not None:
            jax.config.update(name, _like(value, text))
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    # The first entry is the folder of this script.
    sys.path[:1] = paths
    how, *rest = arguments
    if how == "-c":
        sys.path.insert(0, "")
        code, *sys.argv[1:] = rest
        sys.argv[0] = "-c"
        sys.modules["__main__"] = program = types.ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), program.__dict__)  # noqa: S102
    elif how == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv[:] = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(how)))
        sys.argv[:] = arguments
        runpy.run_path(how, run_name="__main__")


def _like(value: object, text: str) -> object:
    """Returns the value that JAX parses from a variable, for a setting of this type."""
    if isinstance(value, bool):
        return text.lower() in ("y", "yes", "t", "true", "on", "1")
    return type(value)(text) if isinstance(value, int | float) else text


def prepare() -> None:
    """Imports libraries; none of them may start a thread."""
    import gc
    import importlib

    gc.disable()
    libraries = "flax.linen optax orbax.checkpoint tensorflow tensorflow_text seqio"
    libraries += " tokenizers safetensors sacrebleu rouge_score.rouge_scorer rapidfuzz"
    ours = "t5x.main t5x.training.loop t5x.models t5x.utils t5x.trainer t5x.gin_utils"
    ours += " t5x.examples.t5.network jaxaug.cli jaxaug.paraphrase.run jaxaug.metrics"
    ours += " jaxaug.models.convert jaxaug.feed.recipes jaxaug.data.minisgd"
    for name in f"{libraries} {ours}".split():
        importlib.import_module(name)
    if os.environ.get("JAXAUG_TEST_PLAINLY") != "1":
        importlib.import_module("flax_checks").once()  # It is next to this file.
    gc.freeze()  # Memory pages of uncollected objects stay shared.
    gc.enable()


def main() -> None:
    path, *arguments = sys.argv[1:]
    if arguments:
        sys.exit(call(path, arguments))
    server = Server(path)
    prepare()
    program = server.serve()
    if program is not None:
        server.translations.note()
        become(program)


if __name__ == "__main__":
    main()
