"""The page in headless Chromium: a dialogue, two wordings, an edited description."""

import json

import pytest

from jaxaug.data import sgd
from jaxaug.data.schema import read_schema
from jaxaug.formats.records import Parsed
from jaxaug.serve import app, wordings
from jaxaug.track.answers import Prediction, frame_state
from jaxaug.track.tracker import Tracker
from tests.support.served import rows, served

sync_api = pytest.importorskip("playwright.sync_api")
TALK = (
    "USER: A train to <b>Oslo</b> 😀 please\nSYSTEM: I found 2.\n\nUSER: First class."
)


class OfFrames(Tracker):
    """A tracker without model: `_frames` returns the states of a dialogue."""

    def __init__(self, schema):
        self.schema = schema

    def predict_all(self, dialogues, write=None):
        (dialogue,) = dialogues
        return [Prediction(dialogue, tuple(self._frames(dialogue)))]


class Literal(OfFrames):
    """Finds a city if the description of the first slot says "where"."""

    def _frames(self, dialogue: sgd.Dialogue):
        for index, turn in enumerate(dialogue.turns):
            for frame in turn.frames:
                service = self.schema.service(frame.service)
                first, second = service.slots[:2]
                values = {}
                if "here" in first.description:
                    values[first.name] = ("oslo", "<i>oslo</i>")
                if index == 2:
                    values[second.name] = ("first",)
                intent = service.intents[0].name
                yield frame_state(
                    dialogue,
                    index,
                    frame.service,
                    Parsed(values, intent, (second.name,)),
                )


@pytest.fixture
def address(sgd_tree):
    """Returns the address of a server in this process."""
    schema = read_schema(sgd_tree / "test/schema.json")
    known = wordings.read(None, sgd_tree, 1000)
    built = app.build(Literal(schema), known, hosts=["127.0.0.1"])
    with served(built) as place:
        yield place


def test_which_slots_a_wording_changes(page, address):
    trouble, asked = [], []
    page.on("console", lambda m: trouble.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    status = page.get_by_role("status")
    page.get_by_label("Trains_1").check()
    page.get_by_label("First wording").select_option("v2")
    page.get_by_label("Second wording").select_option("original")
    # By keyboard, from the field of the dialogue.
    page.get_by_label("Dialogue, a line for each turn").fill(TALK)
    page.keyboard.press("Control+Enter")
    sync_api.expect(status).to_have_text(
        "In the end, no slot differs between v2 and original."
    )
    said = "oslo | <i>oslo</i> (turn 1: “Oslo”)"
    # v2 has other names for the same slots.
    intents = "FindTrain_v2", "FindTrain"
    # A value that both wordings miss is shown as missing.
    assert rows(page, 1) == [
        ("city", "", said, said),
        ("class", "", "no value", "no value"),
        ("price", "", "no value", "no value"),
        ("intent", "", *intents),
        ("asked for", "", "class_v2", "class"),
    ]
    quote = page.locator("article:nth-of-type(1) blockquote")
    assert quote.text_content() == "USER: A train to <b>Oslo</b> 😀 please"
    assert quote.locator("mark").all_text_contents() == ["Oslo"]
    # Another wording of one slot.
    page.get_by_text("Edit its descriptions").nth(1).click()
    page.get_by_label("slot city").fill("Name of the town")
    page.get_by_role("button", name="Show the states").click()
    sync_api.expect(status).to_have_text(
        "In the end, 1 slot differs between v2 and original, edited: city."
    )
    found = rows(page, 2)
    assert found[0] == ("city", "differs", said, "no value")
    first = "first (turn 3: “First”)"
    assert found[1] == ("class", "", first, first)
    texts = page.locator("tr.differs .description").all_text_contents()
    assert texts[-2:] == ["Where the train goes (wording 2)", "Name of the town"]
    # A mistake is reported in the words of the server.
    page.get_by_label("Dialogue, a line for each turn").fill("hello")
    page.get_by_role("button", name="Show the states").click()
    sync_api.expect(status).to_contain_text(
        "dialogue: line 1: expected USER: or SYSTEM:"
    )
    assert page.locator("#result article").count() == 0
    assert {url.rpartition("/")[0].removesuffix("/api") for url in asked} == {address}
    # A message of the browser about the last answer.
    assert len(trouble) == 1 and "400 (Bad Request)" in trouble[0]


NAMES = ("constructor", "__proto__", "toString", "a/b c", "hasOwnProperty")


class ByDescription(OfFrames):
    """Fills each slot with its description, unless that is empty."""

    def _frames(self, dialogue: sgd.Dialogue):
        for index, turn in enumerate(dialogue.turns):
            for frame in turn.frames:
                slots = self.schema.service(frame.service).slots
                found = {s.name: (s.description,) for s in slots if s.description}
                state = Parsed(found, "toString", ("__proto__",))
                yield frame_state(dialogue, index, frame.service, state)


def test_names_that_objects_have_and_slashes(page, tmp_path):
    """Services, slots, and intents may be called like members of JavaScript objects."""
    slots = [
        {
            "name": name,
            "description": "" if name == "toString" else f"the {name}",
            "is_categorical": False,
            "possible_values": [],
        }
        for name in NAMES
    ]
    intent = {
        "name": "toString", "description": "", "is_transactional": False,
        "required_slots": [], "optional_slots": {}, "result_slots": [],
    }  # fmt: skip
    names = "Trains/1 x", "__proto__", "constructor"
    services = [
        {"service_name": n, "description": "", "slots": slots, "intents": [intent]}
        for n in names
    ]
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(services))
    known = wordings.read(path, None, 1000)
    trouble = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    with served(app.build(ByDescription(known.original), known)) as address:
        page.goto(address)
        page.get_by_label("Dialogue, a line for each turn").fill("USER: the a/b c")
        page.get_by_text("Edit its descriptions").nth(1).click()
        for service in range(len(names)):
            # The first service has two changes, the others one.
            changed = ("a/b c", "__proto__") if service == 0 else ("constructor",)
            for name in changed:
                page.get_by_label(f"slot {name}").nth(service).fill(f"my {name}")
        page.get_by_role("button", name="Show the states").click()
        sync_api.expect(page.get_by_role("status")).to_have_text(
            "In the end, 4 slots differ between original and original, edited: "
            "__proto__, a/b c, constructor, constructor."
        )
        assert page.locator("caption").all_text_contents() == [*names]
        found = rows(page, 1)
    said = "the a/b c (turn 1: “the a/b c”)"
    assert found[:7] == [
        ("constructor", "", "the constructor", "the constructor"),
        ("__proto__", "differs", "the __proto__", "my __proto__"),
        ("toString", "", "no value", "no value"),
        ("a/b c", "differs", said, "my a/b c"),
        ("hasOwnProperty", "", "the hasOwnProperty", "the hasOwnProperty"),
        ("intent", "", "toString", "toString"),
        ("asked for", "", "__proto__", "__proto__"),
    ]
    assert [row[0] for row in found if row[1] == "differs"] == [
        *("__proto__", "a/b c", "constructor", "constructor")
    ]
    assert not trouble


def test_every_field_has_a_name_and_colours_follow_the_system(page, address):
    page.emulate_media(color_scheme="dark")
    page.goto(address)
    sync_api.expect(page.get_by_label("Parks_1")).to_be_visible()
    page.get_by_text("Edit its descriptions").first.click()
    unnamed = "[...document.querySelectorAll('input, select, textarea')]"
    unnamed += ".filter(field => !field.labels.length).length"
    assert page.evaluate(unnamed) == 0
    assert page.locator("#edits-a input").count() > 0
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.emulate_media(color_scheme="light")
    assert page.evaluate(paper) == "rgb(255, 255, 255)" != dark
