"""The web application: answers, limits, and errors."""

import asyncio
import io
import json
import re
import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jaxaug import cli
from jaxaug.serve import app, wordings
from jaxaug.serve.limits import Limits
from jaxaug.track.answers import Prediction, as_json_line
from jaxaug.track.tracker import Tracker
from tests.tools.test_completions import Booker

ROOT = Path(__file__).resolve().parents[2]


class Fake(Tracker):
    """Reads like a tracker, answers nothing, and calls `work` for each batch."""

    def __init__(self, schema, work=lambda: None):
        self.schema, self.work, self.batches = schema, work, []

    def predict_all(self, dialogues, write=None):
        frames = [f for turn in dialogues[0].turns for f in turn.frames]
        write([[1]] * len(frames))
        return [Prediction(dialogues[0], ())]

    def write_tokens(self, inputs):
        self.batches.append(len(inputs))
        self.work()
        return [[1] for _ in inputs]


def client(sgd_tree, limits=None, work=lambda: None, hosts=None, **keywords):
    known = wordings.read(None, sgd_tree, (limits or Limits()).description)
    fake = Fake(known.original, work)
    return TestClient(app.build(fake, known, limits, hosts), **keywords), fake


def ask(web, **request):
    return web.post("/api/predict", json=request)


def test_answers_equal_the_tracker_and_the_command(trained, monkeypatch, capsys):
    """All have two inputs of full length, so that one program is compiled."""
    run, data = trained
    known = wordings.read(None, data, 1000)
    tracker = Tracker.load(run, known.original)
    web = TestClient(app.build(tracker, known))
    text = "A train to Oslo please, " * 20
    dialogue = {"turns": [{"speaker": "USER", "utterance": text}], "dialogue_id": "é"}
    v3 = data / "sgd_x/data/v3/test/schema.json"
    named = ask(web, dialogue=dialogue, services=["Parks_1", "Trains_1"], schema="v3")
    assert named.status_code == 200, named.text
    assert named.headers["content-type"] == "application/json"
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(dialogue)))
    assert cli.main(["predict", "--run", str(run), "--schema", str(v3)]) == 0
    assert named.content == capsys.readouterr().out.encode()
    frames = named.json()["turns"][0]["frames"]
    assert [frame["service"] for frame in frames] == ["Parks_13", "Trains_13"]
    brought = ask(web, dialogue=dialogue, schema=json.loads(v3.read_text()))
    assert brought.content == named.content
    # Lines of text, and an edited description.
    edits = {"Trains_1": {"slots": {"city": "the capital " * 20}}}
    talk = f"USER: {text}\nSYSTEM: I found 2.\nUSER: First class.\n"
    asked = {"schema": {"edits": edits}, "services": ["Trains_1"]}
    edited = ask(web, dialogue=talk, **asked)
    about = tracker.about(known.choose(*asked.values()))
    assert edited.text == f"{as_json_line(about.predict(talk))}\n"
    assert tracker.schema is known.original


def test_wordings_page_and_health(sgd_tree):
    web, _ = client(sgd_tree)
    found = web.get("/api/schemas").json()
    assert found["limits"] == {"turns": 64, "description": 1000}
    assert found["wordings"] == wordings.read(None, sgd_tree, 1).as_json()
    assert web.get("/healthz").json() == {"status": "ok"}
    page = web.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for path, kind in (("/page.js", "text/javascript"), ("/page.css", "text/css")):
        assert f'"{path[1:]}"' in page.text
        assert web.get(path).headers["content-type"].startswith(kind)
        # The page loads nothing from elsewhere and needs no weaker policy.
        assert "//" not in web.get(path).text.replace("// ", "")
    assert not {"http:", "https:", "style=", "onclick", "<style"} & {*page.text.split()}


@pytest.mark.parametrize("path", ["/", "/api/schemas", "/none", "/api/predict"])
def test_every_answer_has_the_headers(sgd_tree, path):
    web, _ = client(sgd_tree)
    headers = web.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "server" not in headers


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({}, "dialogue: is missing. Give lines that begin with USER:"),
        ({"dialogue": ""}, "dialogue: holds no dialogue."),
        ({"dialogue": "hello"}, "dialogue: line 1: expected USER: or SYSTEM:"),
        ({"dialogue": 3}, "dialogue is 3: give a text or a mapping"),
        ({"dialogue": "USER: a\n\nUSER: b"},
         "dialogue: holds 2, because an empty line"),
        ({"dialogue": "USER: a", "schema": "v9"}, "schema: 'v9' is no wording"),
        ({"dialogue": "USER: a", "services": ["X"]}, "services: the wording has no"),
        ({"dialogue": "USER: a", "service": []}, "unknown key 'service'; did you mean"),
        ({"dialogue": {"turns": [], "services": ["/etc/passwd"]}},
         "dialogue: expected a dialogue with turns"),
        ({"dialogue": "USER: a\n" * 65},
         "dialogue: has 65 turns; at most 64 are taken"),
    ],
)  # fmt: skip
def test_mistakes_are_reported(sgd_tree, request_, text):
    web, fake = client(sgd_tree)
    answer = ask(web, **request_)
    assert answer.status_code == 400 and not fake.batches
    assert [*answer.json()] == ["error"] and text in answer.json()["error"]
    assert str(sgd_tree) not in answer.text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "the request is no JSON in UTF-8: "),
        (b"\xff\xfe\xfa", "the request is no JSON in UTF-8: "),
        (b'{"dialogue": "USER: \\ud800"}', "half of a surrogate pair"),
        (b"", "the request is no JSON in UTF-8: "),
        (b'{"dialogue": "USER: a", "dialogue": "USER: b"}',
         "an object has the name 'dialogue' 2 times (again at line 1, column 25)"),
        (b'{"dialogue": "USER: a", "servces": ["Trains_1"]}',
         "unknown key 'servces'; did you mean 'services'?"),
        (b'{"dialogue": {"turns": [], "servces": ["Trains_1"]}}',
         "dialogue: unknown key 'servces'; did you mean 'services'?"),
        (b"[]", "the request: expected a JSON object, got []"),
    ],
)  # fmt: skip
def test_invalid_requests(sgd_tree, body, text):
    web, _ = client(sgd_tree)
    answer = web.post(
        "/api/predict", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400 and text in answer.json()["error"]


def test_large_bodies_and_other_types_are_refused(sgd_tree):
    web, _ = client(sgd_tree, Limits(body=100))
    read = []

    def parts():
        for _ in range(50):
            read.append(1)
            yield b" " * 30

    headers = {"content-type": "application/json; charset=utf-8"}
    answer = web.post("/api/predict", content=parts(), headers=headers)
    assert answer.status_code == 413
    assert answer.json() == {"error": "The request is larger than 100 bytes."}
    # Forms of other sites are sent as one of three types; JSON is not among them.
    answer = web.post(
        "/api/predict", content=b"{}", headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 415 and "application/json" in answer.json()["error"]
    assert web.get("/api/predict").status_code == 405
    for path in ("/../pyproject.toml", "/%2e%2e/pyproject.toml", "/page/index.html"):
        answer = web.get(path)
        assert (answer.status_code, answer.json()) == (404, {"error": "Not Found"})


@pytest.mark.parametrize("depth", [50, 150, 300, 500, 900, 990, 1000, 2000])
def test_no_depth_is_a_defect(sgd_tree, depth):
    web, _ = client(sgd_tree)
    for deep in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        for before, behind in (
            (b'{"dialogue": ', b"}"),
            (b'{"dialogue": "USER: a", "schema": ', b"}"),
            (b'{"dialogue": "USER: a", "services": ', b"}"),
            (b'{"dialogue": {"dialogue_id": ', b', "turns": 1}}'),
        ):
            headers = {"content-type": "application/json"}
            body = before + deep + behind
            answer = web.post("/api/predict", content=body, headers=headers)
            assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (Limits(inputs=7), "8 inputs; at most 7 are taken. Name fewer services, or"),
        # Four turns of 3 characters, twice, and the texts of the services.
        (Limits(characters=60), r"\d+ characters of inputs; at most 60 are taken"),
    ],
)
def test_too_much_text_is_refused(sgd_tree, limits, what):
    web, fake = client(sgd_tree, limits)
    answer = ask(web, dialogue="USER: abc\n" * 4)
    assert answer.status_code == 400 and not fake.batches
    assert re.search(f"dialogue: its turns and services make {what}", answer.text)
    assert ask(web, dialogue="USER: a", services=["Trains_1"]).status_code == (
        200 if limits.inputs == 7 else 400
    )


def test_formats_that_ask_for_slots_have_more_inputs(sgd_tree):
    web, fake = client(sgd_tree, Limits(inputs=2))
    assert ask(web, dialogue="USER: a").status_code == 200
    fake.per_slot = True
    assert "make 5 inputs; at most 2" in ask(web, dialogue="USER: a").text


def test_more_requests_than_may_wait(sgd_tree):
    begun, go_on = threading.Event(), threading.Event()

    def work():
        begun.set()
        go_on.wait(30)

    web, _ = client(sgd_tree, Limits(waiting=1), work)
    with web:
        first = threading.Thread(
            target=ask, args=(web,), kwargs={"dialogue": "USER: a"}
        )
        first.start()
        assert begun.wait(30)
        answer = ask(web, dialogue="USER: b")
        assert answer.status_code == 503
        assert answer.json() == {"error": "1 requests wait already. Try again later."}
        go_on.set()
        first.join()
        assert ask(web, dialogue="USER: b").status_code == 200


def test_one_computation_at_a_time(sgd_tree):
    """A second request waits, gives up at its time limit, and is never computed."""
    begun, go_on = threading.Event(), threading.Event()

    def work():
        begun.set()
        go_on.wait(30)

    web, fake = client(sgd_tree, Limits(seconds=0.5), work)
    answers = []
    with web:
        first = threading.Thread(
            target=lambda: answers.append(ask(web, dialogue="USER: a\n" * 20))
        )
        first.start()
        assert begun.wait(30)
        late = ask(web, dialogue="USER: b")
        assert late.status_code == 503
        assert "was not answered within 0.5 seconds" in late.json()["error"]
        first.join()
        assert answers[0].status_code == 503
        go_on.set()
        # 20 turns with two services are 40 inputs; the last 8 are not computed in time.
        fake.work = lambda: None
        deadline = time.monotonic() + 30
        while ask(web, dialogue="USER: c").status_code != 200:
            assert time.monotonic() < deadline
    assert fake.batches == [32, 2]


def test_a_slow_body_is_not_waited_for(sgd_tree):
    known = wordings.read(None, sgd_tree, 100)
    web = app.build(Fake(known.original), known, Limits(seconds=0.1))
    sent = []

    async def never():
        await asyncio.sleep(30)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/api/predict", "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }  # fmt: skip
    asyncio.run(web(scope, never, send))
    assert sent[0]["status"] == 503


def test_defects_are_not_shown(sgd_tree):
    def work():
        raise ZeroDivisionError("/a/path")

    web, _ = client(sgd_tree, work=work, raise_server_exceptions=False)
    answer = ask(web, dialogue="USER: a")
    assert answer.status_code == 500
    assert answer.json() == {
        "error": "A defect of the server: its terminal shows more."
    }
    assert answer.headers["x-frame-options"] == "DENY"


def test_other_names_of_the_server_are_refused(sgd_tree):
    """A page of evil.example that resolves to this machine reads nothing."""
    web, _ = client(sgd_tree, hosts=["localhost", "127.0.0.1", "[::1]"])
    for host, status in (
        ("localhost:8008", 200),
        ("127.0.0.1", 200),
        ("[::1]:8008", 200),
        ("LOCALHOST", 200),
        ("evil.example:8008", 400),
        ("", 400),
    ):
        assert web.get("/healthz", headers={"host": host}).status_code == status


def test_the_documentation_has_the_limits():
    page = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
    limits = Limits()
    for number, unit, status in (
        (f"{limits.body:,}", " bytes", 413),
        (limits.turns, "", 400),
        (f"{limits.description:,}", "", 400),
        (f"{limits.inputs:,}", "", 400),
        (f"{limits.characters:,}", "", 400),
        (limits.waiting, "", 503),
        (f"{limits.body_seconds:g}", " s", 503),
        (f"{limits.seconds:g}", " s", 503),
        (f"{limits.header_seconds:g}", " s", "the connection is closed"),
        (f"{limits.reading_seconds:g}", " s", "the connection is closed"),
        (f"{limits.tools_seconds:g}", " s", 400),
        (limits.tools_memory >> 20, " MiB", 400),
        (limits.connections, "", "the idlest connection is closed"),
    ):
        assert f"| {number}{unit} | {status} |" in page


def test_several_dialogues(sgd_tree):
    talk = {"turns": [{"speaker": "USER", "utterance": "Oslo"}]}
    known = wordings.read(None, sgd_tree, 1000)
    web = TestClient(app.build(Booker(known.original, {}), known, Limits(turns=3)))
    asked = {"services": ["Trains_1"], "dialogues": [talk, "USER: hi\nSYSTEM: yes"]}
    found = web.post("/api/predict", json=asked).json()
    assert [len(one["turns"]) for one in found] == [1, 2]
    (one,) = web.post("/api/predict", json=asked | {"dialogues": [talk]}).json()
    assert one["turns"][0]["utterance"] == "Oslo"
    for given, text in (
        ([talk] * 4, "has 4 turns; at most 3"),
        ([], "dialogues: expected a list and no dialogue, got []"),
    ):
        answer = web.post("/api/predict", json=asked | {"dialogues": given})
        assert answer.status_code == 400 and text in answer.json()["error"]
