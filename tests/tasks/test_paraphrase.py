"""The paraphrasing tasks: pairs by position, exact tokens, and rejected data."""

import json

import pytest
from etils import epath

import tasks.vocabulary
from jaxaug.core.errors import UserError
from jaxaug.data import pairs
from jaxaug.feed import sets
from jaxaug_papers import minisgd
from tasks import paraphrase

LENGTHS = {"inputs": 32, "targets": 32}


@pytest.fixture(scope="module")
def registered(tmp_path_factory):
    """Registers the tasks of a small MiniSGD."""
    root = tmp_path_factory.mktemp("paraphrase")
    minisgd.write(root / "data", train_dialogues=5, dev_dialogues=2, test_dialogues=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_DATA_DIR", str(root / "data"))
        patch.setenv("JAXAUG_CACHE_DIR", str(root / "cache"))
        for name in (
            "JAXAUG_VOCABULARY",
            "JAXAUG_VARIANTS_DIR",
            "JAXAUG_PARAPHRASES",
        ):
            patch.delenv(name, raising=False)
        patch.setattr(sets, "_SETS", {})
        patch.setattr(tasks.vocabulary, "_DEFAULT", tasks.vocabulary.FoundVocabulary())
        paraphrase.register()
        yield root / "data"


def test_names_and_splits(registered):
    splits = {name: task.splits for name, task in sets._SETS.items()}
    assert splits == {
        "paraphrase_sgdx": ("train", "validation", "test"),
        "paraphrase_aug": ("train",),
        "paraphrase_eda": ("train",),
        "paraphrase_tree": ("train",),
        "paraphrase_rewordings": ("train", "validation", "test"),
        "paraphrase_rewordings_both": ("train", "validation", "test"),
        "paraphrase_quora": ("train", "validation", "test"),
        "paraphrase_quora_both": ("train", "validation", "test"),
        "paraphrase_twitter": ("train", "validation", "test"),
        "paraphrase_twitter_both": ("train", "validation", "test"),
    }


def test_examples_are_the_pairs_in_tokens(registered):
    task = sets.find("paraphrase_aug")
    found = task.examples("train")
    examples = [found.get(index, LENGTHS) for index in range(len(found))]
    expected = paraphrase.pairs(registered, registered / "variants/aug", "train")
    words = tasks.vocabulary.default_vocabulary()
    assert len(examples) == len(expected) > 300
    assert ("rent a car", "hire a vehicle") in expected
    for example, pair in zip(examples, expected, strict=True):
        for name, text in zip(("inputs", "targets"), pair, strict=True):
            tokens = example[name].tolist()
            assert tokens[-1] == 1 and words.unk_id not in tokens
            assert words.decode(tokens) == text


def test_pairs_by_hand(sgd_tree, edit_json):
    """A wording that equals the original up to case and spaces is left out."""
    folder = sgd_tree / "sgd_x/data"

    def reword(schema):
        schema[0]["slots"][0]["description"] = "Where  the TRAIN goes"
        schema[0]["slots"][2]["description"] = "Fare"
        schema[0]["intents"][1]["description"] = "Buy a ticket"

    edit_json(folder / "v1/train/schema.json", reword)
    for version in range(3, 6):
        (folder / f"v{version}/train/schema.json").unlink()
    assert paraphrase.pairs(sgd_tree, folder, "train") == [
        ("comfort on board", "comfort on board (wording 1)"),
        ("cost of the ticket", "fare"),
        ("pay for a seat", "buy a ticket"),
        ("where the train goes", "where the train goes (wording 2)"),
        ("comfort on board", "comfort on board (wording 2)"),
        ("cost of the ticket", "cost of the ticket (wording 2)"),
    ]


def test_variants_of_another_shape_are_refused(sgd_tree, edit_json):
    path = sgd_tree / "sgd_x/data/v2/train/schema.json"
    edit_json(path, lambda schema: schema[0]["slots"].pop(0))
    edit_json(
        path, lambda schema: [i["required_slots"].clear() for i in schema[0]["intents"]]
    )
    edit_json(
        path, lambda schema: [i["result_slots"].clear() for i in schema[0]["intents"]]
    )
    with pytest.raises(
        UserError, match=f"{path}: services, slots or intents differ in number"
    ):
        paraphrase.pairs(sgd_tree, sgd_tree / "sgd_x/data", "train")


def test_variants_that_say_the_same_are_refused(sgd_tree):
    folder = sgd_tree / "sgd_x/data"
    original = json.loads((sgd_tree / "train/schema.json").read_text())
    for version in range(1, 6):
        (folder / f"v{version}/train/schema.json").write_text(json.dumps(original))
    with pytest.raises(UserError, match="no description of split 'train' otherwise"):
        paraphrase.pairs(sgd_tree, folder, "train")


@pytest.fixture
def own_pairs(tmp_path, monkeypatch):
    """Sixty inputs of two paraphrases each, named by the variable."""
    path = tmp_path / "mine.tsv"
    lines = [f"Input {n}\tparaphrase {k} of {n}" for n in range(60) for k in (1, 2)]
    path.write_text("\n".join([*lines, lines[0], "same\tSame"]) + "\n")
    monkeypatch.setenv("JAXAUG_PARAPHRASES", str(path))
    monkeypatch.setattr(sets, "_SETS", {})
    return path


def test_own_pairs_are_split_by_input(own_pairs, registered):
    paraphrase.register(registered)
    splits = {}
    for split in ("train", "validation"):
        rows = sets.find("paraphrase_mine").fields(split)
        splits[split] = [(r["inputs"], r["targets"]) for r in rows]
    every = splits["train"] + splits["validation"]
    assert sorted(every) == sorted(
        (f"input {n}", f"paraphrase {k} of {n}") for n in range(60) for k in (1, 2)
    )
    inputs = {split: {text for text, _ in rows} for split, rows in splits.items()}
    assert not inputs["train"] & inputs["validation"]
    assert 0 < len(inputs["validation"]) < 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nonly one\n", r"line 2 has 1 columns, of which 0 are empty"),
        ("a\t \n", r"line 1 has 2 columns, of which 1 are empty"),
        ("a\tb\tc\n", "line 1 has 3 columns"),
    ],
)
def test_own_pairs_of_another_form_are_refused(own_pairs, text, message):
    own_pairs.write_text(text)
    with pytest.raises(UserError, match=message):
        pairs.of_table(own_pairs, "Correct it.")


def test_both_ways_round(own_pairs, registered):
    paraphrase.register(registered)
    names = "paraphrase_mine", "paraphrase_mine_both"
    for split, times in (("train", 2), ("validation", 1)):
        found = [
            sorted((r["inputs"], r["targets"]) for r in sets.find(name).fields(split))
            for name in names
        ]
        expected = sorted(
            [*found[0], *((b, a) for a, b in found[0])][: times * len(found[0])]
        )
        assert found[1] == expected


def test_bleu_by_hand():
    # 5 of 6 words, 3 of 4 pairs, and no penalty: sqrt(5/6 * 3/4).
    found = paraphrase.bleu(["A b c d", "e f"], ["a b c d", "x f"])["bleu"]
    assert found == pytest.approx(100 * (5 / 6 * 3 / 4) ** 0.5)


def test_too_few_own_pairs_are_refused(own_pairs, registered):
    own_pairs.write_text("a\tb\n")
    paraphrase.register(registered)
    with pytest.raises(UserError, match="no pair for the validation split"):
        sets.find("paraphrase_mine").token_ids("validation")


def test_files_in_a_bucket_are_not_cut_at_their_colon(monkeypatch):
    monkeypatch.setenv("JAXAUG_PARAPHRASES", "gs://bucket/a.tsv:/local/b.tsv:")
    monkeypatch.setattr(type(epath.Path("gs://b")), "is_file", lambda path: True)
    found = [source.name for source in pairs.named().values()]
    assert found[-2:] == ["gs://bucket/a.tsv", "/local/b.tsv"]


def test_a_file_that_is_missing_or_badly_named_is_refused(
    own_pairs, registered, monkeypatch
):
    monkeypatch.setenv("JAXAUG_PARAPHRASES", f"{own_pairs}.gone")
    with pytest.raises(UserError, match=r"JAXAUG_PARAPHRASES\): no such file"):
        paraphrase.register(registered)
    own_pairs.rename(own_pairs.with_name("my-own.tsv"))
    monkeypatch.setenv("JAXAUG_PARAPHRASES", str(own_pairs.with_name("my-own.tsv")))
    monkeypatch.setattr(sets, "_SETS", {})
    with pytest.raises(UserError, match="'my-own' becomes part of a task name"):
        paraphrase.register(registered)
