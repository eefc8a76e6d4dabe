"""Reads requests with tools in worker processes, with limits of time and memory.

A short list of tools can describe schemas of any size by references. Threads cannot be
stopped, so each request is read in a process that stops itself.
"""

import contextlib
import functools
import math
import os
import resource
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

from jaxaug.core.errors import UserError
from jaxaug.feed.workers import LostWorkerError, Pool
from jaxaug.tools import chat
from jaxaug.tools.chat import Asked

READERS = 2
"""Number of worker processes, each of which reads one request at a time."""
_MEMORY = Path("/proc/self/statm")


class _Spent(BaseException):
    """The time of a request is spent."""


def read(body: bytes, seconds: float, memory: int) -> Asked:
    """Returns the result of `chat.read` from a worker process.

    Args:
        seconds: maximum time.
        memory: maximum bytes of memory; has no effect without the file system /proc.

    Raises:
        UserError: the request is wrong, or the limits are reached.
    """
    asked: Future = _pool().submit(_read, (body, seconds, memory))
    try:
        found: Asked = asked.result()
    except LostWorkerError:
        raise _too_much(seconds, memory) from None
    return found


def start() -> None:
    """Starts the worker processes, so that the first request does not wait for them."""
    for _ in range(READERS):
        _pool().submit(time.sleep, 0.1)


def _read(job: tuple[bytes, float, int]) -> Asked:
    body, seconds, memory = job
    with _limited(seconds, memory):
        return chat.read(body)


@functools.cache
def _pool() -> Pool:
    return Pool(READERS)


@contextlib.contextmanager
def _limited(seconds: float, memory: int) -> Iterator[None]:
    """Limits the time and the additional memory of this process inside the context."""

    def stop(*_: object) -> None:
        raise _Spent

    signal.signal(signal.SIGALRM, stop)
    most, hard = resource.getrlimit(resource.RLIMIT_AS)
    if _MEMORY.exists():
        used = int(_MEMORY.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, hard))
    # Code in C that ignores the signal ends with the process.
    end = math.ceil(time.process_time() + seconds) + 1
    resource.setrlimit(
        resource.RLIMIT_CPU, (end, resource.getrlimit(resource.RLIMIT_CPU)[1])
    )
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except (_Spent, MemoryError):
        raise _too_much(seconds, memory) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _too_much(seconds: float, memory: int) -> UserError:
    return UserError(
        f"tools: reading them takes more than {seconds:g} s or {memory >> 20} MiB. "
        "Leave out tools, or shorten their schemas."
    )
