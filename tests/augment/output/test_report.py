"""The three files of a report: EDA-like, ours, and SGD-X side by side."""

import csv
import re

import pytest

from jaxaug.augment.judge import measures
from jaxaug.augment.output import records, report
from jaxaug.core.errors import UserError
from jaxaug.data import folders
from jaxaug.data.schema import read_schema

METRICS = {name: measures.find(name) for name in ("jaccard", "bleu", "self_bleu")}


@pytest.fixture
def schemes(sgd_tree):
    schema = read_schema(sgd_tree / "test" / "schema.json")
    folder = sgd_tree / "variants" / "ours"
    given = [{"test/1/slot/2": "<Price> of a ticket"}, {"test/1/slot/2": "Ticket fare"}]
    records.write_variants(folder, sgd_tree, "test", schema, given)
    return {"ours": folder, "SGD-X": folders.sgdx_folder(sgd_tree)}


def test_files(sgd_tree, schemes, tmp_path):
    out = tmp_path / "new" / "out"
    printed = report.write(
        out, schemes, sgd_tree, ["test"], METRICS, samples=30, notes=["2 < 3 kept"]
    )
    assert sorted(p.name for p in out.iterdir()) == sorted(report.files())
    first, heading = printed.splitlines()[:2]
    assert first == "2 < 3 kept"
    assert re.split("  +", heading)[4:] == [
        *("Jaccard T1", "BLEU T1", "self-BLEU T1"),
        *("Jaccard", "BLEU", "self-BLEU"),
    ]
    rows = list(csv.DictReader((out / "report.csv").open()))
    assert [(row["scheme"], row["variant"]) for row in rows] == [
        *(("ours", v) for v in ("v1", "v2", "mean")),
        *(("SGD-X", v) for v in ("v1", "v2", "v3", "v4", "v5", "mean")),
    ]
    # One of ten texts is another one: {price, ticket} for {cost, ticket}.
    assert float(rows[0]["jaccard"]) == pytest.approx(2 / 3 / 10)
    assert rows[0]["unchanged"] == "9"
    page = (out / "report.html").read_text()
    assert "<p>2 &lt; 3 kept</p>" in page
    assert "<td>&lt;Price&gt; of a ticket</td>" in page
    assert "<td>Cost of the ticket (wording 5)</td>" in page
    assert "<td><span>Where the train goes</span></td>" in page
    assert "<h2>10 samples</h2>" in page and page.count("<h3>") == 10
    assert '<td class="number">6.7</td>' in page
    assert len(re.findall("<table>", page)) == len(re.findall("</table>", page)) == 11
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")


def test_samples_are_drawn_by_the_seed(sgd_tree, schemes, tmp_path):
    pages = []
    for seed in (0, 0, 1):
        report.write(
            tmp_path, schemes, sgd_tree, ["test"], {"bleu": measures.bleu}, 3, seed
        )
        pages.append((tmp_path / "report.html").read_text())
    assert pages[0] == pages[1] != pages[2]
    assert "<h2>3 samples</h2>" in pages[0] and pages[0].count("<h3>") == 3


def test_the_page_fits_a_laptop(sgd_tree, schemes, tmp_path, page):
    report.write(tmp_path, schemes, sgd_tree, ["test"], METRICS)
    page.set_viewport_size({"width": 1300, "height": 900})
    page.goto((tmp_path / "report.html").as_uri())
    assert page.evaluate("document.images[0].naturalHeight") > 600  # two rows of panels
    assert page.evaluate("document.documentElement.scrollWidth") <= 1300


def test_errors_of_reports(sgd_tree, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(UserError, match="name at least one scheme and one metric"):
        report.write(out, {}, sgd_tree, ["test"], METRICS)
    with pytest.raises(UserError, match="holds no variants"):
        report.write(out, {"eda": out}, sgd_tree, ["test"], METRICS)
    assert not out.exists()


def test_without_matplotlib_there_is_no_picture(
    sgd_tree, schemes, tmp_path, monkeypatch
):
    monkeypatch.setattr(report, "can_draw", lambda: False)
    report.write(tmp_path, schemes, sgd_tree, ["test"], METRICS)
    assert not (tmp_path / "report.png").exists()
    assert "<img" not in (tmp_path / "report.html").read_text()
