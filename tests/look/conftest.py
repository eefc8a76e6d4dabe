"""A run with scripted predictions: the annotation with a few changes."""

from pathlib import Path

import pytest

from jaxaug.data.sgd import State
from jaxaug.metrics import benchmark
from jaxaug.metrics.predictions import write_predictions


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("JAXAUG_DATA_DIR", "JAXAUG_VARIANTS_DIR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def predict():
    """Returns a function that writes the predictions of a run under one wording.

    `changes`: (dialogue, turn, service) -> fields of the state that differ from the
    annotation. Names are names of the wording; a slot value of None removes the slot.
    """

    def write(run: Path, data, name, variant=None, changes=None, place=None):
        loaded = benchmark.load(data, "test", variant)
        states = {}
        for reference in benchmark.references_of(loaded.dialogues.values()):
            key = reference.dialogue_id, reference.turn, reference.service
            new = dict((changes or {}).get(key, {}))
            values = {**reference.state.slot_values, **new.get("slot_values", {})}
            states[key] = State(
                new.get("active_intent", reference.state.active_intent),
                tuple(new.get("requested_slots", reference.state.requested_slots)),
                {slot: value for slot, value in values.items() if value is not None},
            )
        folder = run / "inference_eval/predictions" / name
        folder /= (variant or "original") if place is None else place
        write_predictions(folder / "dialogues.json", loaded.dialogues.values(), states)

    return write
