"""The server with further wordings: answers, limits, page, and no files."""

import pytest
from starlette.testclient import TestClient

from jaxaug.augment import rewording
from jaxaug.data.schema import read_schema
from jaxaug.formats.records import Parsed
from jaxaug.serve import app, wordings
from jaxaug.serve.limits import Limits
from jaxaug.track.answers import Prediction, as_json_line, frame_state
from jaxaug.track.combine import Agreement, Other
from jaxaug.track.options import Robust
from jaxaug.track.tracker import Tracker
from tests.support.served import served

TALK = "USER: A train to Oslo please"


def test_answers_equal_the_tracker_and_no_file_is_written(
    trained, monkeypatch, tmp_path
):
    run, data = trained
    monkeypatch.setattr(rewording, "_remembered", {})
    known = wordings.read(None, data, 1000)
    options = Robust(wordings=1, unsaid="mark", constrained=True)
    monkeypatch.setattr(Tracker, "_widths", lambda self, schemas: [40])
    own = Tracker.load(run, known.original, 2, options)
    tracker = own.compiled([known.original])
    web = TestClient(app.build(tracker, known))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "another"))
    asked = {"schema": {"edits": {"Trains_1": {"slots": {"city": "town"}}}}}
    answer = web.post("/api/predict", json={"dialogue": TALK, **asked})
    assert answer.status_code == 200, answer.text
    about = own.about(known.choose(asked["schema"], None))
    assert answer.text == f"{as_json_line(about.predict(TALK))}\n"
    (frame, *_) = answer.json()["turns"][0]["frames"]
    assert frame.keys() == {"service", "state", "spans", "agreement", "unsaid"}
    assert not (tmp_path / "another").exists()


def test_wordings_count_as_inputs(sgd_tree):
    known = wordings.read(None, sgd_tree, 1000)
    tracker = Tracker.__new__(Tracker)
    tracker.schema, tracker.robust = known.original, Robust(wordings=2)
    web = TestClient(app.build(tracker, known, Limits(inputs=5)))
    found = web.post("/api/predict", json={"dialogue": TALK})
    assert "make 6 inputs; at most 5 are taken" in found.text


class Agreeing(Tracker):
    """One of four wordings disagrees about the city."""

    def __init__(self, schema):
        self.schema = schema

    def predict_all(self, dialogues, write=None):
        (dialogue,) = dialogues
        other = Other(2, "<b>town</b> it goes to", ("rome",))
        (frame, *_) = dialogue.turns[0].frames
        city, second = self.schema.service(frame.service).slots[:2]
        checks = {
            "agreement": {
                city.name: Agreement(0.75, (other,)),
                second.name: Agreement(0.5, (Other(1, "class", ()),)),
            },
            "uncertain": (second.name,),
            "unsaid": (city.name,),
        }
        state = Parsed({city.name: ("paris",), second.name: ("first",)})
        found = frame_state(dialogue, 0, frame.service, state, **checks)
        return [Prediction(dialogue, (found,))]


def test_the_page_shows_agreement_and_who_disagrees(page, sgd_tree):
    sync_api = pytest.importorskip("playwright.sync_api")
    schema = read_schema(sgd_tree / "test/schema.json")
    known = wordings.read(None, sgd_tree, 1000)
    with served(app.build(Agreeing(schema), known, hosts=["127.0.0.1"])) as place:
        page.goto(place)
        page.get_by_label("Trains_1").check()
        page.get_by_label("Second wording").select_option("none")
        page.get_by_label("Dialogue, a line for each turn").fill(TALK)
        page.keyboard.press("Control+Enter")
        sync_api.expect(page.get_by_role("status")).to_have_text("Done.")
        cells = page.locator("#result tbody td").all()[:3]
        shown = [cell.locator(".agreement").all_text_contents() for cell in cells]
        assert shown == [
            ["75% of the wordings agreewording 2 (“<b>town</b> it goes to”): rome"],
            ["50% of the wordings agreewording 1 (“class”): no value"],
            [],
        ]
        badges = [cell.locator(".badge").all_text_contents() for cell in cells]
        assert badges == [["unsaid"], ["uncertain"], []]
