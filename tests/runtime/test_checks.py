"""Settings from gin files, where any value may occur anywhere."""

import os
from pathlib import Path

import pytest
from jaxaug_base.files import absolute
from t5x import checks
from t5x.errors import UserError


@pytest.mark.parametrize("value", ["", "  ", 5, None, b"runs"])
def test_no_path_of_a_folder(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        checks.output_folder("MODEL_DIR", value)
    assert str(caught.value) == (
        f"MODEL_DIR = {value!r}: give the path of a folder, such as 'runs/first'."
    )
    assert os.listdir() == []


def test_a_path_that_cannot_be_a_folder(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "folder"):
        with pytest.raises(UserError, match=r"file.*no folder can be made there \("):
            checks.output_folder("MODEL_DIR", str(path))


def test_a_folder_of_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for value, folder in (
        ("a b/c", "a b/c"),
        (Path("d"), "d"),
        ("~/e", "home/e"),
        (str(tmp_path / "f"), "f"),
        ("d", "d"),
    ):
        assert checks.output_folder("x", value) == str(tmp_path / folder)
        assert (tmp_path / folder).is_dir()
    assert not (tmp_path / "~").exists()
    assert str(absolute("gs://a/~b")) == "gs://a/~b"
