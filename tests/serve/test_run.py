"""The verb: its address and its output."""

import io
import json
import socket
import sys
import types

import pytest
from starlette.testclient import TestClient

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.serve import run
from jaxaug.track.engine import EngineTracker
from jaxaug.track.tracker import Tracker


@pytest.fixture
def uvicorn(monkeypatch):
    """Replaces the server; keeps its configuration and sockets."""
    import uvicorn

    kept = types.SimpleNamespace()

    def serve(self, sockets):
        kept.config = self.config
        kept.place = sockets[0].getsockname()

    monkeypatch.setattr(uvicorn.Server, "run", serve)
    return kept


def test_it_prints_the_address_it_listens_on(trained, uvicorn, capsys):
    folder, _ = trained
    assert cli.main(["serve", str(folder), "--port", "0"]) == 0
    out, err = capsys.readouterr()
    host, port = uvicorn.place
    assert host == "127.0.0.1"
    first, compiled, ready = out.splitlines()[-3:]
    assert first == "compiling; the first answer shall not wait for it ..."
    assert compiled.startswith("compiled in ")
    assert ready == f"ready: serving on http://127.0.0.1:{port}/ (Ctrl-C ends it)"
    assert "warning" not in err
    assert uvicorn.config.app._hosts == {"127.0.0.1", "localhost", "[::1]"}


def test_others_are_let_in_with_a_warning(trained, uvicorn, monkeypatch, capsys):
    folder, data = trained
    monkeypatch.setattr(Tracker, "compiled", lambda self, schemas: self)
    schema = data / "test/schema.json"
    command = ["serve", str(folder), "--schema", str(schema), "--host", "0.0.0.0"]
    assert cli.main([*command, "--port", "0"]) == 0
    assert (
        "warning: --host 0.0.0.0 lets other machines ask, without a password"
        in capsys.readouterr().err
    )
    assert uvicorn.config.app._hosts is None


def test_ctranslate2_answers_like_jax(trained, uvicorn, monkeypatch, capsys):
    """The server with the engine answers with the bytes of `jaxaug predict`."""
    folder, data = trained
    calls = []
    real = EngineTracker.write_tokens
    monkeypatch.setattr(
        EngineTracker, "write_tokens", lambda *a: calls.append(a) or real(*a)
    )
    schema = str(data / "test/schema.json")
    serve = ["serve", str(folder), "--schema", schema, "--port", "0"]
    assert cli.main([*serve, "--engine", "ctranslate2"]) == 0
    web = TestClient(uvicorn.config.app, base_url="http://127.0.0.1")
    turns = [{"speaker": "USER", "utterance": "A train to Oslo please"}]
    dialogue = {"turns": turns, "dialogue_id": "é"}
    calls.clear()
    answer = web.post("/api/predict", json={"dialogue": dialogue})
    assert len(calls) == 1
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(dialogue)))
    assert cli.main(["predict", "--run", str(folder), "--schema", schema]) == 0
    assert answer.content == capsys.readouterr().out.encode()


def test_a_port_that_cannot_be_had():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (taken.getsockname()[1], 99_999):
            message = f"cannot listen on localhost, port {port}: .* Choose another"
            with pytest.raises(UserError, match=message):
                run._listen("localhost", port)


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_missing_packages(monkeypatch, capsys, missing):
    for name in [n for n in sys.modules if n.partition(".")[0] == "starlette"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "jaxaug.serve.app", raising=False)
    monkeypatch.delattr("jaxaug.serve.app", raising=False)

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.partition(".")[0] == missing:
                raise ModuleNotFoundError(f"No module named {name!r}", name=missing)

    monkeypatch.delitem(sys.modules, missing, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    assert cli.main(["serve", "runs/none"]) == 1
    assert (
        f"`jaxaug serve` needs the package {missing}, which is not installed. It comes "
        "with the extra 'serve': " in capsys.readouterr().err
    )


def test_local_addresses():
    local = ["127.0.0.1", "127.1.2.3", "::1", "localhost"]
    assert [*filter(run.is_local, [*local, "0.0.0.0", "::", "10.0.0.1", "me"])] == local
