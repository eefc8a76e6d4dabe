"""The commands of docs/tools.md and docs/sensitivity.md print what the pages show."""

import json
import re
import shlex
from pathlib import Path

import pytest

from jaxaug.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tools.md").read_text(encoding="utf-8")
SENSITIVITY = (ROOT / "docs/sensitivity.md").read_text(encoding="utf-8")


def _steps() -> list[tuple[str, list[str]]]:
    """Returns (command, printed lines) of the page."""
    found: list[tuple[str, list[str]]] = []
    text = re.sub(
        r"```json\n.*?```", "", PAGE.partition("## In Python")[0], flags=re.DOTALL
    )
    for line in re.findall(r"^    (.*)$", text, re.MULTILINE):
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


@pytest.fixture
def walked(tmp_path, monkeypatch, capsys):
    """Returns the folder in which the commands of the page ran."""
    for package in ("spacy", "sacrebleu", "nltk"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    documents = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    for name, document in zip(["tools.json", "chats.json"], documents, strict=True):
        (tmp_path / name).write_text(document)
    steps = _steps()
    assert len(steps) == 6
    for command, shown in steps:
        words = shlex.split(command)
        assert (words[0], main(words[1:])) == ("jaxaug", 0)
        said = capsys.readouterr().out.splitlines()
        assert shown and [line for line in said if line in shown] == shown
    return tmp_path


def _texts(tools):
    for tool in tools:
        function = tool["function"]
        yield function, function["name"]
        for name, argument in function["parameters"]["properties"].items():
            yield argument, name


def test_the_page_rewords_only_texts(walked):
    """Only the texts of the tools change, to the texts of the page's table."""
    before = json.loads((walked / "tools.json").read_text())
    after = json.loads((walked / "tools_v1.json").read_text())
    rows = re.findall(r"^\| (\w[^`|]*) \| (\w[^`|]*) \|$", PAGE, re.MULTILINE)
    reworded = [
        (old.pop("description"), new.pop("description"))
        for (old, _), (new, _) in zip(_texts(before), _texts(after), strict=True)
    ]
    assert set(reworded) <= set(rows) and len(reworded) == 4
    assert before == after


def test_the_example_in_python(walked, monkeypatch):
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict = {}
    exec(code, names)  # noqa: S102
    [tool] = names["document"]["tools"]
    assert tool["inputSchema"]["properties"]["city"] == {
        "type": "string",
        "description": "city of the weather report",
    }
    assert names["dropped"] == []


def test_the_first_measurement(tmp_path, monkeypatch, capsys, judge_network):
    pytest.importorskip("spacy")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    tools, cases = re.findall(r"```json\n(.*?)```", SENSITIVITY, re.DOTALL)
    (tmp_path / "tools.json").write_text(tools)
    (tmp_path / "cases.jsonl").write_text(cases)
    [(command, shown)] = re.findall(
        r"^    \$ jaxaug (.*)\n((?:    .*\n)+)", SENSITIVITY, re.MULTILINE
    )
    assert main(shlex.split(command)) == 0
    # The fixture chooses other rewordings, which have other lengths.
    told, shown = (
        re.sub(r"about [\d,]+ tokens", "about N tokens", text)
        for text in (capsys.readouterr().out, shown)
    )
    assert told == re.sub("^    ", "", shown, flags=re.MULTILINE)
