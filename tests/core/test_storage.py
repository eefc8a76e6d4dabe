"""Storage services that do not answer."""

import threading
import time

import pytest
from etils import epath

from jaxaug.cli import main
from jaxaug.core import files, storage


@pytest.fixture
def silent(monkeypatch):
    """Simulates a service that does not answer before the end of the test."""
    end = threading.Event()
    monkeypatch.setattr(type(epath.Path("gs://b")), "exists", lambda self: end.wait(60))
    monkeypatch.setattr(storage, "_SECONDS", 0.2)
    monkeypatch.setattr(storage, "_LONGEST", 0.6)
    monkeypatch.setattr(storage, "_left", [])
    yield
    end.set()


def refuse(*_, **__):
    raise OSError("no network")


@pytest.mark.parametrize(
    ("scheme", "host"), [("gs", "storage.googleapis.com"), ("s3", "s3.amazonaws.com")]
)
def test_a_data_folder_without_network(silent, monkeypatch, capsys, scheme, host):
    for name in ("https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("socket.create_connection", refuse)
    start = time.monotonic()
    assert main(["data", "describe", "--data_dir", f"{scheme}://bucket/sgd"]) == 1
    assert time.monotonic() - start < 10
    assert (
        f"jaxaug: error: data folder {scheme}://bucket/sgd: cannot be reached "
        f"(TimeoutError: no answer in 0 s, and {host} cannot be connected). Check the "
        f"address, the network and the credentials for {scheme}://: "
    ) in capsys.readouterr().err
    assert storage.is_waiting()


def test_a_service_that_can_be_connected_has_more_time(silent, monkeypatch):
    monkeypatch.setattr(storage, "_connect", lambda scheme: None)
    start = time.monotonic()
    found = files.unreachable("gs://bucket")
    assert time.monotonic() - start > 0.5
    assert "(TimeoutError: no answer in 1 s). Check the address" in found


def test_connections_go_to_the_proxy(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert storage._place("gs") == ("proxy.example", 3128)
    monkeypatch.setenv("https_proxy", "")
    monkeypatch.setenv("HTTPS_PROXY", "")
    monkeypatch.setenv("all_proxy", "")
    assert storage._place("gs") == ("storage.googleapis.com", 443)


def test_an_answer_ends_the_wait(monkeypatch, tmp_path):
    monkeypatch.setattr(type(epath.Path("gs://b")), "exists", lambda self: False)
    assert files.unreachable("gs://bucket") is None
    assert not storage.is_waiting()
