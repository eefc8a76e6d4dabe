"""Reading and writing files: no waiting for pipes, and a full disk is named."""

import os

import pytest
from jaxaug_base import files
from t5x.start import gin_config


def test_full_memory_is_a_message():
    assert gin_config.user_message(MemoryError()) == (
        "the memory is full (MemoryError). Use shorter lengths or a smaller batch, or "
        "a machine with more memory."
    )


def test_pipes_are_not_read(tmp_path):
    pipe = tmp_path / "x.gin"
    os.mkfifo(pipe)
    for function in (files.read_bytes, files.read_json):
        with pytest.raises(OSError, match="is a pipe .FIFO., expected an ord"):
            function(pipe)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5000, "Exceeds the limit"),
        ('{"a": 1, "a": 2}', "a name twice"),
        ("{", "Expecting property name"),
    ],
)
def test_invalid_json_is_refused(tmp_path, text, problem):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=problem):
        files.read_json(tmp_path / "x.json")
