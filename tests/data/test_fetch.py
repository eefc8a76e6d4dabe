import dataclasses
import hashlib
import http.server
import io
import os
import tarfile
import threading
import tracemalloc
import zipfile

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data.datasets import DataSet
from jaxaug.data.fetch import DATA_SETS, fetch, git_id, git_tree_id
from tests.support.hostile_archives import FILES, HOSTILE

_EXECUTABLE = "repo-1/data/sub0"
# The result of `git write-tree` for these files.
_TREE = "a88855e032d5d6fbb903e53adba3e25eb0357372"


def _tar(files=None):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in (files or FILES).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o775 if name == _EXECUTABLE else 0o664
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _zip():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    return buffer.getvalue()


class _Server(http.server.ThreadingHTTPServer):
    """Serves `content`; `ranges` and `cut` make it a good or a bad server."""

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content, self.ranges, self.cut = content, True, None
        self.asked = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/x.tar.gz"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self):
        server = self.server
        asked = self.headers.get("Range")
        server.asked.append(asked)
        if self.path != "/x.tar.gz":
            self.send_error(404)
            return
        start = int(asked[len("bytes=") : -1]) if asked and server.ranges else 0
        if start >= len(server.content):
            self.send_error(416)
            return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cut])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = _Server(_tar())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def data_set(server):
    return DataSet(
        url=server.url, archive="x.tar.gz", keep=r"data/([\w/.]+\.json)",
        layout="a.json, ...", note="A note.", trees={"data": _TREE},
    )  # fmt: skip


def _contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


_KEPT = {"a.json": b"one\n", "sub/b.json": b"two\n", "sub.d/c.json": b""}


def test_git_ids():
    assert git_id("blob", b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    blobs = {
        name.removeprefix("repo-1/"): (
            "100755" if name == _EXECUTABLE else "100644",
            git_id("blob", content),
        )
        for name, content in FILES.items()
    }
    assert git_tree_id(blobs, "data") == _TREE


def test_pinned_tree_of_the_real_variants(real_data):
    root = real_data / "sgd"
    blobs = {
        str(path.relative_to(root)): ("100644", git_id("blob", path.read_bytes()))
        for path in root.glob("sgd_x/data/**/*.json")
    }
    assert len(blobs) == 15
    pinned = DATA_SETS["sgd"].trees["sgd_x/data"]
    assert git_tree_id(blobs, "sgd_x/data") == pinned


def test_downloads_verifies_and_unpacks(data_set, tmp_path):
    out = tmp_path / "some/where"
    files = fetch(data_set, out)
    assert sorted(str(file.relative_to(out)) for file in files) == sorted(_KEPT)
    assert _contents(out) == _KEPT
    assert [path.name for path in out.parent.iterdir()] == ["where"]


def test_zip_with_sha256(data_set, server, tmp_path):
    server.content = _zip()
    checked = dataclasses.replace(
        data_set, trees={}, sha256=hashlib.sha256(server.content).hexdigest()
    )
    fetch(checked, tmp_path / "out")
    assert _contents(tmp_path / "out") == _KEPT


@pytest.mark.parametrize("ranges", [True, False])
def test_continues_after_a_broken_connection(data_set, server, tmp_path, ranges):
    server.ranges, server.cut = ranges, 100
    total = len(server.content)
    with pytest.raises(UserError) as error:
        fetch(data_set, tmp_path / "out")
    assert (
        f"the connection broke after 100 of {total:,} bytes; {tmp_path}/x.tar.gz.part "
        "keeps them. Run the command again to continue."
    ) in str(error.value)
    assert not (tmp_path / "out").exists()
    server.cut = None
    fetch(data_set, tmp_path / "out")
    assert server.asked == [None, "bytes=100-"]
    assert _contents(tmp_path / "out") == _KEPT


def test_part_that_is_too_long(data_set, tmp_path):
    part = tmp_path / "x.tar.gz.part"
    part.write_bytes(b"x" * 10_000)
    with pytest.raises(UserError, match="is longer than what .* offers; removed it"):
        fetch(data_set, tmp_path / "out")
    assert not part.exists()


def test_changed_contents(data_set, server, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.json").write_bytes(b"mine")
    server.content = _tar({**FILES, "repo-1/data/a.json": b"ONE\n"})
    with pytest.raises(UserError) as error:
        fetch(data_set, out)
    assert "folder data/ has git tree id " in str(error.value)
    assert f"expected {_TREE}: cut off or changed." in str(error.value)
    assert _contents(tmp_path) == {"out/a.json": b"mine"}


def test_changed_archive(data_set, tmp_path):
    checked = dataclasses.replace(data_set, sha256="0" * 64)
    with pytest.raises(UserError, match=f"expected {'0' * 64}: cut off or changed"):
        fetch(checked, tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"no archive", _tar()[:-40], _zip()[:-5]])
def test_broken_archive_brought_by_the_user_is_kept(data_set, tmp_path, content):
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.tar\.gz: broken archive: .*\. Remove"):
        fetch(data_set, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


def test_archive_brought_by_the_user(data_set, server, tmp_path):
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(server.content)
    fetch(data_set, tmp_path / "out")
    assert server.asked == []
    assert archive.exists()
    assert _contents(tmp_path / "out") == _KEPT


def test_mends_a_folder_and_keeps_the_rest(data_set, tmp_path):
    out = tmp_path / "out"
    (out / "variants").mkdir(parents=True)
    (out / "variants/mine.json").write_bytes(b"mine")
    (out / "a.json").write_bytes(b"on")
    fetch(data_set, out)
    expected = {**_KEPT, "variants/mine.json": b"mine", "a.json.replaced": b"on"}
    assert _contents(out) == expected
    fetch(data_set, out)
    assert _contents(out) == expected


def test_no_network(data_set, server, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(UserError) as error:
        fetch(data_set, tmp_path / "out")
    assert "cannot be downloaded: [Errno " in str(error.value)
    assert str(error.value).endswith(
        f"Without network: download {data_set.url} on another machine, put it here as "
        f"{tmp_path}/x.tar.gz and run the command again, or put the unpacked files "
        f"into {tmp_path}/out (a.json, ...)."
    )


def test_missing_on_the_server(data_set, tmp_path):
    gone = dataclasses.replace(data_set, url=data_set.url + ".gone")
    with pytest.raises(UserError, match="the server answers 404 Not Found. Check"):
        fetch(gone, tmp_path / "out")


def test_verb(data_set, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(DATA_SETS, "sgd", data_set)
    monkeypatch.chdir(tmp_path)
    assert main(["data", "fetch", "sgd"]) == 0
    assert capsys.readouterr().out == "3 files verified in data/sgd. A note.\n"
    assert _contents(tmp_path / "data/sgd") == _KEPT
    assert main(["data", "fetch", "squad"]) == 1
    assert (
        "unknown data set 'squad': choose one of sgd, personachat, fewshot, "
        "multiwoz22, multiwoz24, snips." in capsys.readouterr().err
    )


def test_a_remote_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["data", "fetch", "sgd", "--out", "gs://bucket/sgd"]) == 1
    assert capsys.readouterr().err == (
        "jaxaug: error: --out gs://bucket/sgd: a download goes to a local folder. Name "
        "one, and copy it afterwards.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_every_download_is_pinned():
    assert {*DATA_SETS.data} == {"sgd", "personachat"}
    for data_set in DATA_SETS.values():
        assert not data_set.url or data_set.trees or len(data_set.sha256) == 64
        assert all(len(tree) == 40 for tree in data_set.trees.values())


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_end_in_a_message(data_set, tmp_path, name):
    """Memory is bounded, and no file remains next to the archive."""
    content, problem = HOSTILE[name]
    (tmp_path / "x.tar.gz").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(
            UserError, match=rf"x\.tar\.gz: broken archive: .*({problem})"
        ):
            fetch(data_set, tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


def test_a_large_member_is_unpacked_in_pieces(data_set, tmp_path):
    """80 MB of zeros, 80 kB in the archive."""
    size = 80 * 10**6
    (tmp_path / "x.tar.gz").write_bytes(_tar({"repo-1/data/a.json": bytes(size)}))
    blob = hashlib.sha1(b"blob %d\0" % size + bytes(size), usedforsecurity=False)
    tree = {"data/a.json": ("100644", blob.hexdigest())}
    data_set = dataclasses.replace(data_set, trees={"data": git_tree_id(tree, "data")})
    tracemalloc.start()
    (file,) = fetch(data_set, tmp_path / "out")
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    assert file.stat().st_size == size


def test_all_members_together_have_a_limit(data_set, tmp_path, monkeypatch):
    monkeypatch.setattr("jaxaug.data.fetch.MAX_TOTAL", 2000)
    (tmp_path / "x.tar.gz").write_bytes(
        _tar({f"repo-1/x{i}": bytes(900) for i in range(3)})
    )
    with pytest.raises(UserError, match="members have more than 2,000 bytes together"):
        fetch(data_set, tmp_path / "out")


@pytest.mark.parametrize("make", [_tar, _zip])
def test_the_number_of_members_has_a_limit(data_set, tmp_path, monkeypatch, make):
    monkeypatch.setattr("jaxaug.data.fetch.MAX_MEMBERS", 3)
    (tmp_path / "x.tar.gz").write_bytes(make())
    with pytest.raises(UserError, match="archive: it has more than 3 members"):
        fetch(data_set, tmp_path / "out")


def test_a_pipe_in_place_of_an_archive(data_set, tmp_path):
    os.mkfifo(tmp_path / "x.tar.gz")
    with pytest.raises(UserError, match=r"x\.tar\.gz: is a pipe"):
        fetch(data_set, tmp_path / "out")


def test_a_download_without_end(data_set, tmp_path, monkeypatch):
    monkeypatch.setattr("jaxaug.data.fetch.MAX_TOTAL", 100)
    with pytest.raises(
        UserError, match=r"sends .* bytes or more, at most 100 are taken"
    ):
        fetch(data_set, tmp_path / "out")
    assert [*tmp_path.iterdir()] == []
