"""The scores of MultiWOZ, by brute force and by the command."""

import json
import random

from jaxaug.cli import main
from jaxaug.data import sgd
from jaxaug.data.schema import Schema, Service, Slot
from jaxaug.data.sgd import State
from jaxaug.metrics.benchmark import references_of
from jaxaug.metrics.multiwoz import accuracies
from jaxaug.metrics.predictions import write_predictions
from jaxaug.metrics.slot_scores import Reference
from jaxaug_papers import multiwoz as data
from tests.support import small_multiwoz

SCHEMA = Schema(
    tuple(
        Service(name, "", tuple(Slot(f"{name}-{s}", "", False, ()) for s in "xyz"), ())
        for name in ("hotel", "taxi", "bus")
    )
)


def _draw(rng, most):
    """Draws a state of a service; spellings of values differ in case and spaces."""
    return {
        slot: tuple(rng.choices(["a", "b", " A", "dontcare"], k=rng.randint(1, most)))
        for slot in "xyz"
        if rng.random() < 0.3
    }


def test_brute_force():
    rng = random.Random(0)
    references, predictions = [], []
    for dialogue in "ABCDEFGH":
        for turn in (0, 2, 4):
            for service in ("hotel", "taxi", "bus"):
                known = {} if service == "bus" else _draw(rng, 2)
                said = known if rng.random() < 0.7 else _draw(rng, 2)
                states = [
                    State("NONE", (), {f"{service}-{slot}": v for slot, v in s.items()})
                    for s in (known, said)
                ]
                references.append(Reference(dialogue, turn, service, states[0]))
                predictions.append(states[1])
    found = accuracies(references, predictions, SCHEMA)

    def slots_of(service):
        return [slot.name for slot in SCHEMA.service(service).slots]

    def right(index, slot):
        known = references[index].state.slot_values.get(slot)
        said = predictions[index].slot_values.get(slot)
        if known is None or said is None:
            return known is said
        return said[0].strip().lower() in {value.strip().lower() for value in known}

    def all_right(indices):
        return all(
            right(i, s) for i in indices for s in slots_of(references[i].service)
        )

    every = range(len(references))
    turns = {references[i][:2] for i in every}
    joint = [all_right([i for i in every if references[i][:2] == t]) for t in turns]
    assert found["joint_goal_accuracy"] == sum(joint) / len(turns)
    assert 0 < sum(joint) < len(turns) == found["turns"] == 24
    marks = [right(i, s) for i in every for s in slots_of(references[i].service)]
    assert found["slot_accuracy"] == sum(marks) / len(marks)
    assert set(found["services"]) == {"hotel", "taxi"}  # no dialogue is about a bus
    for service, scores in found["services"].items():
        about = {
            r.dialogue_id
            for r in references
            if r.service == service and r.state.slot_values
        }
        mine = [
            all_right([i])
            for i in every
            if references[i].service == service and references[i].dialogue_id in about
        ]
        assert scores["turns"] == len(mine)
        assert scores["joint_goal_accuracy"] == sum(mine) / len(mine)


def test_a_made_up_domain_is_wrong_and_any_spelling_is_right(tmp_path, capsys):
    root = tmp_path / "data"
    data.convert(small_multiwoz.write(tmp_path / "public"), root)
    dialogues = list(sgd.read_dialogues(root, "test"))
    states = {r[:3]: r.state for r in references_of(dialogues)}
    second = {"hotel-name": ("The  acorn",)}  # with two spellings
    states["D.json", 0, "hotel"] = State("NONE", (), second)
    made_up = State("NONE", (), {"taxi-leaveat": ("now",), "taxi-colour": ("red",)})
    states["E.json", 0, "taxi"] = made_up
    write_predictions(tmp_path / "pred/dialogues.json", dialogues, states)
    out = tmp_path / "m.json"
    folders = ["--data_dir", str(root), "--predictions", str(tmp_path / "pred")]
    command = [
        "evaluate", "multiwoz", *folders, "--split", "test", "--output", str(out),
    ]  # fmt: skip
    assert main(command) == 0
    found = json.loads(out.read_text())
    assert found["joint_goal_accuracy"] == 2 / 3
    assert found["services"] == {
        "hotel": {"joint_goal_accuracy": 1.0, "turns": 2},
        "taxi": {"joint_goal_accuracy": 1.0, "turns": 2},
    }
    printed, warned = capsys.readouterr()
    assert "ignored slots that the schema lacks: 1" in warned
    assert found["about"]["ignored"] == {"slots that the schema lacks": 1}
    assert "joint goal accuracy 66.67\n" in printed
    assert "  hotel alone: 100.00 of 2 turns\n" in printed
    assert "3 turns of 2 dialogues scored\n" in printed
