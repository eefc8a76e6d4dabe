"""docs/sensitivity.md: its dry run prints what the page shows."""

import re
import shlex
from pathlib import Path

import pytest

from jaxaug.cli import main

PAGE = (Path(__file__).resolve().parents[2] / "docs/sensitivity.md").read_text("utf-8")


def test_the_first_measurement(tmp_path, monkeypatch, capsys, judge_network):
    pytest.importorskip("spacy")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    tools, cases = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "tools.json").write_text(tools)
    (tmp_path / "cases.jsonl").write_text(cases)
    [(command, shown)] = re.findall(
        r"^    \$ jaxaug (.*)\n((?:    .*\n)+)", PAGE, re.MULTILINE
    )
    assert main(shlex.split(command)) == 0
    # The fixture chooses other rewordings, which have other lengths.
    told, shown = (
        re.sub(r"about [\d,]+ tokens", "about N tokens", text)
        for text in (capsys.readouterr().out, shown)
    )
    assert told == re.sub("^    ", "", shown, flags=re.MULTILINE)
