"""`jaxaug doctor`: its findings, and the fix for each problem."""

import json
import re
import subprocess
import sys
from importlib import metadata

import pytest

from jaxaug import doctor
from jaxaug.cli import main
from jaxaug.core import installed

SCHEMA = [
    {"service_name": "A_1", "description": "a", "slots": [], "intents": []},
]  # fmt: skip


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("JAXAUG_DATA_DIR", raising=False)
    monkeypatch.delenv("JAXAUG_VARIANTS_DIR", raising=False)
    folder = tmp_path / "sgd"
    for split in ("train", "dev", "test"):
        (folder / split).mkdir(parents=True)
        (folder / split / "schema.json").write_text(json.dumps(SCHEMA))
        (folder / split / "dialogues_001.json").write_text("[]")
    return folder


def topics(found):
    return {finding.topic: finding for finding in found}


def test_a_sound_installation(data_dir, capsys):
    for variant in ("v1", "v10", "v2"):
        path = data_dir / "sgd_x" / "data" / variant / "test" / "schema.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(SCHEMA))
    assert main(["doctor", "--data_dir", str(data_dir)]) == 0
    printed = capsys.readouterr().out
    version = re.escape(metadata.version("rapidfuzz"))
    assert re.search(rf"^ok +rapidfuzz +{version}$", printed, re.MULTILINE)
    assert "1 dialogue files, 1 services" in printed
    assert "v1, v2, v10 (test)" in printed
    assert str(data_dir) in printed
    assert "cpu" in printed
    assert printed.splitlines()[-1].startswith("0 missing, ")


def test_a_missing_split_fails_with_the_fix(data_dir, capsys):
    (data_dir / "dev" / "dialogues_001.json").unlink()
    assert main(["doctor", "--data_dir", str(data_dir)]) == 1
    printed = capsys.readouterr().out
    assert "missing  data dev" in printed
    assert "dialogues_001.json" in printed and "jaxaug data fetch sgd" in printed
    assert "1 missing" in printed.splitlines()[-1]


def test_a_missing_data_folder(data_dir):
    (finding,) = doctor.check_data(str(data_dir / "nope"))
    assert finding.level == "missing"
    assert "nope does not exist" in finding.text and "fetch" in finding.text


def test_a_broken_schema(data_dir):
    (data_dir / "test" / "schema.json").write_text("[{]")
    found = topics(doctor.check_data(str(data_dir)))
    assert found["data test"].level == "missing"
    assert "invalid JSON" in found["data test"].text
    assert found["data train"].level == "ok"
    assert found["variants sgdx"].level == "note"


def test_the_cache(data_dir, tmp_path):
    found = topics(doctor.check_cache())
    assert "empty, made at first use" in found["cache"].text
    vocabulary = tmp_path / "cache" / "vocabulary" / "x.model"
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_bytes(b"0" * 2**20)
    found = topics(doctor.check_cache())
    assert found["cache"].text.endswith("cache, 1.0 MiB")
    assert "x.model" in found["vocabulary"].text


def test_a_file_in_place_of_the_cache(data_dir, tmp_path):
    (tmp_path / "cache").write_text("")
    (finding,) = doctor.check_cache()
    assert finding.level == "missing" and "JAXAUG_CACHE_DIR" in finding.fix


def test_a_cache_out_of_reach(data_dir, monkeypatch, capsys):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", "foo://bucket/cache")
    problem = (
        "foo://bucket/cache: foo:// is no storage that is known (local paths, gs:// "
        "and s3:// are). Set $JAXAUG_CACHE_DIR to a folder that can be written."
    )
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert f"missing  cache   {problem}" in re.sub(" {4,}", "   ", printed)
    assert f"missing  data   {problem}" in re.sub(" {4,}", "   ", printed)
    assert printed.splitlines()[-1].startswith("2 missing")


def test_a_remote_cache(data_dir, monkeypatch):
    remote = type(doctor.epath.Path("gs://a"))
    monkeypatch.setattr(remote, "exists", lambda self: True)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", "gs://bucket/cache")
    assert list(doctor.check_cache()) == [
        doctor.Finding(
            "ok", "cache", "gs://bucket/cache (remote, its size is not looked up)"
        )
    ]


def test_missing_packages_are_named_with_their_fix(monkeypatch):
    real = metadata.version

    def version(name):
        if name in ("rapidfuzz", "matplotlib", "jaxaug-t5x"):
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    found = topics(doctor.check_packages())
    assert found["rapidfuzz"].level == "missing"
    fix = f"`{installed.install_command()}` in the repository."
    assert found["rapidfuzz"].fix == f"Run {fix}"
    assert found["extra jax"].text == "lacks jaxaug-t5x"
    assert found["extra report"].level == "note"
    assert found["extra report"].fix == f"Optional: {fix}"


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (["tensorflow"], 0),
        (["tensorflow-cpu"], 0),
        (["tensorflow", "tensorflow-cpu"], 1),
    ],
)
def test_two_distributions_of_tensorflow(monkeypatch, names, count):
    """They have the same files, so each overwrites the files of the other."""
    monkeypatch.setattr(
        metadata, "distributions", lambda name: [name] * (name in names)
    )
    found = list(doctor.check_tensorflow())
    assert [one.text[:52] for one in found] == [
        "tensorflow and tensorflow-cpu are both installed and"
    ] * count
    assert all("uninstall --yes tensorflow-cpu tensorflow`" in one.fix for one in found)


def test_an_extra_of_a_package_adds_requirements(monkeypatch):
    lists = {
        "jaxaug": [
            "etils[epath]",
            'jax[tpu]; extra == "tpu"',
            'jaxaug[tpu]; extra == "dev"',
        ],
        "etils": ['zipp; extra == "epath"'],
        "jax": ["jaxlib", 'libtpu==0.0.*; extra == "tpu"'],
    }
    monkeypatch.setattr(metadata, "requires", lists.get)
    assert doctor.requirements() == {"": ["etils"], "tpu": ["libtpu"]}


def test_devices_that_do_not_start(monkeypatch):
    import jax

    def fail():
        raise RuntimeError("no such backend\nmore")

    monkeypatch.setattr(jax, "devices", fail)
    (finding,) = doctor.check_devices()
    assert finding.level == "missing"
    assert finding.text.endswith("cannot start its backend: no such backend")
    assert "JAX_PLATFORMS=cpu" in finding.fix


def test_the_packages_are_checked_without_importing_them():
    code = (
        "import sys; from jaxaug import doctor; list(doctor.check_packages()); "
        "sys.exit(bool({'tensorflow', 'seqio', 'jax', 'torch'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
