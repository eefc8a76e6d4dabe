"""Advice and attacks: exact results with a scripted tracker and scripted rewordings."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from jaxaug import cli
from jaxaug.augment.judge import verdicts
from jaxaug.augment.judge.features import Pair
from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.dialogue import Dialogue, Frame, State, Turn
from jaxaug.data.schema import Intent, Schema, Service, Slot, read_schema
from jaxaug.formats.records import Parsed
from jaxaug.metrics.benchmark import Benchmark
from jaxaug.track import advise, attack, rewordings
from jaxaug.track.advise import AdviseOptions, Option
from jaxaug.track.attack import ORIGINAL, RANDOM, SEARCHED, WORST, AttackOptions
from jaxaug.track.rewordings import Choice

SERVICE = Service(
    "Trips_1",
    "trips",
    (Slot("start", "leave", False, ()), Slot("end", "arrive", False, ())),
    (Intent("Find", "find a trip", False, (), (), ()),),
)
OTHERS = {"leave": ("depart", "quit"), "arrive": ("reach",)}


class Scripted:
    """Answers oslo and rome; misreads "quit" as the end and ignores "reach"."""

    schema = Schema((SERVICE,))

    def about(self, schema):
        other = Scripted()
        other.schema = schema
        return other

    def _state(self):
        start, end = (slot.description for slot in self.schema.services[0].slots)
        values = {"start": ("rome",) if start == "quit" else ("oslo",)}
        values |= {} if end == "reach" else {"end": ("rome",)}
        return Parsed(values, "Find")

    def predict_all(self, dialogues, write=None):
        return [
            SimpleNamespace(
                dialogue=one,
                frames=[
                    SimpleNamespace(turn=n, service=f.service, state=self._state())
                    for n, turn in enumerate(one.turns)
                    for f in turn.frames
                ],
            )
            for one in dialogues
        ]

    def log_likelihoods(self, dialogues, states):
        """Returns -1 for each value of a state that the tracker does not answer."""
        said = self._state().slot_values
        return {
            place: -float(sum(said.get(s) != v for s, v in one.slot_values.items()))
            for place, one in states.items()
        }


@pytest.fixture
def scripted(monkeypatch):
    """Replaces the grammar by scripted rewordings."""
    monkeypatch.setattr(
        rewordings,
        "choices",
        lambda service: tuple(
            Choice(item, (item.text, *OTHERS.get(item.text, ())))
            for item in rewordings.items_of(service)
        ),
    )


def dialogues(count):
    """Returns dialogues from oslo to rome, one turn each."""
    state = State("Find", (), {"start": ("oslo",), "end": ("rome",)})
    turn = Turn("USER", "from oslo to rome", (Frame("Trips_1", state),))
    return [Dialogue(f"d{n}", ("Trips_1",), (turn,)) for n in range(count)]


@pytest.mark.usefixtures("scripted")
def test_advice_names_stable_confused_and_better_descriptions():
    known = frozenset(
        {"leave", "quit", "depart", "arrive", "find", "a", "trip", "trips"}
    )
    options = AdviseOptions(wordings=7, candidates=2)
    found, gain = advise.advise(Scripted(), dialogues(2), known, options)
    # One dialogue is left to measure the gain on.
    assert gain == (0, None, None)
    by_name = {one.item.name: one for one in found}
    assert [*by_name] == ["Trips_1", "start", "end", "Find"]
    # The given wording; then each text of `leave` twice, and of `arrive` three times.
    start = by_name["start"]
    assert start.frames == 2 and start.agreement == pytest.approx(5 / 7)
    assert start.confused == {"end": 4}
    agreements = {one.text: one.agreement for one in start.options}
    assert agreements == {"leave": 1.0, "depart": 1.0, "quit": 0.0}
    assert start.options[-1].text == "quit"
    end = by_name["end"]
    assert end.agreement == pytest.approx(4 / 7) and end.confused == {}
    assert [(one.text, one.unknown) for one in end.options] == [
        ("arrive", 0),
        ("reach", 1),
    ]
    assert by_name["Find"].agreement == 1.0
    # For the service, whole answers count; they equal the consensus only in both slots.
    assert by_name["Trips_1"].agreement < 4 / 7
    assert (found, gain) == advise.advise(Scripted(), dialogues(2), known, options)
    schema = advise.advised(Scripted.schema, found)
    assert [slot.name for slot in schema.services[0].slots] == ["start", "end"]
    assert schema.services[0].slots[1].description == "arrive"


def test_texts_that_were_not_tried_come_last():
    """Untried texts come after equally familiar tried ones."""
    tried = [Option("a", 0, 1.0, -3.0), Option("b", 0, 1.0, -2.0), Option("c", 0)]
    found = sorted([*tried, Option("d", 1, 1.0, 0.0)], key=advise.rank)
    assert [one.text for one in found] == ["b", "a", "c", "d"]


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(("given", "shown"), [("quit", True), ("leave", False)])
def test_advice_says_whether_it_gains(given, shown, monkeypatch):
    """The tracker misreads "quit", and the consensus understands the start."""
    monkeypatch.setitem(OTHERS, "quit", ("leave", "depart"))
    slots = (Slot("start", given, False, ()), SERVICE.slots[1])
    service = Service(SERVICE.name, SERVICE.description, slots, SERVICE.intents)
    tracker = Scripted().about(Schema((service,)))
    known = frozenset({"leave", "depart", "arrive", "find", "a", "trip", "trips"})
    options = AdviseOptions(wordings=7, candidates=2)
    _, gain = advise.advise(tracker, dialogues(40), known, options)
    assert (gain.value, gain.low > 0) == (float(shown), shown)


@pytest.mark.usefixtures("scripted")
def test_without_dialogues_familiar_words_decide():
    known = frozenset({"depart", "arrive"})
    found, gain = advise.advise(Scripted(), [], known, AdviseOptions())
    assert gain is None
    start = next(one for one in found if one.item.name == "start")
    assert (start.frames, start.agreement, start.confused) == (0, None, {})
    assert start.options == (Option("depart", 0), Option("leave", 1), Option("quit", 1))
    schema = advise.advised(Scripted.schema, found)
    assert [s.description for s in schema.services[0].slots] == ["depart", "arrive"]


@pytest.mark.usefixtures("scripted")
def test_the_search_finds_the_worst_wording_and_measures_it_elsewhere():
    reference = Benchmark(
        Scripted.schema,
        {"Trips_1": "Trips_1"},
        frozenset(),
        {one.dialogue_id: one for one in dialogues(4)},
    )
    found = attack.attack(Scripted(), reference, dialogues(4), AttackOptions(random=6))
    one = found.services["Trips_1"]
    assert one.worst == ({"schema/0/slot/0": "quit", "schema/0/slot/1": "reach"},)
    assert one.likelihood == {ORIGINAL: 0.0, WORST: -2.0, SEARCHED: -2.0}
    # Half of the random wordings have "quit", and all of them "reach".
    assert (
        found.accuracy()
        == found.accuracy("Trips_1")
        == {
            ORIGINAL: 1.0,
            RANDOM: 0.0,
            WORST: 0.0,
            SEARCHED: 0.0,
        }
    )
    # Two dialogues are too few to show a loss.
    assert found.loss.value == 1 and found.loss.low < 0
    assert "is not shown to lose" in attack.text(found, 0)
    assert [one.dialogue_id for one in found.examples] == ["d1", "d3"]
    example = found.examples[0]
    assert example.slot == "start" and example.descriptions == ("leave", "quit")
    assert example.annotated == ("oslo",) and example.answers == (("oslo",), ("rome",))
    # The given wording, two for `leave`, one for `arrive`, and two random ones.
    assert one.scored == 2 * 5
    with pytest.raises(UserError, match="Trips_1: occurs in 1 of the dialogues"):
        attack.attack(Scripted(), reference, dialogues(1), AttackOptions())


def test_a_beam_finds_a_wording_that_greedy_search_misses():
    """A harmless change makes the change of the next description harmful."""
    items = rewordings.items_of(SERVICE)[1:3]
    found = [Choice(items[0], ("a", "b", "c")), Choice(items[1], ("d", "e"))]
    scores = {("b",): -1.0, ("c",): -0.5, ("c", "e"): -9.0, ("b", "e"): -2.0}

    def score(texts):
        return scores.get(tuple(texts.values()), 0.0)

    assert attack.search(found, score, 1)[0] == {items[0].id: "b", items[1].id: "e"}
    kept = attack.search(found, score, 2)
    assert kept[0] == {items[0].id: "c", items[1].id: "e"}
    assert [score(one) for one in kept] == [-9.0, -2.0]


@pytest.mark.usefixtures("scripted")
def test_draws_are_balanced_and_texts_stay_distinct():
    found = rewordings.choices(SERVICE)
    draws = rewordings.drawn(found, 6, seed=1)
    texts = [draw["schema/0/slot/0"] for draw in draws]
    assert sorted(texts) == ["depart"] * 2 + ["leave"] * 2 + ["quit"] * 2
    assert draws == rewordings.drawn(found, 6, seed=1) != rewordings.drawn(found, 6, 2)
    same = {"schema/0/slot/0": "go", "schema/0/slot/1": "Go"}
    slots = rewordings.worded(SERVICE, same).slots
    assert [slot.description for slot in slots] == ["go", "arrive"]
    blank = Service("S", " ", (Slot("x", "", False, ()),), ())
    assert rewordings.items_of(blank) == [] and rewordings.worded(blank, {}) == blank


def test_rewordings_are_faithful_and_name_nothing_twice(sgd_tree, judge_network):
    (service,) = sgd.read_schema_of(sgd_tree, "train").services[:1]
    found = rewordings.choices(service)
    given = {choice.item.text.casefold() for choice in found}
    assert sum(len(choice.texts) for choice in found) > 2 * len(found)
    for item, (own, *others) in found:
        assert own == item.text and not {text.casefold() for text in others} & given
        assert all(
            one.keep
            for one in verdicts.verdicts([Pair(item.kind, own, t) for t in others])
        )


def test_likelihoods_of_states_equal_their_answers(trained):
    from jaxaug import Tracker

    run, data = trained
    tracker = Tracker.load(run, sgd.read_schema_of(data, "test"))
    talks = list(sgd.read_dialogues(data, "test"))
    states = {
        (number, index, frame.service): frame.state
        for number, talk in enumerate(talks)
        for index, turn in enumerate(talk.turns)
        for frame in turn.frames
    }
    found = tracker.log_likelihoods(talks, states)
    questions = tracker._questions(talks, tracker.schema)
    expected = tracker._log_likelihoods(
        [(q.item, q.example.targets) for q in questions]
    )
    assert [*found] == [one.place for one in questions]
    assert np.allclose([*found.values()], expected) and max(expected) < 0


def test_the_verbs(trained, tmp_path, capsys, judge_network):
    run, data = trained
    schema = data / "test/schema.json"
    talk = tmp_path / "talk.txt"
    talk.write_text(
        "USER: A train to Oslo please\nSYSTEM: I found 2.\nUSER: First class.\n"
    )
    page, out, told = (tmp_path / name for name in ("a.html", "s.json", "a.json"))
    command = ["advise", "--run", str(run), "--schema", str(schema)]
    small = ["--in", str(talk), "--wordings", "2", "--limit", "3"]
    files = ["--html", str(page), "--json", str(told), "--out", str(out)]
    assert cli.main([*command, *small, *files]) == 0
    printed = capsys.readouterr().out
    assert "1 dialogues under 2 wordings (3 of " in printed
    names = [[s.name for s in one.slots] for one in read_schema(out).services]
    assert names == [
        [s.name for s in one.slots] for one in read_schema(schema).services
    ]
    found = json.loads(told.read_text())["descriptions"]
    assert found[0]["text"] in {one["text"] for one in found[0]["options"]}
    assert "<h2>Definitions</h2>" in page.read_text()
    assert cli.main(command) == 0
    assert "by familiarity of words alone" in capsys.readouterr().out
    assert cli.main([*command, "--out", str(schema)]) == 1
    assert "would replace --schema" in capsys.readouterr().err

    folder = tmp_path / "worst"
    command = [
        "attack", str(run), "--random", "1", "--candidates", "1", "--split", "train",
    ]  # fmt: skip
    assert cli.main([*command, "--out", str(folder), "--json", str(told)]) == 0
    assert "searched" in capsys.readouterr().out
    assert json.loads(told.read_text())["jga"].keys() == {
        ORIGINAL,
        RANDOM,
        WORST,
        SEARCHED,
    }
    original = sgd.read_schema_of(data, "train")
    changed = sgd.read_schema_of(data, "train", "v1", folder)
    assert original.services[0].slots != changed.services[0].slots
    assert cli.main([*command, "--out", str(folder)]) == 1
    assert "Name a new folder" in capsys.readouterr().err
    assert cli.main([*command, "--services", "No_1"]) == 1
    assert "'No_1' is no service" in capsys.readouterr().err
