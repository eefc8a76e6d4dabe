"""`jaxaug errors`: exact counts over scripted predictions, and rejected input."""

import contextlib
import io
import json
import os
from html.parser import HTMLParser

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.look import errors_page, evaluations, failures
from jaxaug.look.results import DEFINITIONS, SlotCounts, SlotId

TRIP, DAY = "4_00001", "4_00000"
CITY, CLASS, PRICE = (SlotId("Trains_1", n) for n in ("city", "class", "price"))


@pytest.fixture
def run(tmp_path, sgd_tree, predict, monkeypatch):
    """Returns a run with errors under the original wording and v2 only."""
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
    folder = tmp_path / "my<run>"
    for variant in (None, "v1", "v3", "v4", "v5"):
        changes = {}
        if variant is None:
            changes = {
                (TRIP, 0, "Trains_1"): {
                    "slot_values": {"city": None, "price": ["KYIV!"]},
                    "active_intent": "BuyTicket",
                },
                (TRIP, 2, "Trains_1"): {
                    "slot_values": {"class": ["second"], "city": ["Kyi"]},
                    "requested_slots": ["class", "class"],
                },
            }
        predict(folder, sgd_tree, "d3st-000050", variant, changes)
    changes = {
        (TRIP, 2, "Trains_12"): {"slot_values": {"class_v2": None, "city_v2": ["x"]}},
        (DAY, 0, "Parks_12"): {
            "slot_values": {"park_v2": ["<b>A & B</b>"], "unknown": ["x"]},
            "active_intent": "NONE",
        },
    }
    predict(folder, sgd_tree, "d3st-000050", "v2", changes)
    return folder


def count(run, **options):
    return failures.count(evaluations.find(run), **options)


def test_counts(run, capsys):
    found = count(run)
    assert capsys.readouterr().err.count("ignored slots that the schema lacks: 1") == 1
    # Two frames each: (Parks_1, DAY), (Trains_1, DAY), (Trains_1, TRIP) twice.
    assert list(found.wordings) == ["original", "v1", "v2", "v3", "v4", "v5"]
    original, second = found.wordings["original"], found.wordings["v2"]
    assert (original.frames, original.dialogues) == (4, 2)
    # "kyi" and "kyiv" have ratio 86.
    assert found.slots[CITY]["original"] == SlotCounts(2, 1, 0, 1, 0.86)
    assert found.slots[CLASS]["original"] == SlotCounts(1, 0, 0, 1, 0.0)
    assert found.slots[PRICE]["original"] == SlotCounts(0, 0, 1, 0, 0.0)
    assert found.slots[CITY]["v2"] == SlotCounts(2, 0, 0, 1, 1.0)
    assert found.slots[CLASS]["v2"] == SlotCounts(1, 1, 0, 0, 0.0)
    assert found.slots[SlotId("Parks_1", "park")]["v2"].extra == 1
    assert found.slots[CITY]["v1"] == SlotCounts(2, 0, 0, 0, 2.0)
    assert original.slots.score == pytest.approx(1.86)
    slots = original.slots
    assert (slots.filled, slots.missed, slots.extra, slots.wrong) == (4, 1, 1, 2)
    assert (original.jga, second.jga, found.wordings["v1"].jga) == (0.5, 0.5, 1.0)
    assert (original.intents, original.requested) == (1, 1)
    assert found.seen == {"Trains_1"}
    assert found.descriptions[CITY]["v3"] == "Where the train goes (wording 3)"


def test_the_tables(run):
    found = count(run)
    # The value of one slot occurs in another slot; values match fuzzily, as in scores.
    assert dict(found.owners) == {(CITY, PRICE): {"original": 1}}
    assert dict(found.intents) == {
        ("Trains_1", "FindTrain", "BuyTicket"): {"original": 1},
        ("Parks_1", "FindPark", "NONE"): {"v2": 1},
    }
    assert dict(found.requested) == {
        (PRICE, "missed"): {"original": 1},
        (CLASS, "extra"): {"original": 2},
    }
    assert found.costliest() == [CITY, CLASS, SlotId("Parks_1", "park"), PRICE]
    assert found.total(CITY).cost == pytest.approx(2.14)
    assert found.most_sensitive() == [CITY, CLASS]
    assert found.spread(CITY) == pytest.approx(0.57)
    (example,) = found.examples[PRICE, "extra"]
    assert (example.wording, example.owner, example.predicted) == (
        "original",
        "city",
        "KYIV!",
    )
    assert example.turns == (("USER", "A train to Kyiv please"),)
    # A frame is an example once, under the first wording in which it fails.
    assert [e.wording for e in found.examples[CITY, "wrong value"]] == ["original"]


def test_exact_values(run):
    found = count(run, exact=True)
    assert found.slots[CITY]["original"] == SlotCounts(2, 1, 0, 1, 0.0)
    assert found.owners == {}


def test_the_figures_equal_evaluate(run, sgd_tree, tmp_path):
    place = run / "inference_eval/predictions/d3st-000050"
    options = ["--data_dir", str(sgd_tree), "--split", "test"]
    output = tmp_path / "m.json"
    arguments = ["--predictions", str(place), "--output", str(output)]
    assert main(["evaluate", "sgdx", *options, *arguments]) == 0
    report = json.loads(output.read_text())["per_variant"]
    for name, counts in count(run).wordings.items():
        every = report[name]["#ALL_SERVICES"]
        assert counts.jga == every["joint_goal_accuracy"]
        assert 1 - counts.intents / 4 == every["active_intent_accuracy"]


PRINTED = """\
my<run>: d3st, step 50, split test: 4 frames of 2 dialogues under original, v1, v2, v3, v4, v5

wording     JGA  missed  extra  wrong value  wrong intent  wrong requested slots
original   50.0       1      1            2             1                      1
v1        100.0       0      0            0             0                      0
v2         50.0       1      1            1             1                      0
v3        100.0       0      0            0             0                      0
v4        100.0       0      0            0             0                      0
v5        100.0       0      0            0             0                      0

slots by cost (1 of 4), over all wordings
               in train  filled  missed  extra  wrong value  accuracy
Trains_1.city      seen      12       1      0            2      82.2

values of another slot of the frame
the value of   was given to    times  under
Trains_1.city  Trains_1.price      1  original 1

accuracy under each description, by spread and frames (1 of 2)
a spread over few frames may be chance
Trains_1.city: 57.0 points
  original   43.0  of 2  Where the train goes
  v1        100.0  of 2  Where the train goes (wording 1)
  v2         50.0  of 2  Where the train goes (wording 2)
  v3        100.0  of 2  Where the train goes (wording 3)
  v4        100.0  of 2  Where the train goes (wording 4)
  v5        100.0  of 2  Where the train goes (wording 5)

active intents (1 of 2)
active intent  expected  predicted  times  under
Parks_1        FindPark  NONE           1  v2 1

requested slots (1 of 2)
requested slot  how    times  under
Trains_1.class  extra      2  original 2

examples
Trains_1.city, wrong value under original: dialogue 4_00001, turn 2
  Trains_1.city: Where the train goes
  USER: A train to Kyiv please
  SYSTEM: I found 2. The price is 30.
  USER: First class. What is the price again?
  expected 'Kyiv', predicted 'Kyi'
"""


def test_printed_output(run, capsys):
    assert main(["errors", str(run), "--limit", "1"]) == 0
    assert capsys.readouterr().out == PRINTED


def test_one_task(run, capsys):
    assert main(["errors", str(run), "--task", "d3st_sgdx_v1"]) == 0
    assert capsys.readouterr().out == (
        "my<run>: d3st, step 50, split test: 4 frames of 2 dialogues under v1\n\n"
        "wording    JGA  missed  extra  wrong value  wrong intent  wrong requested "
        "slots\nv1       100.0       0      0            0             0               "
        "       0\n\nno failure\n"
    )


def test_t5dst_answers_values_only(run, sgd_tree, predict, capsys):
    changes = {
        (TRIP, 0, "Trains_1"): {"slot_values": {"city": None}, "active_intent": "NONE"}
    }
    predict(run, sgd_tree, "t5dst-000060", None, changes)
    with pytest.raises(UserError, match=r"evaluated on d3st and t5dst\. Choose one"):
        evaluations.find(run)
    assert main(["errors", str(run), "--task", "t5dst"]) == 0
    out = capsys.readouterr().out
    assert "t5dst, step 60, split test: 4 frames of 2 dialogues under original\n" in out
    assert "\nwording    JGA  missed  extra  wrong value\n" in out
    assert "\nt5dst answers no intents and no requested slots\n" in out
    assert "active intent" not in out


def test_the_newest_step_and_other_tasks(run, sgd_tree, predict):
    predict(run, sgd_tree, "d3st-000100")
    variants = sgd_tree / "variants" / "mine"
    variants.parent.mkdir()
    (sgd_tree / "sgd_x/data/v1").rename(sgd_tree / "v1")
    variants.mkdir()
    (sgd_tree / "v1").rename(variants / "v1")
    folder = run / "inference_eval/predictions"
    (folder / "d3st-000050/v1").rename(folder / "d3st_mine_v1-000100")
    found = evaluations.find(run)
    assert (found.step, list(found.wordings)) == (100, ["original", "mine_v1"])
    counts = failures.count(found)
    assert [w.jga for w in counts.wordings.values()] == [1.0, 1.0]


class Page(HTMLParser):
    """Checks that every tag is closed, and collects the visible text."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.ids, self.text = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        assert not {"src"} & attrs.keys(), attrs
        self.links += [attrs["href"]] if "href" in attrs else []
        self.ids += [attrs["id"]] if "id" in attrs else []
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += f"{data}\n"


def test_the_page(run, tmp_path):
    path = tmp_path / "errors.html"
    assert main(["errors", str(run), "--html", str(path)]) == 0
    source = path.read_text()
    page = Page()
    page.feed(source)
    page.close()
    assert page.open == []
    assert page.links == [
        "#slot-Trains_1.city",
        "#slot-Trains_1.class",
        "#slot-Parks_1.park",
        "#slot-Trains_1.price",
    ]
    assert page.ids == [link[1:] for link in page.links]
    assert "<b>" not in source and "<run>" not in source
    assert "v2: expected nothing, predicted '<b>A & B</b>'\n" in page.text
    assert (
        "original: expected nothing, predicted 'KYIV!' (the value of city)" in page.text
    )
    assert "http" not in source
    row = (
        "Trains_1.city\nseen\n12\n1\n0\n2\n82.2\n2.14\n2\n0\n1\n0\n0\n0\n"  # by wording
    ).splitlines()
    assert "\n".join(row) in page.text.replace("\n\n", "\n")
    assert "57.0\n43.0\nWhere the train goes (of 2)\n100.0\n" in page.text
    for meaning in DEFINITIONS.values():
        assert meaning in page.text


def test_no_page_of_nothing_breaks(tmp_path, sgd_tree, predict, monkeypatch):
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
    predict(tmp_path / "run", sgd_tree, "d3st-000001")
    found = evaluations.find(tmp_path / "run")
    errors_page.write(tmp_path / "p.html", found, failures.count(found))
    page = Page()
    page.feed((tmp_path / "p.html").read_text())
    assert page.open == [] and "None." in page.text


def report(run, jga, frames=4):
    groups = {"#ALL_SERVICES": {"joint_goal_accuracy": jga}}
    about = {"split": "test", "counts": {"original": {"frames": frames}}}
    path = run / "inference_eval/robustness/d3st-000050.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"about": about, "per_variant": {"original": groups}}))


def test_data_that_have_changed_are_noticed(run):
    report(run, 0.5)
    count(run)
    report(run, 0.75)
    with pytest.raises(UserError) as error:
        count(run)
    assert "joint goal accuracy under original is 50.00 on " in str(
        error.value
    ) and "and was 75.00 when the run was evaluated: these are other data" in str(
        error.value
    )
    report(run, 0.75, frames=3)  # another share of the frames
    count(run)


def test_the_run_knows_its_data(run, sgd_tree, monkeypatch):
    monkeypatch.delenv("JAXAUG_DATA_DIR")
    choices = run / "choices.json"
    choices.write_text(json.dumps({"JAXAUG_DATA_DIR": str(sgd_tree)}))
    found = evaluations.find(run)
    assert found.wordings["original"].corpus.data_dir == str(sgd_tree)


def refusal(capsys, *arguments):
    assert main(["errors", *map(str, arguments)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_refusals(run, sgd_tree, tmp_path, capsys):
    assert "--limit is 0: give a whole number from 1" in refusal(
        capsys, run, "--limit", 0
    )
    assert "run /none does not exist" in refusal(capsys, "/none")
    error = refusal(capsys, run, "--task", "t5dst_sgd")
    assert "was evaluated on d3st, not on t5dst. Leave --task out" in error
    error = refusal(capsys, run, "--task", "d3st_sgdx_v9")
    assert "no such task; did you mean 'd3st_sgdx_v5' or" in error
    error = refusal(capsys, run, "--split", "dev")
    assert "prediction for unknown dialogue '4_00000'" in error
    (sgd_tree / "sgd_x/data/v2").rename(tmp_path / "away")
    error = refusal(capsys, run)
    assert "has predictions under v2, and the data folder has no such wording" in error
    assert "Name the data that the run was evaluated on with --data_dir" in error


def test_damaged_predictions(run, capsys):
    file = run / "inference_eval/predictions/d3st-000050/v1/dialogues.json"
    whole = file.read_text()
    file.write_text(whole[:-40])
    assert f"{file}: " in (error := refusal(capsys, run)) and "line 3" in error
    file.write_text(whole.replace('"state": {', '"states": {', 1))
    assert "turn 0, service 'Parks_11': field 'state': expected an object" in refusal(
        capsys, run
    )
    path = run / "inference_eval/robustness/d3st-000050.json"
    path.parent.mkdir()
    path.write_text('{"about": {}}')
    assert f"{path}: no robustness report (KeyError: 'split')" in refusal(capsys, run)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "has no evaluation: "),
        (("personachat_rt-000010.jsonl", "personachat_rt-metrics.jsonl"),
         "evaluations of personachat_rt only, which are no dialogue states: "),
        (("t5dst_sgd-000010.jsonl",),
         "they were run without the logger tasks.report_logger.RobustnessLogger"),
    ],
)  # fmt: skip
def test_runs_without_predictions(tmp_path, capsys, names, message):
    folder = tmp_path / "inference_eval"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("{}\n")
    error = refusal(capsys, tmp_path)
    assert message in error and "Evaluate it: python -m t5x.eval" in error


def test_a_run_folder_whose_name_is_not_utf_8(run, tmp_path):
    named = run.rename(tmp_path / os.fsdecode(b"_caf\xe9$"))
    page, stdout = tmp_path / "page.html", io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(stdout):
        assert main(["errors", str(named), "--html", str(page)]) == 0
    stdout.flush()
    assert b"_caf\\xe9$: d3st, step 50" in stdout.buffer.getvalue()
    assert "<h1>Errors of _caf\\xe9$" in page.read_text()
