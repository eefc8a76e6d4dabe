"""The A/B sheet in headless Chromium, from the command to the report."""

import argparse
import json

import pytest

from jaxaug_papers.ab import arguments, run

QUESTION = "Which is <b>better</b>?"


@pytest.fixture
def files(tmp_path):
    """Two files of three inputs, and a question."""
    for name in ("old", "new"):
        lines = [{"input": f"in {i}", "output": f"{name} <i>{i}"} for i in range(3)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text)
    (tmp_path / "questions.txt").write_text(QUESTION)
    return [str(tmp_path / name) for name in ("old.jsonl", "new.jsonl")]


def ab(*words):
    parser = argparse.ArgumentParser()
    arguments.add(parser.add_subparsers())
    return run.run(parser.parse_args(["papers", "ab", *words]))


def test_the_page_names_neither_files_nor_sides(files, tmp_path):
    out = tmp_path / "sheet.html"
    ab(*files, "--out", str(out))
    text = out.read_text()
    assert "first_is_left" not in text and ".jsonl" not in text
    assert text.count("old \\u003ci>") == 3 and "{{" not in text
    assert "http" not in text


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_votes_by_keyboard(page, files, tmp_path, capsys, kind):
    out = tmp_path / "sheet.html"
    questions = ["--questions", str(tmp_path / "questions.txt")]
    ab(*files, *questions, "--out", str(out))
    trouble, asked = [], []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(out.as_uri())
    status = page.get_by_role("status")
    assert status.inner_text() == "Pair 1 of 3, question 1 of 1"
    assert page.locator("#question").inner_text() == QUESTION
    # The second answer is taken back: old, old, none.
    for key in ("old", "new", "Backspace", "old", "0"):
        if key in ("old", "new"):
            left = page.locator("#left").inner_text()
            key = "ArrowLeft" if left.startswith(key) else "ArrowRight"
        page.keyboard.press(key)
    assert status.inner_text() == "All 3 questions are answered: save the votes."
    # Votes survive a reload; a name is required.
    page.reload()
    page.locator(f"#{kind}").click()
    assert status.inner_text() == "Enter your name first."
    page.get_by_label("Your name").fill('Ada, "A"')
    with page.expect_download() as download:
        page.locator(f"#{kind}").click()
    saved = tmp_path / f"votes.{kind}"
    download.value.save_as(saved)
    assert trouble == [] and all(u.startswith(("file:", "blob:")) for u in asked)
    capsys.readouterr()
    assert ab(*files, "--names", "before", "after", "--votes", str(saved)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == '3 pairs; votes of Ada, "A" (person, 3)'
    assert lines[1] == f"1. {QUESTION}"
    cells = "1 2 0 100 : 0 1 0.5000 0.5000 2 : 0 0.5000 0.5000 NA NA"
    assert " ".join(lines[4].split()) == cells
