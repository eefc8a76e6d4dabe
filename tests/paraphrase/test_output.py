"""The output file: after a stop, with errors, and at the end."""

import errno
import json
import os

import pytest

from jaxaug.core.errors import UserError
from jaxaug.paraphrase.output import OutputFile

INPUTS = ["find a bus", "naïve \u2028 café", "find a bus"]
SETTINGS = {"model": "m@3", "sampler": "beam", "options": {"alpha": 0.6}, "seed": 0}
OUTPUTS = {i: [(f"out {i}{n}", -1.5 * n) for n in range(2)] for i in range(3)}


def output_file(tmp_path, inputs=INPUTS, num=2, **changes):
    return OutputFile(tmp_path / "out.jsonl", inputs, SETTINGS | changes, num)


@pytest.fixture
def whole(tmp_path):
    """Returns the bytes of a finished file."""
    folder = tmp_path / "whole"
    with output_file(folder) as file:
        file.add(OUTPUTS)
        file.finish()
    return (folder / "out.jsonl").read_bytes()


def test_records(whole):
    records = [json.loads(line) for line in whole.decode().split("\n")[:-1]]
    assert len(records) == 6
    assert records[3] == {
        "line": 2, "input": INPUTS[1], "index": 1, "output": "out 11",
        "log_probability": -1.5, **SETTINGS,
    }  # fmt: skip


def test_the_order_equals_the_inputs(tmp_path, whole):
    with output_file(tmp_path) as file:
        for index in (2, 0, 1):
            assert index not in file
            file.add({index: OUTPUTS[index]})
        file.add({0: OUTPUTS[0]})  # A second time: kept once.
        assert len(file) == 3
        assert not (tmp_path / "out.jsonl").exists()
        file.finish()
        assert list(file.outputs()) == [
            [f"out {i}{n}" for n in (0, 1)] for i in range(3)
        ]
    assert (tmp_path / "out.jsonl").read_bytes() == whole
    assert os.listdir(tmp_path / "whole") == ["out.jsonl"]


def test_every_cut_of_the_partial_file_is_mended(tmp_path, whole):
    """A file cut after any byte keeps complete inputs; the rest is repeated."""
    with output_file(tmp_path) as file:
        file.add({2: OUTPUTS[2]})
        file.add({0: OUTPUTS[0]})
    partial = (tmp_path / "out.jsonl.partial").read_bytes()
    one = len(partial) // 2  # The records of the two inputs have equal length.
    for cut in range(0, len(partial) + 1, 7):
        (tmp_path / "out.jsonl").unlink(missing_ok=True)
        (tmp_path / "out.jsonl.partial").write_bytes(partial[:cut])
        with output_file(tmp_path) as file:
            known = cut // one
            assert (2 in file, 0 in file, 1 in file) == (known > 0, known > 1, False)
            kept = (tmp_path / "out.jsonl.partial").read_bytes()
            assert kept == partial[: known * one]  # Later lines stay readable.
            file.add({i: OUTPUTS[i] for i in range(3) if i not in file})
            file.finish()
        assert (tmp_path / "out.jsonl").read_bytes() == whole


@pytest.mark.parametrize("lines", range(7))
def test_a_finished_file_that_was_cut_is_taken_up(tmp_path, whole, lines):
    pieces = whole.split(b"\n")
    (tmp_path / "out.jsonl").write_bytes(
        b"\n".join(pieces[:lines]) + b'\n{"line": 2'[: 9 * (lines > 0)]
    )
    with output_file(tmp_path) as file:
        assert len(file) == lines // 2
        file.add({i: OUTPUTS[i] for i in range(3) if i not in file})
        file.finish()
    assert (tmp_path / "out.jsonl").read_bytes() == whole


def test_a_finished_file_is_complete(tmp_path, whole):
    (tmp_path / "out.jsonl").write_bytes(whole)
    with output_file(tmp_path) as file:
        assert len(file) == 3
        file.finish()
    assert (tmp_path / "out.jsonl").read_bytes() == whole


def test_notes_may_change(tmp_path):
    with OutputFile(tmp_path / "a", INPUTS[:1], {"seed": 0}, 1, {"model": "m"}) as file:
        file.add({0: [("out", -1.0)]})
    with OutputFile(tmp_path / "a", INPUTS[:1], {"seed": 0}, 1, {"model": "n"}) as file:
        assert 0 in file
        file.finish()
    assert json.loads((tmp_path / "a").read_text())["model"] == "m"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "dips"},
         'line 1: was made with sampler "beam", this run has "dips"'),
        ({"seed": 1}, "was made with seed 0, this run has 1"),
        ({"options": {"alpha": 1.0}},
         'was made with options {"alpha": 0.6}, this run has {"alpha": 1.0}'),
        ({"model": "m@4"}, 'was made with model "m@3", this run has "m@4"'),
        ({"inputs": [INPUTS[0], "other", INPUTS[2]]},
         r"line 3: was made from input 'naïve .* café', which is not line 2"),
        ({"inputs": INPUTS[:1]}, "line 3: was made from input .* not line 2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.partial"])
def test_another_run_is_refused(tmp_path, whole, changes, message, name):
    (tmp_path / name).write_bytes(whole)
    with (
        pytest.raises(UserError, match=message) as error,
        output_file(tmp_path, **changes),
    ):
        pass
    assert f"Remove {tmp_path / name}, or name another --out." in str(error.value)
    assert (tmp_path / name).read_bytes() == whole


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[]",
        b"7",
        pytest.param(b"[" * 10**5, id="deep"),
        b'{"line": "1"}',
        b'{"line": 1}',
        b'{"line": 1.5, "index": 0, "output": ""}',
        b'{"line": true, "index": false, "output": ""}',
        json.dumps({"line": 1, "input": INPUTS[0], "index": 0, **SETTINGS}).encode(),
    ],
)
def test_foreign_lines_are_refused(tmp_path, line):
    (tmp_path / "out.jsonl").write_bytes(line + b"\n")
    with (
        pytest.raises(
            UserError, match="line 1: is not a record of `jaxaug paraphrase`"
        ),
        output_file(tmp_path),
    ):
        pass
    assert (tmp_path / "out.jsonl").read_bytes() == line + b"\n"


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.partial"])
@pytest.mark.parametrize("content", [b"hello", b"\xff", b"find a bus\nfind a train"])
def test_a_foreign_file_without_a_last_line_break(tmp_path, name, content):
    """The last line is not a truncated record, so the file is not overwritten."""
    (tmp_path / name).write_bytes(content)
    with (
        pytest.raises(
            UserError, match="line 1: is not a record of `jaxaug paraphrase`"
        ),
        output_file(tmp_path),
    ):
        pass
    assert (tmp_path / name).read_bytes() == content


def test_two_runs_at_once(tmp_path):
    with (
        output_file(tmp_path) as file,
        pytest.raises(UserError, match="another run is writing to it"),
        output_file(tmp_path),
    ):
        pass
    file.partial.unlink()


def test_a_full_disk_leaves_no_temporary_file(tmp_path, monkeypatch):
    with output_file(tmp_path) as file:
        file.add(OUTPUTS)
        monkeypatch.setattr(
            os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full"))
        )
        with pytest.raises(OSError, match="full"):
            file.finish()
    assert os.listdir(tmp_path) == ["out.jsonl.partial"]


def test_a_full_disk_names_the_partial_file(tmp_path, monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with output_file(tmp_path) as file:
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match="No space left") as error:
            file.add(OUTPUTS)
    assert error.value.filename == str(tmp_path / "out.jsonl.partial")


def test_a_pipe_or_endless_line_in_place_of_an_output(tmp_path):
    os.mkfifo(tmp_path / "out.jsonl")
    with (
        pytest.raises(UserError, match="out.jsonl: .*(pipe|no ordinary file)"),
        output_file(tmp_path),
    ):
        pass
    (tmp_path / "out.jsonl").unlink()
    with (tmp_path / "out.jsonl").open("wb") as file:
        file.truncate(50 * 10**9)
    with (
        pytest.raises(
            UserError, match="line 1: is not a record of `jaxaug paraphrase`"
        ),
        output_file(tmp_path),
    ):
        pass
