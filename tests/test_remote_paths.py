"""One command of each family with data, cache, and results on gs://.

A local folder stands for the bucket. Only epath finds it under gs://, so code that
opens a path in another way fails.
"""

import json
import os

import pytest
from etils import epath
from etils.epath import backend, gpath

from jaxaug import cli
from jaxaug.augment.schemes import registry
from jaxaug.augment.schemes.registry import Job
from jaxaug.core import cache_folder
from jaxaug.paraphrase import output

ROOT = "gs://bucket"


class Bucket:
    """All operations of epath, with a local folder instead of gs://."""

    def __init__(self, folder):
        self._folder = f"{folder}/"

    def __getattr__(self, name):
        operation = getattr(backend.os_backend, name)

        def local(path):
            text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
            swap = isinstance(text, str) and text.startswith("gs://")
            return self._folder + text.removeprefix("gs://") if swap else path

        def call(*args, **options):
            found = operation(*map(local, args), **options)
            if name == "glob":
                return [f"gs://{one.removeprefix(self._folder)}" for one in found]
            return found

        return call


@pytest.fixture
def bucket(monkeypatch, sgd_tree, tmp_path):
    """`gs://bucket/data` is the small SGD folder; the cache is on gs://, too."""
    folder = tmp_path / "remote"
    (folder / "bucket").mkdir(parents=True)
    sgd_tree.rename(folder / "bucket" / "data")
    monkeypatch.setitem(gpath._PREFIX_TO_BACKEND, "gs", Bucket(folder))
    monkeypatch.setattr(gpath, "_is_tf_installed", lambda: False)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", f"{ROOT}/cache")
    monkeypatch.delenv("JAXAUG_VARIANTS_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    cache_folder._reach_cache.cache_clear()
    yield epath.Path(ROOT)
    cache_folder._reach_cache.cache_clear()
    assert sorted(os.listdir(tmp_path)) == ["remote"]  # No file was written elsewhere.


def go(*arguments):
    assert cli.main([*map(str, arguments)]) == 0


DATA = ("--data_dir", f"{ROOT}/data")


def test_data_and_format(bucket, capsys):
    go("data", "describe", *DATA)
    assert "train" in capsys.readouterr().out
    out = bucket / "v1"
    go("data", "variants", *DATA, "--split", "dev", "--variant", "v1", "--out", out)
    assert "Trains_11" in (out / "v1/dev/dialogues_001.json").read_text()
    for kind in ("d3st", "t5dst"):
        target = bucket / f"{kind}.tsv"
        split = ("--split", "dev", "--workers", 1, "--out", target)
        go("format", kind, *DATA, *split)
        assert target.read_text().startswith("inputs\ttargets\t")


def test_evaluate(bucket):
    target = bucket / "scores.json"
    given = ("--predictions", bucket / "data" / "dev", "--split", "dev")
    go("evaluate", "sgd", *DATA, *given, "--output", target)
    scores = json.loads(target.read_text())
    assert scores["#ALL_SERVICES"]["joint_goal_accuracy"] == 1.0


def test_augment_in_parts(bucket, monkeypatch):
    job = Job(
        "fake", lambda: "fake", lambda texts: [[f"{text} now"] for text in texts], 1
    )
    monkeypatch.setitem(registry.SCHEMES, "fake", lambda seed: [job])
    config = bucket / "config.py"
    fields = {"scheme": "fake", "variants": 1, "splits": ("train",)}
    config.write_text(
        "import ml_collections\n"
        f"def get_config(): return ml_collections.ConfigDict({fields!r})\n"
    )
    command = ("augment", "--config", config, *DATA, "--out", bucket / "out")
    for number in (1, 2):
        go(*command, "--shard", f"{number}/2")
    go(*command, "--merge")
    assert "now" in (bucket / "out/v1/train/schema.json").read_text()


def paraphrase(target, *more):
    command = ("paraphrase", "--model", "random-tiny", "--sampler", "top_k_top_p")
    fixed = ("--in", f"{ROOT}/lines.txt", "--batch_size", "2", "--max_length", "6")
    go(*command, *fixed, "--out", target, *more)


def test_paraphrase(bucket, monkeypatch, tmp_path_factory):
    """One run, parts, and a resumed run write the same bytes."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    (bucket / "lines.txt").write_text("one two\nthree\nfour five six\n")
    whole, out = bucket / "whole.jsonl", bucket / "out.jsonl"
    paraphrase(whole)
    records = [json.loads(line) for line in whole.read_text().splitlines()]
    assert [record["input"] for record in records] == [
        "one two",
        "three",
        "four five six",
    ]
    for number in (1, 2):
        paraphrase(out, "--shard", f"{number}/2")
    assert {path.name for path in (bucket / "out.jsonl.parts").iterdir()} == {
        *(f"{n}-of-2.json" for n in (1, 2)),
        *(f"{n}-of-2.jsonl.partial" for n in (1, 2)),
    }
    monkeypatch.setattr(output.OutputFile, "add", None)  # Nothing is computed again.
    paraphrase(out, "--shard", "1/2")
    paraphrase(out, "--merge")
    assert out.read_bytes() == whole.read_bytes()
    paraphrase(whole)  # The output is complete.
    assert out.read_bytes() == whole.read_bytes()
    assert not [path for path in home.rglob("*.partial")]


def test_paths_that_must_be_local(bucket, capsys):
    assert cli.main(["data", "fetch", "sgd", "--out", f"{ROOT}/sgd"]) == 1
    assert "a download goes to a local folder" in capsys.readouterr().err
