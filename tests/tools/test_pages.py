"""The commands of docs/tools.md and docs/sensitivity.md print what the pages show."""

import json
import re
import shlex
from pathlib import Path

import pytest

from jaxaug.cli import main
from tests.support.chat_server import called, said

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


@pytest.fixture
def measured(tmp_path, monkeypatch, judge_network):
    """Returns the commands of the page on sensitivity, and what they print."""
    pytest.importorskip("spacy")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    tools, cases = re.findall(r"```json\n(.*?)```", SENSITIVITY, re.DOTALL)
    (tmp_path / "tools.json").write_text(tools)
    (tmp_path / "cases.jsonl").write_text(cases)
    found = re.findall(
        r"^    \$ jaxaug (.*)\n((?:    .*\n)+)", SENSITIVITY, re.MULTILINE
    )
    return [
        (shlex.split(command), re.sub("^    ", "", shown, flags=re.MULTILINE))
        for command, shown in found
    ]


def test_the_first_measurement(measured, capsys):
    (words, shown), _ = measured
    assert main(words) == 0
    # The fixture chooses other rewordings, which have other lengths.
    told, shown = (
        re.sub(r"about [\d,]+ tokens", "about N tokens", text)
        for text in (capsys.readouterr().out, shown)
    )
    assert told == shown


def test_better_descriptions(measured, server, tmp_path, capsys):
    """A server that misreads one text in some cases; a model that writes another."""
    _, (words, shown) = measured
    [good] = re.findall(r'^\+ .*"description": "(.*)"', shown, re.MULTILINE)
    lines = [
        {
            "messages": [{"role": "user", "content": f"Oslo, day {n}"}],
            "calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}],
        }
        for n in range(40)
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, lines)))

    def answer(body):
        if "tools" not in body:
            texts = ["city such as Oslo", good, "place"]
            return said(json.dumps({"paraphrases": texts}))(body)
        asked = body["tools"][0]["function"]["parameters"]["properties"]["city"]
        is_hard = int(body["messages"][-1]["content"].split()[-1]) % 5 < 2
        is_wrong = is_hard and asked["description"] != good
        return called(("get_weather", {"city": "Rome" if is_wrong else "Oslo"}))(body)

    server.answer = answer
    words[words.index("--endpoint") + 1] = server.url
    assert main(words) == 0
    told = capsys.readouterr().out
    parts = [part.strip() for part in shown.split("...\n") if part.strip()]
    assert [part for part in parts if part not in told] == []
    assert good in (tmp_path / "better.json").read_text()
