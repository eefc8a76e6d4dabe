"""Reading and writing whole text and JSON files, and messages about bad ones."""

import codecs
import io
import os

import pytest
from etils import epath

from jaxaug.cli import main
from jaxaug.core import digests, files
from jaxaug.core.errors import UserError

FIX = "Mend it."


def message(function, *arguments):
    with pytest.raises(UserError) as error:
        function(*arguments, FIX)
    return str(error.value)


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(codecs.BOM_UTF8 + "é\n".encode())
    assert files.read_text(path, FIX) == "é\n"
    path.write_bytes(codecs.BOM_UTF8 + b'{"a": 1}')
    assert files.read_json(path, FIX) == {"a": 1}
    path.write_bytes(codecs.BOM_UTF8 + b"ab\ncd\xff")
    assert message(files.read_text, path) == (
        f"{path}: line 2: byte 0xff at offset 8 is not UTF-8. {FIX}"
    )


def test_a_link_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/file")
    files.check_writable(tmp_path / "link")
    files.write_text(tmp_path / "link", "whole")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/file").read_text() == "whole"
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["file"]


def test_only_files_are_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match=r"pipe: cannot be written \(is a pipe"):
        files.check_writable(pipe)
    with pytest.raises(UserError, match="pipe: is no ordinary file"):
        files.write_text(pipe, "text")
    assert pipe.is_fifo() and [*tmp_path.iterdir()] == [pipe]


def test_standard_input_in_another_encoding(monkeypatch):
    for errors in ("strict", "surrogateescape"):
        stream = io.TextIOWrapper(io.BytesIO(b"a\xff"), "utf-8", errors=errors)
        monkeypatch.setattr("sys.stdin", stream)
        assert message(files.read_stdin).startswith("standard input: is not UTF-8: ")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ('{"a": 1}'.encode("utf-16"),
         "is UTF-16, expected UTF-8. Convert it: `iconv -f UTF-16 -t UTF-8`."),
        (codecs.BOM_UTF16_BE + "[]".encode("utf-16-be"),
         "is UTF-16, expected UTF-8. Convert it: `iconv -f UTF-16 -t UTF-8`."),
        ("[]".encode("utf-32"),
         "is UTF-32, expected UTF-8. Convert it: `iconv -f UTF-32 -t UTF-8`."),
        ("a\nbc".encode("utf-16-le"),
         ("line 1: byte 0x00 at offset 1, expected text in UTF-8: this is "
         "another encoding or no text.")),
        (b"ab\n\0", ("line 2: byte 0x00 at offset 3, expected text in UTF-8: this is "
         "another encoding or no text.")),
    ],
)  # fmt: skip
def test_other_encodings(tmp_path, data, problem):
    path = tmp_path / "x"
    path.write_bytes(data)
    for function in (files.read_text, files.read_json):
        assert message(function, path) == f"{path}: {problem} {FIX}"


def test_repeated_names_in_json_are_rejected(tmp_path):
    """`test_json_reader.py` has all rejected forms."""
    path = tmp_path / "x.json"
    path.write_text('[{"a": 1, "b": 2,\n "a": 3}]')
    problem = "an object has the name 'a' 2 times (again at line 2, column 2)"
    assert message(files.read_json, path) == f"{path}: invalid JSON: {problem}. {FIX}"


def test_values_in_messages():
    assert files.shown({"a": 1}) == "{'a': 1}"
    assert files.shown("x" * 100) == "'" + "x" * 76 + "..."
    assert files.shortened("x" * 600) == "x" * 600
    long = files.shortened("a" * 500 + "b" * 500)
    assert long == "a" * 400 + " ... " + "b" * 195
    value: list = []
    for _ in range(100_000):
        value = [value]
    assert files.shown(value) == "a list too large to be shown"
    while value:  # Python would free it by recursion, which overflows.
        value = value.pop()


@pytest.mark.parametrize("function", [files.read_text, files.read_json, files.reach])
def test_storage_that_is_not_known(function):
    assert message(function, "foo://bar/x") == (
        "foo://bar/x: foo:// is no storage that is known (local paths, gs:// and s3:// "
        f"are). {FIX}"
    )
    with pytest.raises(UserError, match="^foo://x: foo:// is no .* in another place.$"):
        files.write_text("foo://x", "text")


def test_a_service_that_fails(monkeypatch):
    def fail(self, *unused, **options):
        raise RuntimeError("no\nhost")

    remote = type(files.epath.Path("s3://a"))
    monkeypatch.setattr(remote, "read_bytes", fail)
    monkeypatch.setattr(remote, "mkdir", fail)
    problem = (
        "cannot be reached (RuntimeError: no). Check the address, the network and the "
        "credentials for s3://"
    )
    assert message(files.read_text, "s3://a/b") == f"s3://a/b: {problem}. {FIX}"
    with pytest.raises(UserError) as error:
        files.write_text("s3://a/b", "text")
    assert str(error.value) == f"s3://a/b: {problem}. Name a file in another place."
    # For a local path it is a bug of jaxaug, so the error is not converted.
    with pytest.raises(RuntimeError, match="^no"):
        files.read_text("b", FIX)


def test_local_places_are_reached(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(files.reach("~/none", FIX)) == f"{tmp_path}/none"
    assert files.unreachable(tmp_path / "none") is None
    assert files.is_remote("gs://a/b") and not files.is_remote(tmp_path)


def test_unwritable(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path, "is a folder"),
        (tmp_path / "file" / "out.jsonl", "File exists|Not a directory"),
    ):
        message = rf"cannot be written \(({reason})\)\. Name .* with --output\."
        with pytest.raises(UserError, match=message):
            files.check_writable(path, "--output")
    files.check_writable(tmp_path / "new" / "out.jsonl")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "new"]
    # The checked path is the path that is written.
    monkeypatch.setenv("HOME", str(tmp_path / "new"))
    files.check_writable("~/out.jsonl")
    files.write_text("~/out.jsonl", "x")
    assert (tmp_path / "new" / "out.jsonl").read_text() == "x"


@pytest.mark.parametrize(
    "command",
    [
        "report {run} --html",
        "report {run} --csv",
        "report {run} --png",
        "errors {run} --html",
        "evaluate sgd --split test --predictions {run} --output",
        "evaluate sgdx --split test --predictions {run} --output",
        "evaluate multiwoz --split test --predictions {run} --output",
    ],
)
def test_programs_find_an_unwritable_file_first(tmp_path, capsys, command):
    (tmp_path / "file.png").touch()
    out = tmp_path / "file.png" / "a.png"
    words = command.format(run=tmp_path / "nothing").split()
    assert main([*words, str(out)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"jaxaug: error: {out}: cannot be written (")
    assert error.endswith(f"can be written with {words[-1]}.\n")


def test_pipes_and_devices_are_not_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for function in (files.read_text, files.read_json, files.read_bytes):
        assert message(function, pipe) == (
            f"{pipe}: is a pipe (FIFO), expected an ordinary file. Write what it gives "
            f"to a file and name that. {FIX}"
        )
        assert message(function, "/dev/zero").startswith(
            "/dev/zero: is a device, expected an ordinary file."
        )
    link = tmp_path / "link"
    link.symlink_to(pipe)
    assert "link: is a pipe" in message(files.read_text, link)
    with pytest.raises(UserError, match="pipe: is a pipe"):
        digests.file_digest(pipe)


def test_files_that_are_too_large(tmp_path, monkeypatch):
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(50 * 10**9)  # Sparse, so it takes no space.
    for function in (files.read_text, files.read_json, files.read_bytes):
        assert message(function, path) == (
            f"{path}: has 50.0 GB, more than the 2.1 GB that are read at once. Divide "
            f"the file. {FIX}"
        )

    def full(self):
        raise MemoryError

    path.write_text("[]")
    monkeypatch.setattr(type(epath.Path(path)), "read_bytes", full)
    assert message(files.read_json, path) == (
        f"{path}: does not fit into memory. Divide the file, or use a machine with "
        f"more memory. {FIX}"
    )


def test_a_file_without_line_ends_is_read_in_pieces():
    pieces = [*files.byte_lines(io.BytesIO(b"ab\n" + b"c" * 10), longest=4)]
    assert pieces == [b"ab\n", b"cccc", b"cccc", b"cc"]


def test_full_memory_is_a_message(monkeypatch, capsys):
    def run(arguments):
        raise MemoryError("Unable to allocate 3.00 TiB")

    monkeypatch.setattr("jaxaug.doctor.run", run)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == (
        "jaxaug: error: the memory is full (Unable to allocate 3.00 TiB). Use smaller "
        "inputs, or a machine with more memory.\n"
    )
