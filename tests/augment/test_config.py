from pathlib import Path

import pytest

from jaxaug.augment import config as configs
from jaxaug.augment.judge import filters
from jaxaug.augment.schemes import registry
from jaxaug.core.errors import UserError
from jaxaug.paraphrase import generation

FOLDER = Path(__file__).parents[2] / "configs/augment"
TEXTS = {"kst": "some/folder"}


def test_the_files():
    assert sorted(p.stem for p in FOLDER.glob("*.py")) == [
        "backtranslate", "eda", "kst", "oracle", "pegasus_tree", "qcpg",
        "smollm2_tree",
    ]  # fmt: skip


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_every_config_makes_its_jobs(path, monkeypatch):
    # Which version of a model is on this machine does not matter here.
    monkeypatch.setattr(generation, "_label", lambda name: name)
    config = configs.load(f"{path}:{TEXTS[path.stem]}" if path.stem in TEXTS else path)
    jobs = registry.jobs(config)
    assert bool(jobs) == (not config.is_given)
    assert {*config.filters, *config.slot_filters} <= set(filters.FILTERS)
    assert configs.of(config.key(), "again").key() == config.key()


def test_the_papers_trees():
    bart = configs.load(FOLDER / "pegasus_tree.py")
    assert bart.spec.constraints == ("jaccard <= 0.75",)
    outputs = sum(setting.num for setting in generation.grid(bart.options["grid"]))
    assert outputs == 500
    assert {*bart.filters, *bart.slot_filters} == set(filters.FILTERS)
    b = configs.load(f"{FOLDER}/pegasus_tree.py:b")
    assert b.spec.constraints == ("jaccard <= 0.5", "entailment >= 0.58")
    assert (b.spec.levels, b.spec.decisions) == (
        ("jaccard", "string_similarity"),
        ("max", "min"),
    )


def test_text_behind_the_colon():
    config = configs.load(f"{FOLDER}/smollm2_tree.py:7")
    assert {s.num for s in generation.grid(config.options["grid"])} == {7}
    config = configs.load(f"{FOLDER}/backtranslate.py:5")
    assert config.variants == 5 and config.options["pivots"] == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.py", "nothing.py: no such file. Name a Python file"),
        ("smollm2_tree", "no such file"),
        ("oracle.py:x", "takes no text behind a colon. Takes no text"),
        ("pegasus_tree.py:c", "'c' does not fit .* text behind the colon is bart or b"),
        ("smollm2_tree.py:ten", "'ten' does not fit .* number of outputs"),
        ("kst.py", "needs a text. Write the folder of the variants behind a colon"),
    ],
)
def test_wrong_files(name, message):
    with pytest.raises(UserError, match=message):
        configs.load(f"{FOLDER}/{name}")


def test_files_that_are_no_config(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("a = 1\n")
    with pytest.raises(UserError, match=r"has no function get_config\(\)"):
        configs.load(str(path))
    path.write_text("def get_config(:\n")
    with pytest.raises(UserError, match="cannot be read: invalid syntax"):
        configs.load(str(path))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the field 'scheme' is missing"),
        ({"scheme": "x", "metric": {}}, "no field 'metric'; did you mean 'metrics'"),
        ({"scheme": "x", "select": "trees"}, "select='trees': did you mean 'tree'"),
        ({"scheme": "x", "variants": 0}, "variants=0: give at least 1"),
        ({"scheme": "x", "splits": ("trian",)}, "splits: did you mean 'train'"),
        ({"scheme": "x", "splits": "train"}, "splits is a text; write a tuple"),
        ({"scheme": "x", "splits": ()}, "name one or more, each once"),
        ({"scheme": "x", "tree": {"levels": ("a",)}}, "set select='tree'"),
        (
            {"scheme": "x", "select": "tree", "metrics": {"jaccard": {}}},
            "the tree needs metric 'entailment'",
        ),
        (
            {"scheme": "x", "select": "tree", "tree": {"level": ("a",)}},
            "tree: no field 'level'; did you mean 'levels'",
        ),
    ],
)
def test_wrong_fields(fields, message):
    with pytest.raises(UserError, match=message):
        configs.of(fields, "here.py")


def test_schemes_and_options_that_are_not_there():
    def jobs(scheme, **options):
        registry.jobs(configs.of({"scheme": scheme, "options": options}, "here.py"))

    with pytest.raises(UserError, match="'sentences' is no scheme; did you mean"):
        jobs("sentences")
    with pytest.raises(UserError, match="'ede' is no method on sentences; did you"):
        jobs("sentence", method="ede", num=1)
    with pytest.raises(UserError, match="scheme 'sentence' cannot be made with .*num"):
        jobs("sentence", method="eda")
    with pytest.raises(UserError, match="scheme 'qcpg' cannot be made with .*width"):
        jobs("qcpg", width=1)


def test_sentence_outputs_depend_on_text_and_seed_alone():
    def outputs(seed, texts):
        options = {"method": "eda", "num": 6}
        fields = {"scheme": "sentence", "options": options, "seed": seed}
        (job,) = registry.jobs(configs.of(fields, "here.py"))
        return dict(zip(texts, job.run(texts), strict=True))

    texts = ["city where the event takes place", "date of the trip"]
    first = outputs(0, texts)
    assert outputs(0, texts[::-1]) == first and outputs(1, texts) != first
    assert len(set(first[texts[0]])) > 2
