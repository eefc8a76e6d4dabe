"""Whole runs of `jaxaug augment` with a scheme and metrics that need no model."""

import itertools

import pytest

from jaxaug import cli
from jaxaug.augment import descriptions, explaining
from jaxaug.augment.output import records
from jaxaug.core.errors import UserError
from jaxaug.data import folders
from jaxaug.data.schema import read_schema
from tests.augment.runs_kit import FIELDS, go, lines, texts_of


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
        "scheme": "given", "options": {"folder": "sgdx"}, "select": "order", "tree": {},
        "splits": ("train", "dev"), "variants": 5,
    }  # fmt: skip
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
    assert f"gone: {tmp_path.name}/no has no variants" in said
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
    assert "--variants is 0: give" in capsys.readouterr().err


def test_the_default_config_needs_minilm(sgd_tree, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "empty"))
    arguments = ["--data_dir", str(sgd_tree), "--out", str(tmp_path / "out")]
    assert cli.main(["augment", *arguments]) == 1
    error = capsys.readouterr().err
    assert "rank without a model: --config configs/augment/grammar.py." in error
    assert not (tmp_path / "out").exists()
