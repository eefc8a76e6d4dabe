"""The simulated dialogues of MiniSGD: annotation, variety, and unwanted values."""

import re

import pytest

from jaxaug_papers.minisgd import simulator
from jaxaug_papers.minisgd.concepts import agreeing
from jaxaug_papers.minisgd.values import VALUES
from jaxaug_papers.minisgd.world import services, services_of, unseen_services

SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def dialogues():
    """Returns (split, dialogue) for raw dialogues of all splits."""
    return [
        (split, simulator.dialogue(split, index, seed=0))
        for split in SPLITS
        for index in range(600)
    ]


def user_frames(dialogues, split=None):
    for where, dialogue in dialogues:
        if split in (None, where):
            for turn in dialogue["turns"]:
                if turn["speaker"] == "USER":
                    for frame in turn["frames"]:
                        yield turn, frame


def active_intent(frame):
    return frame["state"]["active_intent"]


def usable_slots(spec, intent):
    found = spec.intent(intent)
    return {*found.required, *found.optional}


def test_golden_dialogues():
    """Guards the stream of random numbers against changes of Python or of ours."""
    turns = simulator.dialogue("train", 16, seed=0)["turns"]
    assert [turn["utterance"] for turn in turns] == [
        (
            "i have to call my boss at midnight but now could you show the forecast "
            "around 2 pm in fahrenheit for San Diego"
        ),
        "it will be 25 degrees",
        "thanks and please schedule a visit to a home in the same city",
        "we can go on later goodbye",
    ]
    weather, homes = turns[2]["frames"]
    assert weather["state"] == {
        "active_intent": "NONE",
        "requested_slots": [],
        "slot_values": {
            "unit": ["fahrenheit"],
            "weather_city": ["San Diego"],
            "weather_time": ["2 pm"],
        },
    }
    assert homes["state"] == {
        "active_intent": "VisitHome",
        "requested_slots": [],
        "slot_values": {"area": ["San Diego"]},
    }
    turns = simulator.dialogue("train", 21, seed=0)["turns"]
    assert [turn["utterance"] for turn in turns] == [
        "i want to book a room",
        "when do you check in and where would you like to stay",
        (
            "i do not mind the arrival day and located in Chicago also i need the "
            "weather forecast for London sorry i mean for New York around 4 pm"
        ),
        "ok around 4 pm and in New York right",
        "no make it at 8 pm",
        "expect 25 degrees",
    ]
    hotels, weather = (frame["state"]["slot_values"] for frame in turns[2]["frames"])
    assert hotels == {"check_in": ["dontcare"], "city": ["Chicago"]}
    assert weather == {"weather_city": ["New York"], "weather_time": ["4 pm"]}
    (weather,) = (frame["state"]["slot_values"] for frame in turns[4]["frames"])
    assert weather == {"weather_city": ["New York"], "weather_time": ["8 pm"]}


def test_test_only_services_never_appear_in_train(dialogues):
    used = {
        split: {s for where, d in dialogues if where == split for s in d["services"]}
        for split in SPLITS
    }
    for split in SPLITS:
        assert used[split] == {spec.name for spec in services_of(split)}
    assert used["dev"] - used["train"] == {"Buses_1", "Lessons_1"}
    assert not used["train"] & {spec.name for spec in unseen_services("test")}


def test_test_frames_are_half_unseen(dialogues):
    unseen = {spec.name for spec in unseen_services("test")}
    frames = [f["service"] for _, f in user_frames(dialogues, "test")]
    share = sum(service in unseen for service in frames) / len(frames)
    assert 0.4 < share < 0.6


def test_turns_alternate_and_are_few(dialogues):
    for _, dialogue in dialogues:
        speakers = [turn["speaker"] for turn in dialogue["turns"]]
        assert 2 <= len(speakers) <= 6
        assert speakers == ["USER", "SYSTEM"] * (len(speakers) // 2)
        for turn in dialogue["turns"]:
            assert turn["utterance"] == " ".join(turn["utterance"].split()) != ""
            assert turn["frames"]
            for frame in turn["frames"]:
                assert ("state" in frame) == (turn["speaker"] == "USER")


def test_spans_quote_the_utterance(dialogues):
    specs = {spec.name: spec for spec in services()}
    spans = carried = 0
    for _, dialogue in dialogues:
        before: dict[str, dict[str, list[str]]] = {}
        for turn in dialogue["turns"]:
            for frame in turn["frames"] if turn["speaker"] == "USER" else ():
                before[frame["service"]] = frame["state"]["slot_values"]
            for frame in turn["frames"]:
                quoted = set()
                for span in frame["slots"]:
                    slot = specs[frame["service"]].slot(span["slot"])
                    assert not slot.is_categorical
                    start, end = span["start"], span["exclusive_end"]
                    quoted.add((slot.name, turn["utterance"][start:end]))
                acted = {
                    (action["slot"], action["values"][0])
                    for action in frame["actions"]
                    if action["values"]
                    and action["act"] in ("INFORM", "OFFER", "CONFIRM")
                    and action["values"] != ["dontcare"]
                    and not specs[frame["service"]].slot(action["slot"]).is_categorical
                }
                # "in the same city": the value of another service, which has no span.
                others = [v for s, v in before.items() if s != frame["service"]]
                known = {value for values in others for (value,) in values.values()}
                assert quoted <= acted
                assert {value for _, value in acted - quoted} <= known
                spans += len(quoted)
                carried += len(acted - quoted)
    assert spans > 1000
    assert carried > 20


def test_values_occur_in_earlier_turns(dialogues):
    specs = {spec.name: spec for spec in services()}
    checked = 0
    for _, dialogue in dialogues:
        said = ""
        for turn in dialogue["turns"]:
            said += " " + turn["utterance"]
            for frame in turn["frames"] if turn["speaker"] == "USER" else ():
                for name, values in frame["state"]["slot_values"].items():
                    slot = specs[frame["service"]].slot(name)
                    (value,) = values
                    if value == "dontcare":
                        continue
                    assert value in slot.values
                    if not slot.is_flag:
                        assert f" {value} " in f"{said} ", (dialogue, value)
                        checked += 1
    assert checked > 1000


def test_states_follow_the_actions(dialogues):
    """Replays the annotated actions of the user; they must yield every state."""
    specs = {spec.name: spec for spec in services()}
    switches = 0
    for _, dialogue in dialogues:
        states: dict[str, dict[str, list[str]]] = {}
        for turn in dialogue["turns"]:
            for frame in turn["frames"] if turn["speaker"] == "USER" else ():
                state = states.setdefault(frame["service"], {})
                requested = []
                spec = specs[frame["service"]]
                switched = any(a["act"] == "INFORM_INTENT" for a in frame["actions"])
                if switched and state:
                    usable = usable_slots(spec, frame["state"]["active_intent"])
                    switches += bool(set(state) - usable)
                    for slot in set(state) - usable:
                        del state[slot]
                for action in frame["actions"]:
                    if action["act"] in ("INFORM", "SELECT"):
                        state[action["slot"]] = action["values"]
                    if action["act"] == "REQUEST":
                        requested.append(action["slot"])
                annotated = frame["state"]["slot_values"]
                removed = set(state) - set(annotated)
                assert len(removed) <= 1
                for slot in removed:
                    del state[slot]
                assert annotated == state
                assert frame["state"]["requested_slots"] == sorted(requested)
    assert switches > 0


def test_slots_belong_to_the_intent(dialogues):
    specs = {spec.name: spec for spec in services()}
    calls = 0
    for _, dialogue in dialogues:
        for turn in dialogue["turns"]:
            for frame in turn["frames"]:
                spec = specs[frame["service"]]
                if call := frame.get("service_call"):
                    usable = usable_slots(spec, call["method"])
                    assert set(call["parameters"]) <= usable
                    calls += 1
                state = frame.get("state", {"active_intent": "NONE"})
                if state["active_intent"] != "NONE":
                    usable = usable_slots(spec, state["active_intent"])
                    assert set(state["slot_values"]) <= usable
    assert calls > 100


def test_without_intent_nothing_new_is_said(dialogues):
    idle = [f for _, f in user_frames(dialogues) if active_intent(f) == "NONE"]
    assert idle
    assert {a["act"] for f in idle for a in f["actions"]} == {"THANK_YOU"}


def test_few_dialogues_fail(dialogues):
    failed = sum(
        any(
            action["act"] == "NOTIFY_FAILURE"
            for turn in dialogue["turns"]
            for frame in turn["frames"]
            for action in frame["actions"]
        )
        for _, dialogue in dialogues
    )
    assert 0.01 < failed / len(dialogues) < 0.1


def test_starts_come_before_ends(dialogues):
    specs = {spec.name: spec for spec in services()}
    pairs = ordered = 0
    for _, frame in user_frames(dialogues):
        values = {s: v for s, (v,) in frame["state"]["slot_values"].items()}
        for slot in specs[frame["service"]].slots:
            start, end = values.get(slot.name), values.get(slot.before)
            if {start, end} <= set(slot.values):
                pairs += 1
                ordered += slot.values.index(start) < slot.values.index(end)
    assert pairs > 100
    assert ordered / pairs > 0.95


def test_an_offer_is_never_a_clause():
    for spec in services():
        for slot in spec.slots:
            assert bool(slot.concept.offer) == bool(slot.concept.tell), slot.name


def test_phenomena_occur(dialogues):
    """All phenomena of SGD that a tracker must handle are frequent enough."""
    frames = list(user_frames(dialogues))
    acts = {a["act"] for _, f in frames for a in f["actions"]}
    assert acts == {
        "INFORM",
        "INFORM_INTENT",
        "REQUEST",
        "SELECT",
        "AFFIRM",
        "NEGATE",
        "THANK_YOU",
    }
    system = [
        frame
        for _, dialogue in dialogues
        for turn in dialogue["turns"][1::2]
        for frame in turn["frames"]
    ]
    assert {a["act"] for f in system for a in f["actions"]} == {
        "REQUEST",
        "OFFER",
        "CONFIRM",
        "INFORM",
        "INFORM_COUNT",
        "NOTIFY_SUCCESS",
        "NOTIFY_FAILURE",
        "REQ_MORE",
        "GOODBYE",
    }
    calls = [f for f in system if "service_call" in f]
    assert calls and all(len(f["service_results"]) == 1 for f in calls)
    double = sum(len(turn["frames"]) == 2 for turn, _ in frames) / 2
    states = [frame["state"] for _, frame in frames]
    values = [v for s in states for v in s["slot_values"].values()]
    size = len(frames)
    assert 0.05 < double / size < 0.12
    assert 0.02 < sum(v == ["dontcare"] for v in values) / len(values) < 0.2
    assert 0.02 < sum(s["active_intent"] == "NONE" for s in states) / size < 0.2
    assert 0.03 < sum(bool(s["requested_slots"]) for s in states) / size < 0.25
    assert 0.02 < sum(not s["slot_values"] for s in states) / size < 0.2
    changed = removed = 0
    for _, dialogue in dialogues:
        before: dict[str, dict[str, list[str]]] = {}
        for turn in dialogue["turns"][::2]:
            for frame in turn["frames"]:
                old = before.get(frame["service"], {})
                new = frame["state"]["slot_values"]
                changed += any(new.get(slot, v) != v for slot, v in old.items())
                removed += bool(set(old) - set(new))
                before[frame["service"]] = new
    assert changed / size > 0.02
    assert removed / size > 0.001


def test_shared_values_are_distinct_in_a_state(dialogues):
    """Values are distinct, since equal values would hide errors in the slot."""
    specs = {spec.name: spec for spec in services()}
    for _, frame in user_frames(dialogues):
        spec = specs[frame["service"]]
        free = [
            value
            for slot, (value,) in frame["state"]["slot_values"].items()
            if value != "dontcare" and not spec.slot(slot).is_categorical
        ]
        assert len(free) == len(set(free))


def test_vocabulary_stays_small(dialogues):
    words = {
        word
        for _, dialogue in dialogues
        for turn in dialogue["turns"]
        for word in turn["utterance"].lower().split()
    }
    for spec in services():
        slots = [slot.wordings for slot in spec.slots]
        for wordings in slots + [intent.wordings for intent in spec.intents]:
            for _, text in wordings.values():
                words |= set(text.lower().split())
    assert 600 < len(words) < 900


def test_nouns_agree_with_their_numbers(dialogues):
    said = " ".join(turn["utterance"] for _, d in dialogues for turn in d["turns"])
    ones = re.findall(r"(?<!\w)1 ([a-z]+)", said)
    more = re.findall(r"(?<!\w)[2-6] ([a-z]+)", said)
    nouns = {"ticket", "seat", "room", "bedroom", "person"}
    assert nouns <= set(ones)
    assert not {*(noun + "s" for noun in nouns), "people"} & set(ones)
    assert not nouns & set(more)


def test_articles_agree_too():
    assert agreeing("for a {v}", "electrician") == "for an {v}"
    assert agreeing("a {v} with (seat|seats)", "plumber") == "a {v} with seats"
    assert agreeing("{v} (seat|seats)", "1") == "{v} seat"


def test_values_that_are_not_wanted(dialogues):
    """Users mention values of the right kind that never occur in a state."""
    lists = [(values, name) for name, values in VALUES.items()]
    unwanted = 0
    for _, dialogue in dialogues:
        frames = [f for turn in dialogue["turns"][::2] for f in turn["frames"]]
        held = {v for f in frames for (v,) in f["state"]["slot_values"].values()}
        said = " ".join(turn["utterance"] for turn in dialogue["turns"][::2])
        found = {v for values, _ in lists for v in values if f" {v} " in f" {said} "}
        unwanted += bool(found - held)
    assert 0.1 < unwanted / len(dialogues) < 0.4


def test_suggestions_are_declined_in_both_ways(dialogues):
    taken = replaced = declined = 0
    for _, dialogue in dialogues:
        turns = dialogue["turns"]
        for system, user in zip(turns[1::2], turns[2::2], strict=False):
            offers = [a for a in system["frames"][0]["actions"] if a["act"] == "OFFER"]
            if not offers:
                continue
            (offer,) = offers
            (frame,) = [
                f
                for f in user["frames"]
                if f["service"] == system["frames"][0]["service"]
            ]
            value = frame["state"]["slot_values"].get(offer["slot"])
            taken += value == offer["values"]
            replaced += value not in (None, offer["values"])
            declined += value is None
    assert min(taken, replaced, declined) > 20
    assert taken > replaced > declined
