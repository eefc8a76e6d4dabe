"""Whole runs of `jaxaug augment` with a scheme and metrics that need no model."""

import errno
import itertools
import json
import re
import shutil
import sys

import pytest

from jaxaug import cli
from jaxaug.augment import config as configs
from jaxaug.augment import descriptions, explaining, run
from jaxaug.augment import plan as plans
from jaxaug.augment.judge import measures
from jaxaug.augment.output import records, variants
from jaxaug.augment.schemes import registry
from jaxaug.augment.schemes.registry import Job
from jaxaug.core import extensions
from jaxaug.core.errors import UserError
from jaxaug.core.parts import Part
from jaxaug.data import folders
from jaxaug.data.schema import read_schema

FIELDS = {
    "scheme": "fake",
    "variants": 3,
    "metrics": {"far": {"path": "own_metrics:far"}, "string_similarity": {}},
    "select": "tree",
    "tree": {
        "levels": ("far", "string_similarity"),
        "decisions": ("max", "min"),
        "constraints": ("far <= 0.5",),
        "diversity": "far",
    },
    "shard_size": 2,
}
METRICS = """
import numpy as np

def far(sources, candidates):
    pairs = [(set(a.split()), set(b.split())) for a, b in zip(sources, candidates)]
    return np.array([1 - len(a & b) / len(a | b) for a, b in pairs])

def broken(sources, candidates):
    return np.full(len(sources), np.nan)
"""


class Fake:
    """Appends words to a text; may fail at one text."""

    def __init__(self):
        self.seen, self.crash_at = [], None
        self.endings = ["", "now", "now", "or then", "in the long run of all things"]

    def run(self, given):
        for text in given:
            if text == self.crash_at:
                raise RuntimeError("the paraphraser is gone")
            self.seen.append(text)
        return [[f"{text} {end}" for end in self.endings] for text in given]

    def jobs(self, seed, **options):
        key = {"fake": self.endings, **options}
        return [Job("fake", lambda: key, self.run, len(self.endings))]


@pytest.fixture(scope="module", autouse=True)
def own_metrics(tmp_path_factory):
    """Puts the metrics of a user on the path."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_metrics.py").write_text(METRICS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    sys.modules.pop("own_metrics", None)


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Returns the scheme, with a separate cache."""
    made = Fake()
    monkeypatch.setitem(registry.SCHEMES, "fake", made.jobs)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    return made


def go(data_dir, out, **fields):
    return run.augment(configs.of(FIELDS | fields, "test"), data_dir, out)


def lines(out):
    text = (out / "candidates.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def texts_of(out, variant, split="train"):
    schema = read_schema(out / variant / split / "schema.json")
    return {d.id: d.text for d in descriptions.descriptions(schema, split)}


def files_of(out):
    return {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}


def test_checks_and_tidying_can_be_switched_off(sgd_tree, fake, tmp_path):
    fake.endings = ["", "now."]
    go(sgd_tree, tmp_path / "ours")
    go(sgd_tree, tmp_path / "plain", checks=(), tidy=False)
    found = {}
    for name in ("ours", "plain"):
        found[name] = {
            line["candidate"]: line["dropped"] for line in lines(tmp_path / name)
        }
    source = lines(tmp_path / "ours")[0]["source"]
    assert found["ours"][source] == ["copy"] and f"{source} now" in found["ours"]
    assert found["plain"][source] == [] and f"{source} now." in found["plain"]
    with pytest.raises(
        UserError, match="checks: known: added_number, changed_negation"
    ):
        go(sgd_tree, tmp_path / "x", checks=("copies of it",))


def test_candidates_closer_to_another_slot_are_dropped(
    sgd_tree, fake, edit_json, tmp_path
):
    """A candidate may have the meaning of a slot that differs in one word."""

    def reword(schema):
        for slot, word in zip(
            schema[0]["slots"], ("arrival", "departure"), strict=False
        ):
            slot["description"] = f"the {word} time of it"

    edit_json(sgd_tree / "train/schema.json", reword)
    swap = {"arrival": "departure", "departure": "arrival"}
    fake.run = lambda given: [
        [
            " ".join(swap.get(word, word) for word in f"{text} now".split()),
            f"{text} now",
        ]
        for text in given
    ]
    go(sgd_tree, tmp_path / "free", variants=1)
    go(sgd_tree, tmp_path / "apart", variants=1, apart_by="string_similarity")

    def of_arrival(out):
        return {
            r["candidate"]: (r["dropped"], r["variant"])
            for r in lines(tmp_path / out)
            if r["id"] == "train/0/slot/0"
        }

    assert of_arrival("free")["the departure time of it now"] == ([], 1)
    assert of_arrival("apart") == {
        "the departure time of it now": (["nearer_to_another"], None),
        "the arrival time of it now": ([], 1),
    }
    # Single intents and services keep their candidates.
    assert not [
        r for r in lines(tmp_path / "apart") if r["kind"] == "service" and r["dropped"]
    ]


def test_candidates_that_the_judge_rejects_are_dropped(sgd_tree, fake, tmp_path):
    fake.endings = ["", "the", "of friends", "to the"]
    go(sgd_tree, tmp_path / "free", variants=1)
    go(sgd_tree, tmp_path / "judged", variants=1, judge={"similarity": ""})
    free, judged = (
        {(r["id"], r["candidate"]): r["dropped"] for r in lines(tmp_path / name)}
        for name in ("free", "judged")
    )
    assert free.keys() == judged.keys()
    of_slot = {
        text: reasons
        for (id_, text), reasons in judged.items()
        if id_ == "train/0/slot/2"
    }
    assert of_slot == {
        # Candidates with a reason are not judged.
        "Cost of the ticket": ["copy"],
        "Cost of the ticket the": ["judge: trivial", "judge: slips"],
        "Cost of the ticket of friends": ["judge: extra"],
        "Cost of the ticket to the": ["judge: trivial", "judge: slips"],
    }


def test_a_second_run_with_a_judge_reads_its_shards(sgd_tree, fake, tmp_path):
    judge = {"similarity": ""}
    go(sgd_tree, tmp_path / "first", judge=judge)
    assert "(0 shards computed" in go(sgd_tree, tmp_path / "second", judge=judge)
    assert "nothing to do" in go(sgd_tree, tmp_path / "second", judge=judge)


def test_variants_and_records(sgd_tree, fake, tmp_path):
    out = tmp_path / "out"
    said = go(sgd_tree, out)
    assert "6 descriptions (6 distinct), 30 outputs, 24 distinct candidates" in said
    assert "6 copy" in said and "constraint: far <= 0.5" in said
    # v1 is the most similar; the long one breaks the constraint.
    assert texts_of(out, "v1")["train/0/slot/2"] == "Cost of the ticket"
    assert texts_of(out, "v2")["train/0/slot/2"] == "Cost of the ticket now"
    assert texts_of(out, "v3")["train/0/slot/2"] == "Cost of the ticket or then"
    found = [r for r in lines(out) if r["id"] == "train/0/slot/2"]
    fields = ("candidate", "count", "dropped", "variant")
    assert [tuple(r[field] for field in fields) for r in found] == [
        ("Cost of the ticket now", 2, [], 2),
        ("Cost of the ticket", 1, ["copy"], None),
        ("Cost of the ticket or then", 1, [], 3),
        (
            "Cost of the ticket in the long run of all things", 1,
            ["constraint: far <= 0.5"], None,
        ),
    ]  # fmt: skip
    assert found[0]["metrics"].keys() == {"far", "string_similarity"}
    assert found[0]["metrics"]["far"] == 0.2
    assert found[0]["settings"] == ["fake"]


def test_no_slot_is_missing(sgd_tree, fake, tmp_path):
    """The filters drop everything: the originals stay, and the report counts them."""
    fake.endings = [""]
    said = go(sgd_tree, tmp_path / "out", splits=("train", "dev"))
    assert (
        "48 of 48 variant texts are the original, for lack of a candidate; 16 "
        "descriptions have no other text in any variant" in said
    )
    out = tmp_path / "out"
    last = said.splitlines()[-1]
    assert last.startswith("16 of 16 texts have no rewording: train/0/service ('")
    why = "1 candidates, 1 dropped by copy"
    assert f"train/0/slot/2 ('Cost of the ticket': {why}), " in last
    assert last.endswith(
        f", ... Ask a language model (--model), or type some on the page of "
        f"`jaxaug augment review {out}`, then repeat this "
        "command."
    )
    for split, variant in itertools.product(("train", "dev"), ("v1", "v2", "v3")):
        original = read_schema(sgd_tree / split / "schema.json")
        own = {d.id: d.text for d in descriptions.descriptions(original, split)}
        assert texts_of(tmp_path / "out", variant, split) == own
    counts = records.read_manifest(tmp_path / "out")["counts"]
    assert (counts["original"], counts["without"]) == (48, 16)


def test_a_paraphraser_that_gives_nothing(sgd_tree, fake, tmp_path):
    fake.endings = []
    assert "18 of 18 variant texts" in go(sgd_tree, tmp_path / "out")
    assert {r["candidate"] for r in lines(tmp_path / "out")} == {None}


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


def test_no_descriptions(sgd_tree, fake, tmp_path, edit_json):
    def blank(services):
        for item in services:
            for part in (item, *item["slots"], *item["intents"]):
                part["description"] = ""

    edit_json(sgd_tree / "train/schema.json", blank)
    with pytest.raises(UserError, match="the train schema has no descriptions"):
        go(sgd_tree, tmp_path / "out")


def test_a_metric_without_a_value(sgd_tree, fake, tmp_path):
    metrics = FIELDS["metrics"] | {"mine": {"path": "own_metrics:broken"}}
    match = "metric 'mine' is nan for source 'Tickets for trains' and candidate"
    with pytest.raises(UserError, match=match):
        go(sgd_tree, tmp_path / "out", metrics=metrics)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("module", ["variants", "records"])
def test_a_full_disk(sgd_tree, fake, tmp_path, monkeypatch, module):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "out"
    go(sgd_tree, out)
    before = files_of(out)
    if module == "variants":
        monkeypatch.setattr(variants, "to_json", full)
    else:
        monkeypatch.setattr(records, "write_text", full)
    with pytest.raises((UserError, OSError), match="No space left on device"):
        go(sgd_tree, out, seed=1)
    monkeypatch.undo()
    assert {p for p in files_of(out)} == set(before)
    for path in before:
        if path.name == "schema.json":
            read_schema(path)


def test_weights_are_part_of_the_key_of_metrics(tmp_path, monkeypatch):
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


def test_another_code_of_a_metric_is_another_run(sgd_tree, fake, tmp_path, monkeypatch):
    go(sgd_tree, tmp_path / "out")
    monkeypatch.setattr(extensions, "code_of", lambda source: "other")
    assert "(3 shards computed, 3 read)" in go(sgd_tree, tmp_path / "out")


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


def test_sensitive_words_and_protected_values(sgd_tree, fake, tmp_path, edit_json):
    def rename(services):
        services[0]["slots"][0]["description"] = "Where 2 trains go"

    edit_json(sgd_tree / "train/schema.json", rename)
    fake.endings = ["now", "or then"]
    go(sgd_tree, tmp_path / "out", sensitive=("then",))
    reasons = {tuple(r["dropped"]) for r in lines(tmp_path / "out")}
    assert reasons == {(), ("sensitive_word",)}
    fake.endings = ["and 3"]
    go(sgd_tree, tmp_path / "out2")
    assert {tuple(r["dropped"]) for r in lines(tmp_path / "out2")} == {
        ("added_number",)
    }


def test_order_takes_the_most_common(sgd_tree, fake, tmp_path):
    fields = {"select": "order", "tree": {}, "metrics": {}, "variants": 2}
    go(sgd_tree, tmp_path / "out", **fields)
    found = [texts_of(tmp_path / "out", v)["train/0/service"] for v in ("v1", "v2")]
    assert found == ["Tickets for trains now", "Tickets for trains or then"]


def test_seldom_candidates(sgd_tree, fake, tmp_path, capsys):
    out = tmp_path / "out"
    go(sgd_tree, out, min_count=2, variants=1)
    assert texts_of(out, "v1")["train/0/slot/2"] == "Cost of the ticket now"
    dropped = {r["candidate"]: r["dropped"] for r in lines(out)}
    assert dropped["Cost of the ticket or then"] == ["seldom"]
    said = explaining.explain(out, "train/0/slot/2")
    assert said.count("dropped (seldom): Cost of the ticket or then x1") == 1
    assert "] Cost of the ticket now x2" in said
    assert "\nCost of the ticket now: by fake" in said


def test_names(sgd_tree, fake, tmp_path):
    fake.endings = ["now"]
    go(sgd_tree, tmp_path / "out", names=True, variants=1)
    schema = read_schema(tmp_path / "out/v1/train/schema.json")
    (service,) = schema.services
    assert service.name == "TrainsNow_11"
    assert [s.name for s in service.slots] == ["city_now", "class_now", "price_now"]
    assert service.intents[0].required_slots == ("city_now",)


def test_equal_new_names_are_not_used(sgd_tree, fake, tmp_path, monkeypatch):
    """The first of the equal new names is used; other slots keep their names."""
    monkeypatch.setattr(fake, "run", lambda given: [["thing"] for _ in given])
    tree = FIELDS["tree"] | {"constraints": ()}
    said = go(sgd_tree, tmp_path / "out", names=True, variants=1, tree=tree)
    schema = read_schema(tmp_path / "out/v1/train/schema.json")
    (service,) = schema.services
    assert [s.name for s in service.slots] == ["thing", "class", "price"]
    assert [i.name for i in service.intents] == ["Thing", "BuyTicket"]
    assert "3 of 12 variant texts are the original" in said


def test_given_variants(sgd_tree, fake, tmp_path):
    out = tmp_path / "out"
    fields = {
        "scheme": "given",
        "options": {"folder": "sgdx"},
        "select": "order",
        "tree": {},
        "splits": ("train", "dev"),
        "variants": 5,
    }
    go(sgd_tree, out, **fields)
    for number in range(1, 6):
        found = texts_of(out, f"v{number}", "dev")
        assert found["dev/1/slot/0"] == f"Name of the park (wording {number})"
    assert [r["settings"] for r in lines(out)[:2]] == [["v1"], ["v2"]]


def test_given_variants_of_another_schema(sgd_tree, fake, tmp_path, edit_json):
    path = sgd_tree / "sgd_x/data/v2/train/schema.json"
    edit_json(path, lambda services: services[0]["slots"].pop(1))
    fields = {
        "scheme": "given",
        "options": {"folder": str(sgd_tree / "sgd_x/data")},
        "select": "order",
        "tree": {},
    }
    with pytest.raises(UserError, match="Trains_1"):
        go(sgd_tree, tmp_path / "out", **fields)


def test_the_report_is_compared_with_others(sgd_tree, fake, tmp_path):
    out = tmp_path / "out"
    eda = {"scheme": "sentence", "options": {"method": "eda", "num": 9}}
    fields = {
        "variants": 2,
        "name": "fake scheme",
        "report": {"string_similarity": {}, "bleu": {}, "self_bleu": {}},
        "beside": {"EDA": eda, "SGD-X": "sgdx", "gone": str(tmp_path / "no")},
    }
    said = go(sgd_tree, out, **fields)
    table = (out / "report.csv").read_text()
    assert [x.split(",")[:2] for x in table.splitlines()[1:]] == [
        ["fake scheme", "v1"], ["fake scheme", "v2"], ["fake scheme", "mean"],
        ["EDA", "v1"], ["EDA", "v2"], ["EDA", "mean"],
        *(["SGD-X", f"v{n}"] for n in range(1, 6)), ["SGD-X", "mean"],
    ]  # fmt: skip
    assert f"gone: {tmp_path / 'no'} has no variants" in said
    page = (out / "report.html").read_text()
    assert "variant texts are the original" in page
    assert (out / "report.png").stat().st_size > 1000
    assert go(sgd_tree, out, **fields) == f"{out} is complete: nothing to do"


def test_explain(sgd_tree, fake, tmp_path, capsys):
    out = tmp_path / "out"
    go(sgd_tree, out)
    image = tmp_path / "tree.svg"
    arguments = ["explain", "train/0/slot/2", "--out", str(out), "--image", str(image)]
    assert cli.main(["augment", *arguments]) == 0
    said = capsys.readouterr().out
    assert said.startswith("train/0/slot/2: Cost of the ticket\n")
    assert "Cost of the ticket now x2" in said
    assert "dropped (copy): Cost of the ticket x1" in said
    assert "<svg" in image.read_text()
    # explain selects the same texts as the run.
    taken = {r["candidate"] for r in lines(out) if r["variant"]}
    assert all(f"] {t} x" in said for t in taken if t.startswith("Cost"))


def test_explain_errors(sgd_tree, fake, tmp_path, capsys):
    out = tmp_path / "out"
    go(sgd_tree, out)

    def said(*arguments):
        assert cli.main(["augment", "explain", *arguments]) == 1
        return capsys.readouterr().err

    assert "'train/0/slot/9' is not an id" in said("train/0/slot/9", "--out", str(out))
    assert "augment.json" in said("train/0/slot/1", "--out", str(tmp_path))
    path = out / "candidates.jsonl"
    sound = path.read_text()
    for broken in ("{", "[" * 10**5, sound.split("\n")[0].replace('"count"', '"c"')):
        path.write_text(f"{broken}\n{sound}")
        message = said("train/0/slot/1", "--out", str(out))
        assert f"{path}: line 1: is damaged: " in message
    fields = {"select": "order", "tree": {}}
    go(sgd_tree, tmp_path / "order", **fields)
    assert "has no trees" in said("train/0/slot/1", "--out", str(tmp_path / "order"))


def test_the_verb(sgd_tree, fake, tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(
        "import ml_collections\n"
        f"def get_config(k='3'):\n"
        f"    fields = {FIELDS!r} | {{'variants': int(k)}}\n"
        "    return ml_collections.ConfigDict(fields)\n"
    )
    out = tmp_path / "out"
    arguments = ["--config", f"{path}:2", "--data_dir", str(sgd_tree)]
    assert cli.main(["augment", *arguments, "--out", str(out)]) == 0
    assert f"wrote {out}/v1..v2 in " in capsys.readouterr().out
    assert sorted(p.name for p in out.iterdir()) == [
        "augment.json", "candidates.jsonl", "v1", "v2",
    ]  # fmt: skip
    assert cli.main(["augment", *arguments]) == 1
    assert "--out is missing: `jaxaug augment --data_dir" in capsys.readouterr().err
    other = tmp_path / "other"
    arguments += ["--out", str(other), "--splits"]
    assert cli.main(["augment", *arguments, "test, train"]) == 0
    assert folders.variant_splits(other, "v2") == ("train", "test")
    # A service of two splits has the same wordings in both.
    texts = [
        read_schema(other / f"v2/{split}/schema.json").service("Trains_12")
        for split in ("train", "test")
    ]
    assert texts[0] == texts[1]
    capsys.readouterr()
    for names, problem in (
        ("train,tset", "splits: did you mean 'test'?"),
        ("train,train", "splits=('train', 'train'): name one or more, each once."),
    ):
        assert cli.main(["augment", *arguments, names]) == 1
        expected = f"jaxaug: error: --splits {names}: {problem}\n"
        assert capsys.readouterr().err == expected
    arguments = [*arguments[:-2], str(tmp_path / "more"), "--variants"]
    assert cli.main(["augment", *arguments, "7"]) == 0
    assert folders.variant_names(tmp_path / "more")[-1] == "v7"
    capsys.readouterr()
    assert cli.main(["augment", *arguments, "0"]) == 1
    assert "--variants 0: variants=0: " in capsys.readouterr().err


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
