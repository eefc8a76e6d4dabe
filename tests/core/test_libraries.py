"""Logs of libraries go to a file; messages of Python stay on the screen."""

import os
import sys
from importlib import util
from pathlib import Path

from absl import logging

from jaxaug.core import libraries
from tests.support.programs import ran

# C++ code writes to the file descriptor. SeqIO logs from one of its files.
PROGRAM = """
import os, sys
from absl import logging
from jaxaug.core import libraries

place = os.path.join(os.path.dirname(sys.argv[1]), "evaluation.py")
def of_seqio(line):
    exec(compile(line, place, "exec"), {"logging": logging})

logging.warning("early")
with libraries.noted():
    os.write(2, b"I0000 oneDNN custom operations are on\\n")
    of_seqio("logging.warning('too %s', 'long')")
    of_seqio("logging.error('of SeqIO, an error')")
    logging.warning("of ours, a warning")
    print("progress", file=sys.stderr)
os.write(2, b"native, later\\n")
of_seqio("logging.warning('later')")
print("the end", file=sys.stderr)
with libraries.noted():
    os.abort()
"""


def test_notes_are_kept_off_the_screen(tmp_path):
    done = ran(
        [sys.executable, "-c", PROGRAM, util.find_spec("seqio").origin],
        env={**os.environ, "JAXAUG_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert (tmp_path / "cache" / libraries.NAME).read_text().splitlines() == [
        "I0000 oneDNN custom operations are on",
        "WARNING evaluation.py:1] too long",
    ]
    shown = [line.removeprefix("WARNING:absl:") for line in done.stderr.splitlines()]
    assert shown[:7] == [
        "early", "ERROR:absl:of SeqIO, an error", "of ours, a warning", "progress",
        "native, later", "later", "the end",
    ]  # fmt: skip
    assert done.returncode == -6 and "Fatal Python error: Aborted" in shown


def test_standard_error_that_is_already_captured(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    filters = [*logging.get_absl_logger().filters]
    with libraries.noted():
        os.write(2, b"native\n")
        print("of Python", file=sys.stderr)
    assert capsys.readouterr().err == "of Python\n"
    assert libraries.log_file().read_text() == "native\n"
    assert logging.get_absl_logger().filters == filters


def test_a_cache_in_an_object_store(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(libraries.cache_folder, "cache_dir", lambda: "gs://bucket/x")
    assert libraries.log_file() == Path(tmp_path, ".cache/jaxaug", libraries.NAME)
