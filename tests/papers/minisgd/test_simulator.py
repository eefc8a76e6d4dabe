"""The simulated dialogues of MiniSGD: annotation, variety, and unwanted values."""

import re

import pytest

from jaxaug_papers.minisgd import simulator
from jaxaug_papers.minisgd.concepts import agreeing
from jaxaug_papers.minisgd.world import services, services_of, unseen_services

SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def dialogues():
    """Returns (split, dialogue) for raw dialogues of all splits."""
    return [
        (split, simulator.dialogue(split, index, seed=0))
        for split in SPLITS
        for index in range(300)
    ]


def usable_slots(spec, intent):
    found = spec.intent(intent)
    return {*found.required, *found.optional}


def test_test_only_services_never_appear_in_train(dialogues):
    used = {
        split: {s for where, d in dialogues if where == split for s in d["services"]}
        for split in SPLITS
    }
    for split in SPLITS:
        assert used[split] == {spec.name for spec in services_of(split)}
    assert used["dev"] - used["train"] == {"Buses_1", "Lessons_1"}
    assert not used["train"] & {spec.name for spec in unseen_services("test")}


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
    assert checked > 500


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


def test_an_offer_is_never_a_clause():
    for spec in services():
        for slot in spec.slots:
            assert bool(slot.concept.offer) == bool(slot.concept.tell), slot.name


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
