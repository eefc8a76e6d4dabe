"""`jaxaug augment --dry_run`."""

import re

import pytest

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, preview
from jaxaug.augment import plan as plans
from jaxaug.core.errors import UserError
from tests.support.appended_words import decide

GRID = {"model": "pegasus-paraphrase", "sampler": "beam", "num": 3}
FIELDS = {
    "name": "mine",
    "scheme": "paraphrase",
    "options": {"grid": [GRID | {"options": {"temperature": [0.5, 2.0]}}]},
    "variants": 2,
    "filters": ("advice",),
    "metrics": {"entailment": {}, "string_similarity": {}},
    "select": "tree",
    "tree": {"levels": ("string_similarity", "entailment"), "decisions": ("min", "max"),
     "constraints": ("entailment >= 0.5",), "diversity": "string_similarity"},
    "report": {"bleu": {}},
    "beside": {"EDA": {"scheme": "sentence", "options": {"method": "eda", "num": 9}},
     "other": {"scheme": "contextual", "options": {"num": 2}}, "SGD-X": "sgdx",
     "gone": "no/folder"},
}  # fmt: skip


def dry(data_dir, out, **fields):
    plan = plans.resolve(configs.of(FIELDS | fields, "test"), data_dir, out)
    return preview.preview(plan)


@pytest.fixture(autouse=True)
def nothing_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))


def test_the_printed_plan(sgd_tree, tmp_path):
    decide(tmp_path / "out", {"decision": "typed", "variant": 1, "text": "Fare"})
    said = dry(sgd_tree, tmp_path / "out", splits=("train", "dev")).splitlines()
    assert re.fullmatch(r"spaCy: \S+ \S+", said.pop(8))
    assert said == [
        "mine: a dry run; nothing was computed or written",
        "texts: 16 (10 distinct) of train 6, dev 10; 3 service, 8 slot, 5 intent",
        "scheme paraphrase: 6 outputs of each text at most, from 2 settings",
        "     3  pegasus-paraphrase beam temperature=0.5 num=3",
        "     3  pegasus-paraphrase beam temperature=2.0 num=3",
        "filters: advice",
        "filters of slots alone: none",
        "checks: copy, lost_value, added_number, changed_negation",
        "metrics: entailment (bart-large-mnli), string_similarity",
        "metrics of the report: bleu",
        (
            "variants: v1..v2 by a tree over min string_similarity, max entailment; "
            "entailment >= 0.5"
        ),
        "reads EDA: a separate run, 9 outputs of each text at most, from 1 settings",
        "reads other: a separate run, 2 outputs of each text at most, from 1 settings",
        f"reads SGD-X: {sgd_tree}/sgd_x/data",
        "reads gone: no/folder (not there)",
        "models:",
        "  pegasus-paraphrase  not here: `jaxaug models fetch pegasus-paraphrase`",
        "  smollm2             not here: 93 MB to fetch",
        "  bart-large-mnli     not here: `jaxaug models fetch bart-large-mnli`",
        "decisions.jsonl: 0 accepted, 0 rejected, 1 typed",
        f"would write to {tmp_path}/out, a folder that is there:",
        *(f"  {v}/{s}/schema.json" for v in ("v1", "v2") for s in ("train", "dev")),
        "  candidates.jsonl",
        "  report.html",
        "  report.csv",
        "  report.png",
        "  augment.json",
    ]
    found = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert found == [decisions.FILE]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scheme": "paraphrases"}, "is not a scheme; did you mean 'paraphrase'"),
        (
            {"options": {"grid": [GRID | {"model": "pegasus"}]}},
            (
                "model 'pegasus' is neither a name of a model nor a folder; did you "
                "mean 'pegasus-"
            ),
        ),
        ({"filters": ("advise",)}, "filters: did you mean 'advice'"),
        ({"report": {"blue": {}}}, "'blue' is not a metric; did you mean 'bleu'"),
        ({"report": {"bleu": {"n": 1}}}, "metric 'bleu' cannot be made with .'n': 1"),
        ({"report": {"x": {"path": "no.module:f"}}}, "metric 'no.module:f': No module"),
        ({"beside": {"EDA": {"scheme": "eda"}}}, "'eda' is not a scheme"),
        ({"scheme": "given", "options": {"folder": "no"}, "select": "order",
          "tree": {}}, "no schema variants in no: no/v1/train/schema.json is missing"),
    ],
)  # fmt: skip
def test_configs_that_do_not_resolve(sgd_tree, tmp_path, fields, message):
    with pytest.raises(UserError, match=message):
        dry(sgd_tree, tmp_path / "out", **fields)


def test_a_name_that_no_task_can_have(sgd_tree, tmp_path):
    with pytest.raises(UserError, match="my vars: its name becomes part of task names"):
        dry(sgd_tree, sgd_tree / "variants" / "my vars")
    dry(sgd_tree, tmp_path / "my vars")


def test_foreign_folders(sgd_tree, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds notes.txt, which no run"):
        dry(sgd_tree, tmp_path / "out")
