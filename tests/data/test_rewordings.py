"""The shipped corpus, its splits, its export, and the check of evaluation texts."""

import json

import pytest

from benchmarks import rewordings as building
from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.data import minisgd, pairs, rewordings


def test_the_corpus_is_well_formed_and_apart_from_evaluation_sets():
    """Every record has its form, and no text of MiniSGD's dev and test occurs."""
    records = rewordings.records()
    assert not [(one.text, x) for one in records for x in building.faults(one)]
    seen = building.Seen(building.evaluation_texts(None, []))
    assert not [one.text for one in records if one.text in seen]
    assert len({(one.service, one.kind, one.text) for one in records}) == len(records)
    shares = [len(rewordings.split(name)) / len(records) for name in rewordings.SPLITS]
    assert sum(shares) == 1
    assert 0.7 < shares[0] < 0.9 and all(0.05 < share < 0.15 for share in shares[1:])
    # All services of a domain are in one split.
    domains = {(one.service.rsplit("_", 1)[0], one.split) for one in records}
    assert len(domains) == len({domain for domain, _ in domains})


def test_equal_and_similar_texts_are_found():
    schema = json.loads(minisgd.unpacked("world")["test/schema.json"])
    text = schema[0]["slots"][0]["description"]
    seen = building.Seen([text, "the date on which the guest leaves the hotel"])
    assert text.upper() + "!" in seen
    assert "the date on which guests leave" not in seen
    # Eight of nine different words are shared.
    assert "the date on which the guest leaves the big hotel" in seen
    assert "date" not in building.Seen(["date"])


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_export_is_what_load_dataset_reads(tmp_path, capsys, form):
    out = tmp_path / "a folder"
    command = ["data", "export", "rewordings", "--format", form, "--out", str(out)]
    assert cli.main(command) == 0
    assert f"{len(rewordings.split('test')):,} test" in capsys.readouterr().out
    first = rewordings.split("validation")[0]
    path = out / f"validation.{form}"
    if form == "jsonl":
        row = json.loads(path.read_text().splitlines()[0])
    else:
        row = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()[0]
    assert (row["text"], row["good"]) == (first.text, list(first.good))
    assert f"path: test.{form}" in (out / "README.md").read_text()


def test_pairs_keep_the_splits_of_services():
    source = pairs.named()["rewordings"]
    train, test = source.of_split("train"), source.of_split("test")
    one = rewordings.split("test")[0]
    assert (one.text.lower(), one.good[0].lower()) in test
    assert not {*train} & {*test}
    assert len(source.of_split("train", both=True)) > 1.9 * len(train)


def test_a_wrong_line_is_named(tmp_path):
    path = tmp_path / "piece.jsonl"
    path.write_text('{"service": 1}\n')
    with pytest.raises(UserError, match=r"piece\.jsonl: line 1: .*service.*keys"):
        rewordings.read(path)
