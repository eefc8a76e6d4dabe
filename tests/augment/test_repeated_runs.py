"""Runs of `jaxaug augment` that are repeated, stopped, damaged, or changed."""

import errno
import re
import shutil

import pytest

from jaxaug import cli
from jaxaug.augment import config as configs
from jaxaug.augment import plan as plans
from jaxaug.augment import run
from jaxaug.augment.judge import measures
from jaxaug.augment.output import records
from jaxaug.core.errors import UserError
from jaxaug.core.parts import Part
from jaxaug.data.schema import read_schema
from tests.augment.runs_kit import FIELDS, files_of, go, texts_of


def test_a_second_run_does_nothing(sgd_tree, fake, tmp_path):
    out = tmp_path / "out"
    go(sgd_tree, out)
    before, seen = files_of(out), list(fake.seen)
    assert go(sgd_tree, out) == f"{out} is complete: nothing to do"
    assert files_of(out) == before and fake.seen == seen


@pytest.mark.parametrize("name", ["v2/train/schema.json", "candidates.jsonl"])
def test_damaged_files_are_written_again_from_the_shards(
    sgd_tree, fake, tmp_path, name
):
    out = tmp_path / "out"
    go(sgd_tree, out)
    before, seen = (out / name).read_bytes(), list(fake.seen)
    (out / name).write_text("{}")
    assert "(0 shards computed, 6 read)" in go(sgd_tree, out)
    assert (out / name).read_bytes() == before and fake.seen == seen


def tree_of(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_foreign_variants_are_not_overwritten(sgd_tree, fake, tmp_path):
    """Neither SGD-X nor a folder with one foreign file is overwritten."""
    before = tree_of(sgd_tree)
    sgdx = sgd_tree / "sgd_x/data"
    match = f"--out {sgdx}: is a folder of the data that the run reads. Choose another"
    with pytest.raises(UserError, match=re.escape(match)):
        go(sgd_tree, sgdx)
    copy = tmp_path / "copy"
    shutil.copytree(sgdx, copy)
    message = (
        f"{copy}: holds v1/dev/schema.json, which no run of `jaxaug augment` wrote "
        "(its files are listed in augment.json). Choose another --out, a new folder."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        go(sgd_tree, copy)
    out = tmp_path / "out"
    go(sgd_tree, out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=f"{out}: holds notes.txt, which no run"):
        go(sgd_tree, out, seed=1)
    assert tree_of(sgd_tree) == before
    assert tree_of(copy).keys() == {copy / p.relative_to(sgdx) for p in tree_of(sgdx)}


def test_a_missing_folder_of_sgdx_is_not_made(sgd_tree, fake):
    shutil.rmtree(sgd_tree / "sgd_x")
    with pytest.raises(UserError, match="is a folder of the data that the run reads"):
        go(sgd_tree, sgd_tree / "sgd_x/data")
    assert not (sgd_tree / "sgd_x").exists()


def test_own_files_are_written_again(sgd_tree, fake, tmp_path, monkeypatch):
    """The folder may hold files of interrupted, earlier, and other runs of ours."""
    out = tmp_path / "out"
    eda = {"scheme": "sentence", "options": {"method": "eda", "num": 9}}
    fields = {"report": {"string_similarity": {}}, "beside": {"EDA": eda}}

    def stops(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(records, "write_manifest", stops)
        with pytest.raises(KeyboardInterrupt):
            go(sgd_tree, out, **fields)
    assert (out / "v3/train/schema.json").exists()
    for changes in ({}, {"splits": ("dev",)}, {"seed": 1}, {"splits": ("dev",)}):
        go(sgd_tree, out, **fields, **changes)
    assert records.is_complete(out, records.read_manifest(out)["digest"])
    with pytest.raises(UserError, match=r"Remove .*v3, or choose another --out"):
        go(sgd_tree, out, variants=2)


def test_other_constraints_use_the_same_candidates(sgd_tree, fake, tmp_path):
    go(sgd_tree, tmp_path / "a")
    seen = list(fake.seen)
    tree = FIELDS["tree"] | {"constraints": ("far <= 0.3",)}
    go(sgd_tree, tmp_path / "b", tree=tree)
    assert fake.seen == seen
    assert texts_of(tmp_path / "b", "v2")["train/0/slot/2"] == "Cost of the ticket"


def test_a_crash_half_way(sgd_tree, fake, tmp_path):
    fake.crash_at = "Cost of the ticket"
    with pytest.raises(RuntimeError, match="the paraphraser is gone") as caught:
        go(sgd_tree, tmp_path / "out")
    assert "run the same command again" in caught.value.__notes__[0]
    assert not (tmp_path / "out").exists()
    fake.crash_at = None
    go(sgd_tree, tmp_path / "out")
    # Only the shard that failed, of two texts, was started twice.
    assert len(fake.seen) == 6 + 1
    whole = tmp_path / "whole"
    go(sgd_tree, whole)
    for path in sorted(whole.rglob("schema.json")):
        other = tmp_path / "out" / path.relative_to(whole)
        assert path.read_bytes() == other.read_bytes()


def test_a_full_disk(sgd_tree, fake, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "out"
    go(sgd_tree, out)
    before = files_of(out)
    monkeypatch.setattr(records, "write_text", full)
    with pytest.raises((UserError, OSError), match="No space left on device"):
        go(sgd_tree, out, seed=1)
    monkeypatch.undo()
    assert {p for p in files_of(out)} == set(before)
    for path in before:
        if path.name == "schema.json":
            read_schema(path)


def test_weights_are_part_of_the_key_of_metrics(own_metrics, tmp_path, monkeypatch):
    """The key does not depend on the folder's name; no model is loaded for it."""

    def found(folder, **options):
        metrics = {"similarity": {"model": str(tmp_path / folder)} | options}
        return measures.key(metrics)["similarity"]

    for name, weights in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text(weights)
    assert found("a") == found("b")
    assert found("a") != found("c")
    assert found("a", pooling="cls")[0] == {"pooling": "cls"}
    before = found("a")
    (tmp_path / "a" / "model.safetensors").write_text("another")
    assert found("a") != before
    monkeypatch.setattr(measures, "code_digest", lambda *modules: "other")
    assert found("b")[1] == [before[1][0], "other"]
    own = {"mine": {"path": "own_metrics:far", "model": "m"}, "bleu": {}}
    mine, bleu = measures.key(own).values()
    assert mine[:2] == [own["mine"], []] and mine[2]
    assert bleu == [{}, [], ""]


def test_another_metric_model_is_another_run(sgd_tree, fake, tmp_path, monkeypatch):
    """The digest of a finished run includes the models of its metrics."""
    monkeypatch.setattr(
        measures, "identities", lambda metrics: {name: [weights] for name in metrics}
    )
    weights = "one"
    go(sgd_tree, tmp_path / "out")
    assert go(sgd_tree, tmp_path / "out").endswith("is complete: nothing to do")
    weights = "two"
    assert "(3 shards computed, 3 read)" in go(sgd_tree, tmp_path / "out")


def test_a_changed_job_is_another_run(sgd_tree, fake, tmp_path):
    go(sgd_tree, tmp_path / "out")
    fake.endings = ["now"]
    assert "(6 shards computed, 0 read)" in go(sgd_tree, tmp_path / "out")


def test_compared_schemes_are_part_of_the_run(sgd_tree, fake, tmp_path, edit_json):
    fields = {"report": {"bleu": {}}, "beside": {"SGD-X": "sgdx"}}
    go(sgd_tree, tmp_path / "out", **fields)
    path = sgd_tree / "sgd_x/data/v1/train/schema.json"
    edit_json(path, lambda services: services[0].update(description="Others"))
    said = go(sgd_tree, tmp_path / "out", **fields)
    assert "(0 shards computed, 6 read)" in said


@pytest.mark.parametrize("own_folders", [False, True])
def test_parts_of_machines_make_the_same_files(
    sgd_tree, fake, tmp_path, monkeypatch, own_folders
):
    config = configs.of(FIELDS | {"splits": ("train", "dev")}, "test")
    go(sgd_tree, tmp_path / "whole", splits=("train", "dev"))
    texts = len(fake.seen)
    out = tmp_path / "out"
    plan = plans.resolve(config, sgd_tree, out)
    places = [tmp_path / f"m{n}" if own_folders else out for n in (1, 2, 3)]
    fake.seen.clear()
    for number, place in enumerate(places, 1):
        monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / f"cache{number}"))
        if number == 3:
            given = [f"{p}.parts" for p in places[:2]] if own_folders else []
            with pytest.raises(UserError, match=r"1 is missing: 3\. .* --shard 3/3"):
                run._merged(plan, given)
        before = len(fake.seen)
        run.compute_part(plans.resolve(config, sgd_tree, place), Part(number, 3))
        assert 0 < len(fake.seen) - before < texts
        assert not out.exists()
    assert len(fake.seen) < 1.5 * texts
    given = [f"{p}.parts" for p in places] if own_folders else []
    other = configs.of(FIELDS | {"splits": ("train",)}, "test")
    with pytest.raises(UserError, match=r"is a part of other work \(augment differ\)"):
        run._merged(plans.resolve(other, sgd_tree, out), given)
    fake.crash_at = fake.seen[0]  # Nothing is computed again.
    assert "(0 shards computed" in run.carry_out(plan, run._merged(plan, given))
    files = sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file())
    assert len(files) > 6
    for name in files:
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    next((places[0].parent / f"{places[0].name}.parts" / "judged").iterdir()).unlink()
    with pytest.raises(UserError, match="a shard of a finished part is missing"):
        run._merged(
            plans.resolve(config, sgd_tree, tmp_path / "again"),
            [f"{places[0]}.parts"] if not own_folders else given,
        )


def test_the_options_of_parts(sgd_tree, fake, tmp_path, capsys):
    file = tmp_path / "config.py"
    file.write_text(
        "import ml_collections\n"
        f"def get_config(): return ml_collections.ConfigDict({FIELDS!r})\n"
    )
    base = ["augment", "--config", str(file), "--data_dir", str(sgd_tree), "--out"]
    base.append(str(tmp_path / "out"))
    assert cli.main([*base, "--shard", "1/1"]) == 0
    assert "part 1 of 1 is complete" in capsys.readouterr().out
    assert cli.main([*base, "--merge"]) == 0
    assert "(0 shards computed" in capsys.readouterr().out
    assert cli.main([*base, "--shard", "2/1"]) == 1
    assert cli.main([*base, "--shard", "1/1", "--merge"]) == 1
    assert "first all shards, then --merge alone" in capsys.readouterr().err
