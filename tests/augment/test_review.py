"""The page of `jaxaug augment review`, in headless Chromium and without."""

import json
import re

import pytest

from jaxaug import cli
from jaxaug.augment import decisions, review
from jaxaug.core.errors import UserError
from tests.support.appended_words import COST, decide, go

SMILE = "What it costs </script> \U0001f600"


def opened(page, out):
    """Returns the rows of the three variants of the cost of a ticket, in a browser."""
    page.goto((out / "review.html").as_uri())
    article = page.get_by_role("heading", name=COST["source"], exact=True).locator("..")
    return article, article.locator("tr").all()


def test_decisions_of_a_browser_are_honoured(sgd_tree, out, page, tmp_path):
    trouble, asked = [], []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    decide(out, {"decision": "typed", "variant": 1, "text": SMILE})
    go(sgd_tree, out)
    said = review.review(out)
    assert f"wrote {out}/review.html: 6 texts; open it" in said
    article, rows = opened(page, out)
    count, status = page.locator("#count"), page.get_by_role("status")
    assert count.text_content() == "1 of 18 decided: 0 accepted, 0 rejected, 1 typed"
    shown = [row.locator(".text").text_content() for row in rows]
    assert shown == [SMILE, "Cost of the ticket so far", "Cost of the ticket now"]
    assert rows[1].locator("mark").all_text_contents() == ["so", "far"]
    # By keyboard: back to the first of the three, then to the next.
    rows[0].focus()
    for key in ("u", "r", "a"):
        page.keyboard.press(key)
    assert count.text_content() == "2 of 18 decided: 1 accepted, 1 rejected, 0 typed"
    page.locator("#filter").select_option("rejected")
    assert [row.is_visible() for row in rows] == [True, False, False]
    page.locator("#filter").select_option("all")
    # By mouse; Escape restores the earlier text.
    rows[2].get_by_role("button", name="Type").click()
    page.keyboard.press("Escape")
    assert rows[2].locator("input").count() == 0
    rows[2].get_by_role("button", name="Type").click()
    page.keyboard.type("  Fare  of it ")
    page.keyboard.press("Enter")
    # Unsaved decisions survive the page.
    article, rows = opened(page, out)
    assert rows[2].locator(".typed-text").text_content() == "Fare of it"
    with page.expect_download() as download:
        page.get_by_role("button", name="Save decisions.jsonl").click()
    saved = tmp_path / "downloaded.jsonl"
    download.value.save_as(saved)
    assert download.value.suggested_filename == decisions.FILE
    assert status.text_content() == (
        "Saved 3 decisions as decisions.jsonl in your downloads."
    )
    far, now = "Cost of the ticket so far", "Cost of the ticket now"
    assert [json.loads(line) for line in saved.read_text().splitlines()] == [
        COST | {"decision": "rejected", "variant": 1, "candidate": SMILE},
        COST | {"decision": "accepted", "variant": 2, "candidate": far},
        COST
        | {"decision": "typed", "variant": 3, "candidate": now, "text": "Fare of it"},
    ]
    # The next run follows them, and the next page says so.
    assert "1 accepted, 1 rejected, 1 typed; run" in review.review(out, saved)
    go(sgd_tree, out)
    assert review.review(out).endswith("1 accepted, 1 rejected, 1 typed; applied")
    article, rows = opened(page, out)
    shown = [row.locator(".text").text_content() for row in rows]
    assert shown == ["Cost of the ticket or then", far, "Fare of it"]
    assert "rejected before: What it costs" in article.locator(".before").text_content()
    article.get_by_role("button", name="Take back").click()
    assert count.text_content() == "2 of 18 decided: 1 accepted, 0 rejected, 1 typed"
    # They were withdrawn without saving, and the page was rebuilt since.
    decide(out, {"decision": "rejected", "candidate": "x"})
    review.review(out)
    article, rows = opened(page, out)
    assert "not saved are here again" in status.text_content()
    assert count.text_content().startswith("2 of 18 decided")
    assert trouble == []
    assert {url.partition(":")[0] for url in asked} == {"file"}


def test_all_are_accepted_the_riskiest_first(sgd_tree, out, page, tmp_path):
    decide(out, {"decision": "typed", "variant": 2, "text": "Fare"})
    go(sgd_tree, out)
    review.review(out)
    _, rows = opened(page, out)
    titles = page.locator("h2")
    schema = titles.all_text_contents()
    page.locator("#order").select_option("risk")
    order = titles.all_text_contents()
    assert sorted(order) == sorted(schema) != order
    likeness = {}
    for line in (out / "candidates.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["variant"]:
            values = likeness.setdefault(record["source"], [])
            values.append(record["metrics"]["string_similarity"])
    assert order == sorted(schema, key=lambda text: min(likeness[text]))
    page.keyboard.press("j")  # Keys follow the order that is shown.
    assert (
        page.locator("tr:focus").locator("../../..").locator("h2").text_content()
        == (order[0])
    )
    button, count = page.locator("#all"), page.locator("#count")
    rows[0].get_by_role("button", name="Reject").click()
    button.click()
    assert count.text_content() == "18 of 18 decided: 16 accepted, 1 rejected, 1 typed"
    assert button.text_content() == "Take back 16 accepted"
    button.click()
    assert count.text_content() == "2 of 18 decided: 0 accepted, 1 rejected, 1 typed"
    # Only what is shown: the filter leaves rows without a decision.
    page.locator("#filter").select_option("rejected")
    button.click()
    assert count.text_content().startswith("2 of 18 decided")
    page.locator("#filter").select_option("undecided")
    button.click()
    assert count.text_content().startswith("18 of 18 decided: 16 accepted")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save decisions.jsonl").click()
    download.value.save_as(tmp_path / "saved.jsonl")
    saved = [json.loads(s) for s in (tmp_path / "saved.jsonl").open(encoding="utf-8")]
    places = [(schema.index(one["source"]), one["variant"]) for one in saved]
    assert places == sorted(places) and len(places) == 18
    assert "16 accepted, 1 rejected, 1 typed; run" in review.review(
        out, tmp_path / "saved.jsonl"
    )


def test_measures_are_explained_in_words(sgd_tree, out, page):
    """The page explains its own metrics, and names the metrics of users."""
    mine = {"path": "jaxaug.augment.judge.measures:length"}
    go(sgd_tree, out, metrics={"string_similarity": {}, "mine": mine})
    review.review(out)
    _, rows = opened(page, out)
    page.get_by_text("What the numbers mean").click()
    letters = "letters that stay in their places: 1 is equal, 0 is all new"
    assert {*page.locator("details li").all_text_contents()} == {
        "mine: of the config",
        f"string_similarity: {letters}",
    }
    assert "string_similarity 0." in rows[0].locator("small").text_content()
    assert page.locator("#order option").all_text_contents() == [
        "as in the schema",
        "by risk: lowest string_similarity first",
    ]


def test_a_page_without_a_measure_of_meaning_has_no_order(sgd_tree, out, page):
    go(sgd_tree, out, metrics={}, select="order", tree={})
    review.review(out)
    opened(page, out)
    assert page.locator("#order, details").count() == 0
    page.locator("#all").click()
    assert page.locator("#count").text_content().startswith("18 of 18 decided: 18 acc")


def test_contents_of_the_page(sgd_tree, out):
    """One file; texts shared by splits occur once, and lines about other texts stay."""
    go(sgd_tree, out, splits=("train", "test"))
    other = {"id": "dev/0/slot/0", "source": "y", "decision": "rejected"}
    decide(out, other | {"candidate": "x"})
    review.review(out)
    text = (out / "review.html").read_text()
    assert not re.search(r"(src|href)=|https?:|@import|url\(", text)
    (packed,) = re.findall(r'(?s)id="data">(.*?)</script>', text)
    data = json.loads(packed)
    assert data["decisions"] == [other | {"candidate": "x"}]
    (cost,) = (one for one in data["texts"] if one["source"] == COST["source"])
    assert [key.split("/")[0] for key in cost["ids"]] == ["train", "test"]
    assert cost["more"] == [
        "Cost of the ticket in the long run of all things",
        "Cost of the ticket by and by",
    ]
    # The page belongs to the run: another page replaces it, and a run resumes.
    review.review(out)
    assert "nothing to do" in go(sgd_tree, out, splits=("train", "test"))
    go(sgd_tree, out, splits=("train", "test"), seed=1)


def test_the_verb_and_rejected_input(sgd_tree, out, tmp_path, capsys):
    def said(*words):
        assert cli.main(["augment", "review", *map(str, words)]) == 1
        return capsys.readouterr().err

    assert cli.main(["augment", "review", str(out)]) == 0
    assert "review.html: 6 texts" in capsys.readouterr().out
    assert "augment.json" in said(tmp_path)
    taken = tmp_path / "taken.jsonl"
    taken.write_text(json.dumps(COST | {"id": "train/9/slot/2", "decision": "typed"}))
    assert f"{taken}: line 1: the field 'variant' is missing" in said(
        out, "--decisions", taken
    )
    assert not (out / decisions.FILE).exists()
    assert "missing.jsonl: no such file" in said(out, "--decisions", "missing.jsonl")
    (out / decisions.FILE).write_text("\n")  # it exists and must not be lost
    taken.write_text("")
    assert f"{taken}: holds no decision, and would replace those in" in said(
        out, "--decisions", taken
    )
    assert (out / decisions.FILE).read_text() == "\n"
    manifest = json.loads((out / "augment.json").read_text())
    manifest["claimed"] = []
    (out / "augment.json").write_text(json.dumps(manifest))
    assert "holds review.html, which no run of" in said(out)
    (out / "review.html").unlink()
    (out / "augment.json").write_text(json.dumps(manifest | {"digest": ""}))
    assert f"{out}: the run has not finished. Run its command again." in said(out)


def test_given_variants_leave_nothing_to_decide(sgd_tree, tmp_path):
    given = {"scheme": "given", "options": {"folder": "sgdx"}, "metrics": {"bleu": {}}}
    go(sgd_tree, tmp_path / "given", **given, select="order", tree={})
    with pytest.raises(UserError, match="is a run of given variants, with nothing"):
        review.review(tmp_path / "given")
