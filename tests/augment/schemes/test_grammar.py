"""`jaxaug augment` with the rewording grammar."""

import json

import pytest

from jaxaug import cli
from jaxaug.augment.language import nlp
from jaxaug.augment.schemes import registry
from jaxaug.core.errors import UserError

SERVICE = {
    "service_name": "Library_1",
    "description": "Search the catalog of a library and reserve books",
    "slots": [
        {"name": name, "description": text, "is_categorical": bool(values),
         "possible_values": values}
        for name, text, values in (
            ("title", "title of the book", []),
            ("branch", "library branch where the book is kept", []),
            ("overdue", "whether the loan is overdue", ["True", "False"]),
        )
    ],
    "intents": [
        {"name": "Reserve", "description": "reserve a book at a branch",
         "is_transactional": True, "required_slots": ["title"], "optional_slots": {},
         "result_slots": ["overdue"]},
    ],
}  # fmt: skip


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "data/train").mkdir(parents=True)
    (tmp_path / "data/train/schema.json").write_text(json.dumps([SERVICE]))
    folder = tmp_path / "out"
    arguments = ["--data_dir", f"{tmp_path}/data", "--out", f"{folder}"]
    command = ["augment", "--config", "configs/augment/grammar.py", *arguments]
    assert cli.main(command) == 0
    return folder


def test_every_text_gets_variants_and_explain_tells_how(out, capsys) -> None:
    variants = [
        json.loads((out / f"v{n}/train/schema.json").read_text())[0]
        for n in range(1, 6)
    ]
    for place in range(3):
        texts = [one["slots"][place]["description"] for one in variants]
        original = SERVICE["slots"][place]["description"]
        assert len({*texts} - {original}) >= 3, texts
    assert len({one["intents"][0]["description"] for one in variants}) == 5
    capsys.readouterr()
    assert cli.main(["augment", "explain", "train/0/slot/0", "--out", f"{out}"]) == 0
    told = capsys.readouterr().out
    farthest = variants[4]["slots"][0]["description"]
    assert f"{farthest}: from 'title of the book'\n  by " in told


def test_the_key_holds_tables_and_code_and_no_seed() -> None:
    (one,) = registry.made("grammar", 0, {"num": 5})
    (other,) = registry.made("grammar", 1, {"num": 5})
    assert one.key == other.key
    assert len(one.key["tables"]) == 8
    assert one.key["tagger"] == nlp.installed()
    assert one.run([["date of the visit", []]]) == other.run(
        [["date of the visit", []]]
    )


def test_num_is_checked() -> None:
    with pytest.raises(UserError, match="num=0: give at least 1"):
        registry.made("grammar", 0, {"num": 0})


def test_a_pool_has_the_jobs_of_its_schemes():
    schemes = {"grammar": {"num": 3}, "sentence": {"method": "eda", "num": 2}}
    jobs = registry.made("pool", 0, {"schemes": schemes})
    assert [(job.label, job.most) for job in jobs] == [("grammar", 3), ("eda", 2)]
    with pytest.raises(UserError, match="'x' is not a scheme"):
        registry.made("pool", 0, {"schemes": {"x": {}}})
