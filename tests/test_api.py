"""`import jaxaug`: quick, lazy, and as docs/python.md shows it."""

import inspect
import json
import re
import shutil
import sys

import pytest
from etils import epath

import jaxaug
from jaxaug.augment.plain import people
from jaxaug.core.errors import UserError
from jaxaug.data import folders
from jaxaug.track.hub import OnHub
from tests.support.chat_server import called
from tests.support.programs import python_says, ran
from tests.test_architecture import ROOT
from tests.tools import test_run

NAMES = [
    *("Tracker", "augment_schema", "evaluate", "load_dialogues", "paraphrase"),
    "sensitivity",
]
PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"## (.*?)\n\n```python\n(.*?)```", PAGE, re.DOTALL)


def test_importing_is_quick_and_loads_no_heavy_library():
    script = (
        "import time; start = time.process_time()\n"
        "import jaxaug, sys; taken = time.process_time() - start\n"
        "heavy = {'jax', 'tensorflow', 'seqio', 'flax', 'numpy', 'spacy', "
        "'transformers'}\nprint(dir(jaxaug), sorted(heavy & set(sys.modules)), taken < "
        "1)"
    )
    assert python_says(script) == f"{NAMES} [] True"


@pytest.mark.parametrize(
    "before",
    ["", "import jaxaug.paraphrase", "from jaxaug.paraphrase import candidates"],
)
def test_the_package_paraphrase_is_the_function_too(before):
    script = (
        f"{before}\nimport jaxaug\n"
        "try: jaxaug.paraphrase('text')\nexcept ValueError as error: print(error)"
    )
    assert python_says(script) == "texts is 'text': give a list (each item a text)."


def test_python_dash_m():
    done = ran([sys.executable, "-m", "jaxaug", "--help"], check=True)
    assert done.stdout.startswith("usage: jaxaug ")


def test_augment_schema_of_a_file_and_of_a_list(tmp_path):
    path = folders.schema_path(folders.resolve_data_dir(), "test")
    services = json.loads(path.read_text())[:2]
    (tmp_path / "schema.json").write_text(json.dumps(services))
    found = jaxaug.augment_schema(services, 2)
    assert jaxaug.augment_schema(tmp_path / "schema.json", 2) == found
    assert len(found) == 2
    for variant in found:
        for new, old in zip(variant, services, strict=True):
            assert [len(new[k]) for k in ("slots", "intents")] == [
                len(old[k]) for k in ("slots", "intents")
            ]
            texts = [s["description"] for s in new["slots"]]
            assert texts != [s["description"] for s in old["slots"]]
    assert found[0] != found[1]
    with pytest.raises(UserError, match="schema: .*JSON"):
        jaxaug.augment_schema([{"service_name": {1}}])  # type: ignore[dict-item]
    services[0]["itself"] = services
    with pytest.raises(UserError, match="schema: Circular reference.*JSON"):
        jaxaug.augment_schema(services)


def test_load_dialogues_and_evaluate(tmp_path):
    dialogues = jaxaug.load_dialogues(split="test", variant="v1")
    assert dialogues[0].turns[0].speaker == "USER"
    with pytest.raises(
        UserError, match="split is 'tset': give one of train, dev, test"
    ):
        jaxaug.load_dialogues(split="tset")
    data = folders.resolve_data_dir()
    # The references as predictions are all right.
    (own,) = {path.parent for path in folders.dialogue_paths(data, "test")}
    shutil.copytree(own, tmp_path / "one")
    scores = jaxaug.evaluate(tmp_path / "one")
    assert scores["#ALL_SERVICES"]["joint_goal_accuracy"] == 1.0
    shutil.copytree(own, tmp_path / "all" / "original")
    with pytest.raises(
        UserError, match="variant is 'v1', and .* has a folder for each"
    ):
        jaxaug.evaluate(tmp_path / "all", variant="v1")
    with pytest.raises(UserError, match="lacks v1, v2, v3, v4, v5"):
        jaxaug.evaluate(tmp_path / "all")


@pytest.mark.parametrize(("title", "code"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_the_page(title, code, request, tmp_path, monkeypatch, capsys):
    assert code.count("\n") <= 6  # Five lines below the import.
    monkeypatch.chdir(tmp_path)
    if "Tracker" in code:
        shutil.copytree(request.getfixturevalue("trained")[0], tmp_path / "runs/d3st")
    if "hub" in code:  # tests/track/test_hub.py has the rest.
        monkeypatch.setattr(jaxaug.Tracker, "push_to_hub", lambda _, *a, **k: (a, k))
        monkeypatch.setattr(jaxaug.Tracker, "from_pretrained", str)
    if "paraphrase" in code:
        # The weights may be missing; tests/augment/plain tests the rest.
        monkeypatch.setattr(people, "_Work", lambda _: lambda texts: [["Other."]])
    if "sensitivity" in code:
        server = request.getfixturevalue("server")
        request.getfixturevalue("judge_network")
        server.answer = called(("weather", {"city": "Oslo"}))
        code = code.replace("http://localhost:8000/v1", server.url)
        (tmp_path / "tools.json").write_text(json.dumps(test_run.TOOLS))
        (tmp_path / "cases.jsonl").write_text(json.dumps(test_run.CASES[0]))
    data = folders.resolve_data_dir()
    shutil.copy(folders.schema_path(data, "test"), tmp_path / "schema.json")
    shutil.copytree(data / "test", tmp_path / "predictions")
    exec(compile(code, title, "exec"), {})  # noqa: S102
    assert capsys.readouterr().out.strip()


def test_the_page_shows_every_name():
    shown = {name for _, code in BLOCKS for name in re.findall(r"jaxaug\.(\w+)", code)}
    assert shown == set(NAMES)


class Uploaded(OnHub):
    _run = "/nope"


@pytest.mark.parametrize(
    ("function", "name", "values", "fix"),
    [
        (jaxaug.augment_schema, "num", (None, 1.5, 10**30, 0, True), "from 1 to 1,000"),
        (jaxaug.augment_schema, "seed", (-1, "1", None), "whole number from 0"),
        (jaxaug.augment_schema, "schema", (None, b"x", "a\0b", [3]), "schema.json"),
        (jaxaug.augment_schema, "config", ("https://x/y", 3), "path|no storage"),
        (jaxaug.evaluate, "predictions", (None, "", b"x", "x" * 9000), "path"),
        (jaxaug.evaluate, "exact", (1, None), "True or False"),
        (jaxaug.load_dialogues, "split", (None, [], "tests"),
         "one of train, dev, test"),
        (jaxaug.load_dialogues, "variant", (3, b"v1"), "give a text"),
        (
            jaxaug.paraphrase,
            "texts",
            ("a", [3], ["\ud800"]),
            "a list .each item a text|UTF-8",
        ),
        (people.paraphrase, "model", ("\ud800", None), "UTF-8|a text"),
        (jaxaug.sensitivity, "wordings", ("5", -1, 10**5000), "from 0 to 1,000"),
        (jaxaug.Tracker.load, "run", (None, "https://x/y", 3), "path|no storage"),
        (jaxaug.Tracker.load, "batch_size", (0, 2.0, False), "from 1 to 65,536"),
        (Uploaded().push_to_hub, "repo_id", (None, "x", "a/b/c"), "OWNER/NAME"),
        (Uploaded().push_to_hub, "private", ("no",), "True or False"),
    ],
)  # fmt: skip
def test_arguments_are_checked_by_their_rules(function, name, values, fix):
    """Other arguments have valid values; nothing is read, loaded, or sent."""
    given = {
        "predictions": ".", "texts": [], "cases": ".", "run": ".", "repo_id": "a/b",
    }  # fmt: skip
    given["schema"] = "schema.json"
    names = set(inspect.signature(function).parameters)
    given = {key: value for key, value in given.items() if key in names}
    for value in values:
        with pytest.raises(UserError, match=rf"^{name} is .*({fix})"):
            function(**given | {name: value})


def test_a_wrong_list_of_services_is_named_as_the_argument():
    with pytest.raises(UserError, match="^schema: .*service_name"):
        jaxaug.augment_schema([{}])


@pytest.mark.parametrize(
    "call",
    [
        lambda path: jaxaug.augment_schema(path),
        lambda path: jaxaug.augment_schema("schema.json", config=path),
        lambda path: jaxaug.evaluate(path),
        lambda path: jaxaug.evaluate(".", path),
        lambda path: jaxaug.load_dialogues(path),
        lambda path: jaxaug.paraphrase(["Hello."], model=path, filter="off"),
        lambda path: jaxaug.paraphrase(["Hello."], model=f"{path}+/x", filter="off"),
        lambda path: jaxaug.sensitivity(path),
        lambda path: jaxaug.Tracker.load(path),
        lambda path: jaxaug.Tracker.load(".", schema=path),
    ],
)
def test_remote_paths_without_a_network(call, monkeypatch):
    def refuse(path):
        raise RuntimeError("could not resolve the host")  # As TensorFlow's errors.

    monkeypatch.setattr(type(epath.Path("gs://b")), "exists", refuse)
    with pytest.raises(UserError, match="gs://b/x.*cannot be reached.*resolve"):
        call("gs://b/x")
