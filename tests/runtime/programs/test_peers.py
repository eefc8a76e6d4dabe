"""The loss of a process: its watcher, and the wait of a failed operation."""

import threading

import jax
import pytest
from t5x import peers


class Left(Exception):
    pass


class Store:
    """The key-value store of the coordination service."""

    def __init__(self):
        self.values = {}
        self.fails = False

    def key_value_set(self, key, value, allow_overwrite=False):
        if self.fails:
            raise jax.errors.JaxRuntimeError("UNAVAILABLE: Socket closed")
        self.values[key] = value

    def key_value_dir_get(self, folder):
        return [(k, v) for k, v in self.values.items() if k.startswith(folder)]

    def blocking_key_value_get(self, key, timeout):
        return self.values[key]


@pytest.fixture
def watch(monkeypatch, capfd):
    """Returns `watch(index, store)`, which returns the last message of the watch."""
    monkeypatch.setattr(peers, "INTERVAL", 0.01)
    monkeypatch.setattr(peers, "PATIENCE", 0.2)
    # The abort of this process stays as it is.
    monkeypatch.setattr(peers.Watch, "_catch_abort", lambda self: None)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)

    def leave(status):
        raise Left(status)

    monkeypatch.setattr(peers.os, "_exit", leave)
    monkeypatch.setattr(peers.os, "getpid", lambda: 7)
    monkeypatch.setattr(peers.socket, "gethostname", lambda: "here")

    def run(index, store, count=3, seconds=10):
        made = peers.Watch(store, index, count)
        made.wait(seconds)
        if made._thread.is_alive():
            made.stop()
            return None
        return capfd.readouterr().err.splitlines()[-1]

    return run


def test_all_processes_name_a_silent_one(watch):
    store = Store()
    store.values = {
        "t5x/alive/1": "4 host a, pid 1",
        "t5x/alive/2": "done host b, pid 2",
        "t5x/door": "here:1",
    }
    assert watch(0, store) == (
        "error: Lost process 1 of 3 (host a, pid 1): it has ended or hangs, and "
        "process 0 cannot go on without it. Run the same command again."
    )
    store.values["t5x/alive/0"] = "done host a, pid 0"
    assert watch(2, store) == (
        "error: Lost process 1 of 3 (host a, pid 1): it has ended or hangs, and "
        "process 2 cannot go on without it. Run the same command again."
    )


def test_all_that_are_done_or_alive_are_left_in_peace(watch):
    store = Store()
    store.values = {"t5x/alive/1": "done host a, pid 1"}
    assert watch(0, store, seconds=0.6) is None
    assert store.values["t5x/alive/0"] == "done host here, pid 7"


def test_a_store_that_fails_for_long_is_the_loss_of_the_first_process(watch):
    store = Store()
    store.fails = True
    assert watch(1, store) == (
        "error: Lost process 0 of 3 (not seen so far): it has ended or hangs, and "
        "process 1 cannot go on without it. Run the same command again."
    )


def test_only_failed_operations_wait(monkeypatch, capfd):
    class Watched:
        def wait(self, seconds):
            waited.append(seconds)

        def stop(self):
            raise AssertionError

    waited = []
    monkeypatch.setattr(peers, "_active", [Watched()])
    peers.wait_for_cause(ValueError("a defect"))
    peers.wait_for_cause(jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: memory"))
    assert waited == []
    try:
        try:
            raise ValueError("UNKNOWN: Gloo all-reduce failed\nmore")
        except ValueError as error:
            raise ValueError("while saving") from error
    except ValueError as error:
        peers.wait_for_cause(error)
    peers.wait_for_cause(jax.errors.JaxRuntimeError(f"INTERNAL: {'x' * 200}"))
    assert waited == [90.0, 90.0]
    assert capfd.readouterr().err == (
        "error: while saving\nLooking for a process that was lost, for up to 90 s.\n"
        f"error: {'x' * 200}\n"
        "Looking for a process that was lost, for up to 90 s.\n"
    )
