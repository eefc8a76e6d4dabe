"""Files appear completely or not at all, also if the disk is full."""

import errno
import os
import subprocess
import sys

import pytest
from jaxaug_base import files

from jaxaug.cli import main
from jaxaug.core.files import write_text


def full():
    # The system raises it for a write to an open file, without a file name.
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_names_the_file(tmp_path):
    for function, name in (
        (files.replacing, "out.tsv"),
        (files.new_folder, "folder"),
    ):
        refused = pytest.raises(OSError, match="No space left")
        with refused as error, function(tmp_path / name):
            full()
        assert error.value.filename == str(tmp_path / name)
    assert [*tmp_path.iterdir()] == []


def test_a_writer_removes_what_killed_writers_left(tmp_path):
    """Files and folders of living processes, and of other targets, stay."""
    program = (
        "import os, signal, sys; from etils import epath;"
        "from jaxaug_base.files import new_folder, replacing, scratch_folder\n"
        "with replacing(sys.argv[1] + '/a') as a, new_folder(sys.argv[1] + '/b') as b, "
        "scratch_folder(sys.argv[1] + '/c') as c:\n"
        "    a.write_text('half'); (b / 'weights').write_text('half')\n"
        "    (c / 'archive').write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    left = [*tmp_path.iterdir()]
    assert len(left) == 3
    kept = tmp_path / ".a.b.0123abcd.tmp"
    kept.write_text("of the target a.b")
    with files.replacing(tmp_path / "a") as other:
        other.write_text("other")
        write_text(tmp_path / "a", "whole")
        assert other.exists()
        assert not any(path.exists() for path in left if path.name.startswith(".a."))
    with (
        files.new_folder(tmp_path / "b"),
        files.scratch_folder(tmp_path / "c"),
    ):
        pass
    assert sorted(tmp_path.iterdir()) == [kept, tmp_path / "a", tmp_path / "b"]
    for path in left:
        assert files.final_name(str(path / "x")) in (
            str(tmp_path / "a/x"),
            str(tmp_path / "b/x"),
            str(tmp_path / "c/x"),
        )


def test_other_errors_keep_their_message(tmp_path):
    for given in (
        OSError(errno.ENOSPC, "full", "elsewhere"),
        OSError(errno.ECONNRESET, "reset"),
    ):
        name = given.filename
        with pytest.raises(OSError, match="full|reset"), files.naming(tmp_path):
            raise given
        assert given.filename == name


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.ENOSPC, "Free some space, then run the same command again."),
        (errno.EDQUOT, "Free some space, then run the same command again."),
        (
            errno.EFBIG,
            "Name a place that takes larger files, or raise the limit (`ulimit -f`).",
        ),
        (errno.EIO, "Check the disk, or name another path."),
    ],
)
def test_a_verb_names_the_file_and_the_fix(tmp_path, monkeypatch, capsys, number, fix):
    (tmp_path / "in.txt").write_text("a cheap place\n")

    def write_bytes(self, data):
        raise OSError(number, os.strerror(number))

    out = tmp_path / "out.txt"
    arguments = ["augment", "text", "--scheme", "eda", "--out", str(out)]
    monkeypatch.setattr("jaxaug.core.files.check_writable", lambda *_: None)
    kind = type(files.epath.Path(out))
    whole = kind.write_bytes
    monkeypatch.setattr(
        kind,
        "write_bytes",
        lambda self, data: (write_bytes if "out.txt" in str(self) else whole)(
            self, data
        ),
    )
    assert main([*arguments, "--in", str(tmp_path / "in.txt")]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"jaxaug: error: {out}: {os.strerror(number)}. {fix}"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_standard_output_to_a_full_disk():
    command = [sys.executable, "-m", "jaxaug.cli", "completion", "bash"]
    with open("/dev/full", "wb") as target:
        done = subprocess.run(
            command, stdout=target, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "jaxaug: error: standard output: No space left on device. Free some space, "
        "then run the same command again.\n"
    )
