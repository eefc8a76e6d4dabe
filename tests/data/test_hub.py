"""Data sets of the Hugging Face hub, from a local server with its interface."""

import hashlib
import http.server
import json
import subprocess
import sys
import threading

import pytest

from jaxaug.api import load_dialogues
from jaxaug.cli import main
from jaxaug.core import hub, pins
from jaxaug.core.errors import UserError
from jaxaug.data import fetch, folders, record_files

pytest.importorskip("huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "hf:me/rides"


def _oid(content):
    return hashlib.sha1(content).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers for the data set me/rides at one commit."""

    def do_GET(self):
        files, path = self.server.files, self.path.partition("?")[0]
        self.server.asked.append(path)
        about = {"id": "me/rides", "sha": COMMIT, "siblings": []}
        tree = [
            {"type": "file", "path": name, "size": len(content), "oid": _oid(content)}
            for name, content in files.items()
        ]
        if path in (f"/api/datasets/me/rides/revision/{x}" for x in ("main", COMMIT)):
            self._send(json.dumps(about).encode(), "application/json")
        elif path == f"/api/datasets/me/rides/tree/{COMMIT}":
            self._send(json.dumps(tree).encode(), "application/json")
        elif path.startswith(start := f"/datasets/me/rides/resolve/{COMMIT}/"):
            self._send(files[path.removeprefix(start)], "application/octet-stream")
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def _send(self, content, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{_oid(content)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hosted(sgd_tree, tmp_path, monkeypatch):
    """Serves a data folder; returns the server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.asked, server.files = [], {"setup.py": b"1 / 0"}
    for path in sgd_tree.rglob("*.json"):
        server.files[path.relative_to(sgd_tree).as_posix()] = path.read_bytes()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(hub.OFFLINE_VARIABLE, raising=False)
    yield server
    server.shutdown()
    server.server_close()


def test_a_data_set_of_the_hub(hosted, sgd_tree, tmp_path, monkeypatch, capsys):
    # The client reads HF_ENDPOINT when it is imported.
    program = f"from jaxaug.data import fetch; print(fetch.of_hub({NAME!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    folder = tmp_path / "cache/datasets/me--rides"
    assert done.stdout == f"{folder}\n"
    assert not (folder / "setup.py").exists()
    note = json.loads((folder / pins.NOTE).read_text())
    assert (note["source"], note["commit"]) == ("me/rides", COMMIT)
    # From here on the cache is read, also without a network.
    hosted.asked.clear()
    monkeypatch.setenv(hub.OFFLINE_VARIABLE, "1")
    assert load_dialogues(NAME, "test") == load_dialogues(sgd_tree, "test")
    assert main(["data", "describe", "--data_dir", NAME]) == 0
    out = tmp_path / "out"
    assert main(["data", "fetch", NAME, "--out", str(out)]) == 0
    capsys.readouterr()
    copied = {path.relative_to(out) for path in out.rglob("*.json")}
    assert copied == {path.relative_to(sgd_tree) for path in sgd_tree.rglob("*.json")}
    assert not hosted.asked
    (folder / "test/schema.json").write_text("[]")
    with pytest.raises(UserError, match="schema.json: sha256 is .* fetch it again"):
        load_dialogues(NAME, "test")


def test_records_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    folder = tmp_path / "datasets/me--chats"
    folder.mkdir(parents=True)
    (folder / "test.jsonl").write_text('{"messages": []}\n')
    pins.note(fetch.epath.Path(folder), source="me/chats")
    ((_, record),) = record_files.read("hf:me/chats", "test")
    assert record == {"messages": []}
    with pytest.raises(UserError, match="`jaxaug data import hf:me/chats --split tra"):
        folders.resolve_data_dir("hf:me/chats")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (NAME, r"^hf:me/rides is not on this machine, and --offline .* copy it here"),
        ("hf:rides", "^hf:rides: is no data set of the hub. Name it hf:OWNER/NAME"),
        ("hf:../../x", "is no data set of the hub"),
    ],
)
def test_refused(tmp_path, monkeypatch, name, message):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(hub.OFFLINE_VARIABLE, "1")
    with pytest.raises(UserError, match=message):
        fetch.of_hub(name)
