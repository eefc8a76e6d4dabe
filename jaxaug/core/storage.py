"""Checks whether a storage service (gs://, s3://) answers within a short time.

TensorFlow and fsspec retry for minutes without a network. They are called in a separate
thread, which is abandoned when the time is up.
"""

import contextlib
import os
import socket
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from etils import epath

_SECONDS = 8.0  # Limit without a connection.
# Limit with a connection: libraries must be loaded and credentials fetched.
_LONGEST = 60.0
_HOSTS = {"gs": "storage.googleapis.com", "s3": "s3.amazonaws.com"}
# Variables that name another location of the service, with its own network.
_ELSEWHERE = {
    "gs": ("STORAGE_EMULATOR_HOST",),
    "s3": ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "S3_ENDPOINT", "AWS_REGION"),
}
_left: list[threading.Thread] = []


def ask(path: str | os.PathLike[str]) -> None:
    """Asks the service of a remote path whether the path exists, for a limited time.

    Raises:
        TimeoutError: there is no answer.
        Exception: an error of the libraries of the service.
    """
    scheme = os.fspath(path).partition("://")[0].lower()
    answer = _Asked(lambda: epath.Path(path).exists())
    connection = _Asked(lambda: _connect(scheme))
    start = time.monotonic()
    if not answer.wait(_SECONDS):
        connected = connection.ended and connection.error is None
        waited = _LONGEST if connected else _SECONDS
        if not answer.wait(waited - (time.monotonic() - start)):
            _left.append(answer.thread)
            where = (
                "" if connected else f", and {_place(scheme)[0]} cannot be connected"
            )
            raise TimeoutError(f"no answer in {waited:.0f} s{where}")
    if answer.error is not None:
        raise answer.error


def is_waiting() -> bool:
    """Returns whether an unanswered request of `ask` is still running.

    The interpreter cannot exit normally then, because the thread is inside a library.
    """
    return any(thread.is_alive() for thread in _left)


class _Asked:
    """A function that runs in a separate thread."""

    def __init__(self, function: Callable[[], Any]):
        self.error: BaseException | None = None
        self.ended = False
        self.thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self.thread.start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self.error = error
        self.ended = True

    def wait(self, seconds: float) -> bool:
        self.thread.join(max(0.0, seconds))
        return self.ended


def _place(scheme: str) -> tuple[str, int]:
    """Returns host and port of requests: the service, or a proxy."""
    proxies = urllib.request.getproxies()
    if proxy := proxies.get("https") or proxies.get("all"):
        found = urllib.parse.urlsplit(proxy)
        with contextlib.suppress(ValueError):
            return found.hostname or proxy, found.port or 80
    return _HOSTS[scheme], 443


def _connect(scheme: str) -> None:
    if scheme in _HOSTS and not any(map(os.environ.get, _ELSEWHERE[scheme])):
        socket.create_connection(_place(scheme), timeout=_SECONDS / 2).close()
