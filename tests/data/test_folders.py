import os
from pathlib import Path

import pytest

from jaxaug.core import cache_folder
from jaxaug.core.errors import UserError
from jaxaug.data import folders


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in (
        "JAXAUG_DATA_DIR",
        "JAXAUG_CACHE_DIR",
        "JAXAUG_VARIANTS_DIR",
        "XDG_CACHE_HOME",
    ):
        monkeypatch.delenv(name, raising=False)


def test_cache_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path(cache_folder.cache_dir()) == tmp_path / ".cache/jaxaug"
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert Path(cache_folder.cache_dir()) == tmp_path / ".cache/jaxaug"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert Path(cache_folder.cache_dir()) == tmp_path / "caches/jaxaug"
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert Path(cache_folder.cache_dir()) == tmp_path / "elsewhere"


def test_argument_wins_over_variable(monkeypatch, sgd_tree, tmp_path):
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(tmp_path / "none"))
    assert Path(folders.resolve_data_dir(str(sgd_tree))) == sgd_tree
    with pytest.raises(UserError) as error:
        folders.resolve_data_dir()
    assert str(error.value) == (
        f"data folder {tmp_path}/none (from $JAXAUG_DATA_DIR) does not exist: "
        f"{tmp_path}/none/train/schema.json is missing. Get it with `jaxaug data fetch "
        f"sgd --out {tmp_path}/none`, or name another folder with --data_dir or "
        "$JAXAUG_DATA_DIR (neither: the embedded MiniSGD)."
    )
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
    assert Path(folders.resolve_data_dir(None)) == sgd_tree


_LOCAL = (
    "Get it with `jaxaug data fetch sgd --out data/sgd`, or name another folder with "
    "--data_dir or $JAXAUG_DATA_DIR (neither: the embedded MiniSGD)."
)


def test_an_empty_name_is_not_minisgd():
    with pytest.raises(UserError) as error:
        folders.resolve_data_dir("")
    assert str(error.value) == (
        "the name of the data folder is empty: name a folder, or leave --data_dir out "
        "to use $JAXAUG_DATA_DIR or the embedded MiniSGD."
    )


class UnimplementedError(Exception):
    """An error with the name of TensorFlow's error."""


@pytest.mark.parametrize(
    ("raised", "problem"),
    [
        (UnimplementedError("File system scheme 's3' not implemented"),
         ("TensorFlow cannot read s3:// (UnimplementedError: File system scheme "
         "'s3' not implemented). Run `pip install fsspec s3fs` and set "
         "EPATH_USE_TF=0")),
        (ImportError("none"),
         "s3:// needs a package that is missing (ImportError: none). Install it"),
        (RuntimeError("No host\nmore"),
         ("cannot be reached (RuntimeError: No host). Check the address, the "
         "network and the credentials for s3://")),
    ],
)  # fmt: skip
def test_storage_out_of_reach(monkeypatch, raised, problem):
    def look(self):
        if str(self).startswith("s3://"):
            raise raised
        return False

    for name in ("exists", "is_dir"):
        monkeypatch.setattr(type(folders.epath.Path("s3://a")), name, look)
    monkeypatch.setenv("JAXAUG_DATA_DIR", "s3://bucket/sgd")
    with pytest.raises(UserError) as error:
        folders.resolve_data_dir()
    assert str(error.value) == (
        f"data folder s3://bucket/sgd (from $JAXAUG_DATA_DIR): {problem}: "
        f"s3://bucket/sgd/train/schema.json is missing. {_LOCAL}"
    )
    monkeypatch.setenv("JAXAUG_CACHE_DIR", "s3://bucket/cache")
    with pytest.raises(UserError) as error:
        cache_folder.cache_dir()
    assert str(error.value) == (
        f"s3://bucket/cache: {problem}. Set $JAXAUG_CACHE_DIR to a folder that can be "
        "written."
    )
    monkeypatch.setenv("JAXAUG_VARIANTS_DIR", "s3://bucket/aug")
    with pytest.raises(UserError) as error:
        folders.variant_folders("data")
    assert str(error.value) == (
        f"s3://bucket/aug: {problem}. Correct $JAXAUG_VARIANTS_DIR, or mend the cause."
    )


def test_neither_gives_minisgd_in_the_cache(monkeypatch, tmp_path):
    from jaxaug.data import minisgd

    asked = []

    def materialise(cache):
        asked.append(Path(cache))
        return tmp_path / "mini"

    monkeypatch.setattr(minisgd, "materialise", materialise)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    assert Path(folders.resolve_data_dir()) == tmp_path / "mini"
    assert asked == [tmp_path / "cache"]


def test_folder_without_data(tmp_path):
    with pytest.raises(UserError) as error:
        folders.resolve_data_dir(tmp_path)
    assert f"{tmp_path} holds no data: {tmp_path}/train/schema.json is missing" in str(
        error.value
    )
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(
        UserError, match="file is not a folder: .*/file/train/schema.json is missing"
    ):
        folders.resolve_data_dir(file)


def test_partial_split(sgd_tree):
    (sgd_tree / "dev/schema.json").unlink()
    for function in (folders.schema_path, folders.dialogue_paths):
        with pytest.raises(UserError) as error:
            function(sgd_tree, "dev")
        assert (
            f"data folder {sgd_tree} is incomplete: {sgd_tree}/dev/schema.json is "
            f"missing. Get it with `jaxaug data fetch sgd --out {sgd_tree}`"
        ) in str(error.value)
    (sgd_tree / "test/dialogues_001.json").unlink()
    with pytest.raises(
        UserError, match=r"test/dialogues_001\.json and all further dialogue files are"
    ):
        folders.dialogue_paths(sgd_tree, "test")
    with pytest.raises(UserError, match="unknown split 'eval': use one of train, dev"):
        folders.schema_path(sgd_tree, "eval")


def test_variant_names_in_numeric_order(tmp_path):
    for name in ("v10", "v2", "v1", "notes", "v0", ".v3", "v1x"):
        (tmp_path / name).mkdir()
    assert folders.variant_names(tmp_path) == ("v1", "v2", "v10")
    assert folders.variant_names(tmp_path / "none") == ()


def test_variant_schema_path(sgd_tree):
    sgdx = folders.sgdx_folder(sgd_tree)
    path = folders.variant_schema_path(sgdx, "v2", "test")
    assert Path(path) == sgd_tree / "sgd_x/data/v2/test/schema.json"
    for name in ("v6", "original", "../v1", "v1/"):
        with pytest.raises(UserError) as error:
            folders.variant_schema_path(sgdx, name, "test")
        assert str(error.value) == (
            f"unknown variant {name!r}: {sgdx} has v1, v2, v3, v4, v5. Choose one of "
            "them."
        )
    (sgd_tree / "sgd_x/data/v2/test/schema.json").unlink()
    assert folders.variant_splits(sgdx, "v2") == ("train", "dev")
    with pytest.raises(
        UserError,
        match=r"variant 'v2' has no schema for split 'test': .*test/schema\.json is "
        r"missing \(splits there: train, dev\)",
    ):
        folders.variant_schema_path(sgdx, "v2", "test")
    with pytest.raises(
        UserError, match=r"no schema variants in .*/none: .*v1/dev/schema\.json is miss"
    ):
        folders.variant_schema_path(sgd_tree / "none", "v1", "dev")


def test_variant_folders(monkeypatch, sgd_tree, tmp_path):
    assert folders.variant_folders(sgd_tree) == {"sgdx": sgd_tree / "sgd_x/data"}
    for folder in ("variants/tree", "variants/aug", "variants/.aug.tmp"):
        (sgd_tree / folder).mkdir(parents=True)
    (sgd_tree / "variants/notes.txt").touch()
    elsewhere = [tmp_path / "x/kst", tmp_path / "x/eda"]
    for folder in elsewhere:
        folder.mkdir(parents=True)
    monkeypatch.setenv(
        "JAXAUG_VARIANTS_DIR", f"{elsewhere[0]}{os.pathsep}{elsewhere[1]}/"
    )
    found = folders.variant_folders(sgd_tree)
    assert {name: Path(path) for name, path in found.items()} == {
        "sgdx": sgd_tree / "sgd_x/data",
        "aug": sgd_tree / "variants/aug",
        "tree": sgd_tree / "variants/tree",
        "kst": elsewhere[0],
        "eda": elsewhere[1],
    }
    assert list(found) == ["sgdx", "aug", "tree", "kst", "eda"]


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("none", "(from $JAXAUG_VARIANTS_DIR) does not exist"),
        ("my-aug", "may hold letters, digits and underscores only. Rename the folder."),
        ("aug", "two variants folders are called 'aug'"),
    ],
)
def test_bad_variant_folders(monkeypatch, sgd_tree, tmp_path, folder, message):
    (sgd_tree / "variants/aug").mkdir(parents=True)
    path = tmp_path / folder
    if folder != "none":
        path.mkdir()
    monkeypatch.setenv("JAXAUG_VARIANTS_DIR", str(path))
    with pytest.raises(UserError) as error:
        folders.variant_folders(sgd_tree)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_gs_addresses_are_not_split(monkeypatch):
    asked = []

    class Path_(type(folders.epath.Path("."))):
        def is_dir(self):
            asked.append(str(self))
            return True

    monkeypatch.setattr(folders.epath, "Path", Path_)
    monkeypatch.setenv("JAXAUG_VARIANTS_DIR", "gs://bucket/a:/local/b")
    assert [path.name for path in folders._folders_of_variable()] == ["a", "b"]
    assert asked == ["gs://bucket/a", "/local/b"]
