"""Suites of published cases with graded wordings."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys

import pytest

from jaxaug import cli
from jaxaug.core import hub
from jaxaug.core.cache_folder import CACHE_DIR_VARIABLE
from jaxaug.core.errors import UserError
from jaxaug.models.named import packages
from jaxaug.tools import measure, suites
from jaxaug.tools.cases import Case, arguments_of, texts_of
from jaxaug.tools.match import Call, Expected, score
from jaxaug.tools.models import Reply
from jaxaug.tools.suites import Server
from tests.support.chat_server import called

FUNCTION = {
    "name": "find.city",
    "description": "finds a city",
    "parameters": {
        "type": "dict",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "its name"},
            "other": {"type": "string", "description": "no wording of it"},
        },
    },
}


FORMS = ("short", "long", "docstring", "question", "omission")


def worded(*texts):
    """Returns wordings of each text, each of which ends with its name."""
    return {
        suites.digest(t): {name: f"{t} {name}" for name in (*suites.GRADES, *FORMS)}
        for t in texts
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package with two cases in each file, and wordings of two texts."""
    (tmp_path / "possible_answer").mkdir()
    for file, name in (("simple.json", "find.city"), ("parallel.json", "find.town")):
        lines = [
            {"id": f"{file}{n}", "function": [FUNCTION | {"name": name}],
             "question": [[{"role": "user", "content": "Oslo"}]]}
            for n in range(2)
        ]  # fmt: skip
        truth = [{name: {"name": ["Oslo"], "other": [""]}}]
        answers = [{"id": one["id"], "ground_truth": truth} for one in lines]
        for path, items in ((file, lines), (f"possible_answer/{file}", answers)):
            (tmp_path / path).write_text("".join(json.dumps(i) + "\n" for i in items))
    known = worded("finds a city", "its name")
    known[suites.digest("its name")]["omission"] = ""
    monkeypatch.setattr(suites, "wordings_of", lambda suite: known)
    monkeypatch.setattr(packages, "at_first_use", lambda name: tmp_path)
    return tmp_path


def test_each_grade_has_its_texts_and_the_same_cases(folder):
    sources, found, _ = suites.read_suite("bfcl-live")
    assert list(found) == ["original", "control", *suites.GRADES]
    assert len(sources) == 4 and len({case.id for case in found["g3"]}) == 4
    _, _, forms = suites.read_suite("bfcl-live", None, ("short",))
    wordings = {**found, **forms}
    for name, end in (
        ("control", ""),
        ("g1", " g1"),
        ("g5", " g5"),
        ("short", " short"),
    ):
        assert texts_of(wordings[name][0]) == {
            ("find_city", ""): f"finds a city{end}",
            ("find_city", "name"): f"its name{end}",
            ("find_city", "other"): "no wording of it",
        }
    for name, cases in found.items():
        assert [one.expected for one in cases] == [s.cases[0].expected for s in sources]
        assert len(suites.read_suite("bfcl-live", 3)[1][name]) == 3
    covered = measure.coverage(found)
    assert (covered.reworded["all"], covered.texts["all"]) == (4, 6)
    _, _, less = suites.read_suite("bfcl-live", 1, ("omission",))
    assert texts_of(less["omission"][0]) == {
        ("find_city", ""): "finds a city omission",
        ("find_city", "name"): "its name",  # It has no detail that can be missing.
        ("find_city", "other"): "no wording of it",
    }


def test_axes_are_measured_and_do_not_count(folder, server, tmp_path, capsys):
    """The model is wrong without descriptions of arguments, or with two tools."""

    def answer(body):
        one, *others = body["tools"]
        known = "description" in one["function"]["parameters"]["properties"]["name"]
        city = "Oslo" if known and not others else "Rome"
        return called((one["function"]["name"], {"name": city}))(body)

    server.answer = answer
    out = tmp_path / "report.json"
    words = ["sensitivity", "--model", "openai:tiny", "--endpoint", server.url]
    suite = ["--suite", "bfcl-live", "--axis", "bare", "distractor"]
    assert cli.main([*words, *suite, "--json", str(out)]) == 0
    assert (
        "bare (no descriptions of arguments; not faithful)" in capsys.readouterr().out
    )
    found = json.loads(out.read_text())
    assert len(server.bodies) == 4 * 2 * (7 + 2)
    accuracy = found["exact"]["accuracy"]
    assert accuracy.pop("bare") == accuracy.pop("distractor") == 0
    assert {*accuracy.values()} == {1} and found["exact"]["ss"] == 0
    assert (found["result"]["excess"], found["result"]["p"]) == (0, 1)
    for one in found["axes"].values():
        assert (one["difference"], one["excess"], one["faithful"]) == (-1, 1, False)
        assert one["p"] < 0.2  # Four cases, and two axes.
    assert {len(one["texts"]) for one in found["descriptions"]} == {1, 6}
    names = {tuple(t["function"]["name"] for t in b["tools"]) for b in server.bodies}
    assert ("find_city", "find_town") in names and ("find_town", "find_city") in names
    (bare,) = {
        json.dumps(tool["function"])
        for body in server.bodies
        for tool in body["tools"]
        if tool["function"]["name"] == "find_city"
        and "its name" not in json.dumps(tool)
    }
    assert "finds a city" in bare and "no wording" not in bare
    assert cli.main([*words, "--axis", "bare"]) == 1


_SERVER = """
import os
from mcp.server.mcpserver import MCPServer
server = MCPServer("notes")

def add(text: str, pages: list[int] | None = None) -> None: ...

for name in ("add", "append", "list"):
    server.tool(name, description=f"{os.environ['WORD']} a note")(add)
with open(os.environ["STARTS"], "a") as log:
    print(os.environ["HOME"], os.environ.get("SECRET"), file=log)
server.run("stdio")
"""
SEEN = {"type": "object", "title": "addArguments", "required": ["text"], "properties": {
    "text": {"title": "Text", "type": "string"},
    "pages": {"title": "Pages", "default": None, "anyOf": [
        {"items": {"type": "integer"}, "type": "array"}, {"type": "null"}]},
}}  # fmt: skip
ADD, APPEND = (
    {"name": name, "description": "adds a note", "inputSchema": SEEN}
    for name in ("add", "append")
)


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Two servers of notes with four cases; returns the homes of their starts."""
    pytest.importorskip("mcp")
    starts = tmp_path / "starts"
    starts.touch()
    (tmp_path / "server.py").write_text(_SERVER)

    def install(server, folder):
        program = folder / "notes"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$1"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return folder

    environment = {"WORD": "adds", "STARTS": str(starts)}
    servers = [
        Server(
            name,
            "MIT",
            ["notes==1"],
            f"notes {tmp_path / 'server.py'}",
            environment,
            ["add", "append"],
            suites.digest_of([ADD, APPEND]),
        )
        for name in ("one", "two")
    ]
    call = {
        "name": "add",
        "name_alternatives": ["append"],
        "arguments": {"text": "milk"},
        "accepted": {"text": ["Milk!"], "pages": [[1, 2]]},
    }
    says = [{"role": "user", "content": "milk, please"}]
    items = [
        {"id": f"{name}-{n}", "server": name, "messages": says, "calls": calls}
        for n, calls in enumerate(([call], []))
        for name in ("one", "two")
    ]
    files = {
        "mcp_servers.jsonl.xz": [one._asdict() for one in servers],
        "mcp_cases.jsonl.xz": items,
        "mcp_wordings.jsonl.xz": [
            {
                "digest": suites.digest("adds a note"),
                "forms": {},
                "good": [f"adds a note {grade}" for grade in suites.GRADES],
            }
        ],
    }
    monkeypatch.setattr(suites, "_lines", lambda name: files[name])
    monkeypatch.setattr(suites, "install", install)
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(hub.OFFLINE_VARIABLE, raising=False)
    monkeypatch.setenv("SECRET", "key")

    def started():
        return starts.read_text().splitlines()

    return environment, started


def test_the_tools_of_servers_are_asked_for_once(notes, tmp_path):
    _, started = notes
    assert len(suites.read_suite("mcp", 1)[1]["g1"]) == 1 and len(started()) == 1
    sources, found, _ = suites.read_suite("mcp")
    assert [one.id for one in found["g2"]] == ["one-0", "one-1", "two-0", "two-1"]
    assert len(sources) == 2 and len(started()) == 2
    for line in started():  # Neither the user's home nor other variables.
        home, secret = line.split()
        assert home.startswith(str(tmp_path / "cache")) and secret == "None"
        assert not os.path.exists(home)
    for name, end in (("original", ""), ("control", ""), ("g1", " g1"), ("g5", " g5")):
        texts = texts_of(found[name][2])
        assert texts["add", ""] == texts["append", ""] == f"adds a note{end}"
        assert ("list", "") not in texts
    (expected,) = found["g5"][0].expected
    for call, right in (
        (Call("add", {"text": "milk"}), 1),
        (Call("append", {"text": "Milk!", "pages": [1, 2]}), 1),
        (Call("add", {"text": "milk", "pages": [1]}), 0),
        (Call("list", {"text": "milk"}), 0),
    ):
        assert score([expected], [call], False).score == right
    assert found["g5"][1].expected == ()


def test_changed_tools_are_refused(notes, monkeypatch):
    environment, started = notes
    environment["WORD"] = "removes"
    with pytest.raises(UserError, match=r"one.*notes==1.*--limit"):
        suites.read_suite("mcp")
    environment["WORD"] = "adds"
    monkeypatch.setenv(hub.OFFLINE_VARIABLE, "1")
    with pytest.raises(UserError, match="--offline"):
        suites.read_suite("mcp")
    assert len(started()) == 1


@pytest.mark.parametrize("uv", ["/bin/uv", None])
def test_only_pinned_wheels_are_installed(uv, monkeypatch, tmp_path):
    asked = []

    def run(command, **_):
        asked.append(command)
        said = "" if len(asked) == 1 else "Collecting a\nno wheel of a"
        return subprocess.CompletedProcess(command, len(asked) - 1, said, "")

    monkeypatch.setattr(shutil, "which", lambda name: uv)
    monkeypatch.setattr(subprocess, "run", run)
    server = Server("a", "MIT", ["a==1", "mcp==1.3"], "a", {}, (), "")
    with pytest.raises(UserError, match="a cannot be installed: no wheel of a"):
        suites.install(server, tmp_path)
    assert asked[1][-4:] == ["--only-binary", ":all:", "a==1", "mcp==1.3"]
    assert str(tmp_path) in asked[0][-1]


_LITERAL = re.compile(r"https?://\S+|\d[\d.,:/-]*\d|[A-Za-z]+_[A-Za-z_]+|YYYY[\w-]*")


@pytest.mark.parametrize(("name", "number"), [("bfcl-live", 600), ("mcp", 370)])
def test_shipped_wordings(name, number):
    found = suites.wordings_of(suites.SUITES[name])
    assert len(found) > number
    for key, texts in found.items():
        assert len(key) == 16 and set(texts) == {*suites.GRADES, *FORMS}
        assert len({" ".join(texts[one].split()) for one in suites.GRADES}) == 5
        kept = set.intersection(
            *({*_LITERAL.findall(texts[one])} for one in suites.GRADES)
        )
        faithful = [texts[one] for one in FORMS[:-1]]
        assert len({*faithful}) == 4
        for text in faithful:
            assert text == text.strip() and all(one in text for one in kept), text
        assert len(faithful[0].split()) < len(faithful[1].split())


def test_shipped_names():
    found = suites._lines("suite_names.jsonl.xz")
    assert len({one["digest"] for one in found}) == len(found) > 280
    for one in found:
        new = [name for name in one["names"] if name]
        assert all(re.fullmatch(r"[A-Za-z][\w-]{0,63}", name) for name in new)
        assert len({*one["names"][1:]} - {None}) == len(new) - bool(one["names"][0])


def test_calls_are_matched_with_other_names():
    """A call with an old name is wrong, as is one of an old argument."""
    texts = {
        "find_city": "`name` and start_at of a name, with {start_at}; see add_town.",
        "add_town": "Args:\n  name: the town of `name`\nfind_city(name='Oslo')",
    }
    tools = [
        {"type": "function", "function": {"name": name, "description": text,
         "parameters": {"type": "object", "required": ["name"], "properties": {
             "name": {"type": "string", "description": "https://a.b/?start_at=1"},
             "start_at": {"type": "integer"}}}}}
        for name, text in texts.items()
    ]  # fmt: skip
    wanted = (Expected("find_city", {"name": ("Oslo",)}, (), ("add_town",)),)
    case = Case("a", "a", ({"role": "user", "content": "Oslo"},), tuple(tools), wanted)
    keys = [suites.interface_of(name, ("name", "start_at")) for name in texts]
    news = (["search", "title", "from_place"], [None, "start_at", "begin"])
    new = suites.with_names(case, dict(zip(keys, news, strict=True)))
    first, second = (one["function"] for one in new.tools)
    assert (first["name"], second["name"]) == ("search", "add_town")
    assert first["parameters"]["required"] == ["title"]
    assert [*second["parameters"]["properties"]] == ["start_at", "begin"]
    assert first["description"] == (
        "`title` and from_place of a name, with {start_at}; see add_town."
    )
    assert second["description"] == (
        "Args:\n  start_at: the town of `start_at`\nsearch(start_at='Oslo')"
    )
    assert first["parameters"]["properties"]["title"]["description"].endswith("at=1")
    for name, argument, right in (
        ("search", "title", 1),
        ("search", "name", 0),
        ("find_city", "title", 0),
        ("add_town", "start_at", 1),
        ("add_town", "begin", 0),
    ):
        reply = Reply((Call(name, {argument: "Oslo"}),), "tool_calls")
        assert measure.outcome(new, reply, False).score == right


def test_shipped_servers_and_cases():
    servers = [Server(**one) for one in suites._lines("mcp_servers.jsonl.xz")]
    items = suites._lines("mcp_cases.jsonl.xz")
    names = [one.name for one in servers]
    assert len(names) == 20 and {one["server"] for one in items[:20]} == {*names}
    tools = {one.name: one.tools for one in servers}
    for one in servers:
        assert all("==" in pin for pin in one.requirements) and one.license
    for item in items:
        used = {call["name"] for call in item["calls"]}
        assert used <= {*tools[item["server"]]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "cases", "share"), [("bfcl-live", 274, 1.0), ("mcp", 117, 0.9)]
)
def test_texts_of_suites_are_reworded(name, cases, share):
    try:
        _, found, forms = suites.read_suite(name, None, (*FORMS, "names"))
    except UserError as error:
        pytest.skip(str(error))
    assert len(found["original"]) == cases
    covered = measure.coverage(found)
    assert covered.reworded["all"] >= share * covered.texts["all"]
    given = found["original"]
    pairs = {
        form: [(a, b) for old, new in zip(given, forms[form], strict=True)
               for key, a in texts_of(old).items() if (b := texts_of(new)[key]) != a]
        for form in FORMS
    }  # fmt: skip
    for form, texts in pairs.items():
        assert len({a for a, _ in texts}) > 200
        for old, new in texts if form != "omission" else ():
            assert all(one in new for one in _LITERAL.findall(old)), (old, new)
    words = {form: [(len(a.split()), len(b.split())) for a, b in texts]
             for form, texts in pairs.items()}  # fmt: skip
    assert all(a < b for a, b in words["long"])
    # Texts of a few words cannot be shorter.
    shorter = [b < a for a, b in words["short"] if a > 5]
    assert sum(shorter) >= 0.9 * len(shorter)
    for old, new in zip(given, forms["names"], strict=True):
        names = [one["function"]["name"] for one in new.tools]
        assert len({*names}) == len(names)
        arguments = [len(arguments_of(one)) for one in new.tools]
        assert arguments == [len(arguments_of(one)) for one in old.tools]
        assert not {*names} & {one["function"]["name"] for one in old.tools}
