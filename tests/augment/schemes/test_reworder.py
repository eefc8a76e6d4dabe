"""The model of the corpus of rewordings as a scheme."""

import importlib.util

import pytest

from jaxaug.augment import descriptions
from jaxaug.augment.descriptions import Description
from jaxaug.augment.schemes import reworder
from jaxaug.core.errors import UserError
from jaxaug.paraphrase.decoder import Output

DESCRIPTIONS = [
    Description("t/0/service", "service", "Vet_1", "Vet_1", "Visits to a vet", ()),
    Description("t/0/slot/0", "slot", "Vet_1", "day", "Date in YYYY-MM-DD format", ()),
    Description("t/0/slot/1", "slot", "Vet_1", "pet", "Name of the pet", ()),
    Description("t/0/slot_name/1", "slot_name", "Vet_1", "pet_name", "pet name", ()),
]


@pytest.fixture
def asked(monkeypatch):
    """Returns the list of prompts, which the model answers with a name or nothing."""
    found = []

    def drawn(name, prompts, *rest):
        found.extend(prompts)
        name = Output("animalName", -1.0)
        return [[] if "vet" in one else [name] for one in prompts]

    monkeypatch.setattr(reworder, "_drawn", drawn)
    return found


def test_prompts_hold_the_schema(asked):
    items = descriptions.with_contexts([one.text for one in DESCRIPTIONS], DESCRIPTIONS)
    found = reworder.candidates(items, grades=[2])
    day = "slot day: Date in YYYY-MM-DD format\n2:"
    assert asked == [
        "service: Visits to a vet\n2:",
        f"Visits to a vet\nslots: pet, pet_name\n{day}",
        "Visits to a vet\nslots: day, pet_name\nslot pet: Name of the pet\n2:",
        "slots: day, pet\nname: pet_name\n2:",
    ]
    assert found[3] == ["animal name"]


def test_sentences_have_no_context(asked):
    reworder.candidates(["My dog is ill."])
    assert asked[0] == "sentence: My dog is ill.\n1:"


def test_the_most_probable_outputs_that_keep_literals(monkeypatch):
    texts = ["Day, as YYYY-MM-DD", "Day", "A YYYY-MM-DD day", "YYYY-MM-DD: days"]
    said = [
        Output(text, -len(text) * rank)
        for text, rank in zip(texts, (3, 1, 2, 4), strict=True)
    ]
    monkeypatch.setattr(reworder, "_drawn", lambda name, asked, *rest: [said * 2])
    found = reworder.candidates(["Date in YYYY-MM-DD format"], grades=[1], best=2)
    assert found == [[texts[2], texts[0]]]


@pytest.mark.parametrize("installed", [False, True])
def test_outputs_depend_on_the_seed(installed, tiny_lm, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: found(name) if installed or name != "ctranslate2" else None,
    )
    options = {"model": str(tiny_lm), "num": 2, "grades": [1, 5], "max_length": 6}
    first, again, other = (
        reworder.candidates(["pet", "my dog"], seed=seed, **options)
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert all(len(outputs) <= 4 for outputs in first)


def test_grades_out_of_range():
    with pytest.raises(UserError, match=r"grades=\[6\]: give grades from 1 to 5"):
        reworder.candidates(["pet"], grades=[6])
