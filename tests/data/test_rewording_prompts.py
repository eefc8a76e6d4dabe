"""Prompts of the model that rewords texts of the corpus."""

from jaxaug.data import rewordings
from jaxaug.data.rewordings import Record, Source


def record(kind: str, name: str, text: str) -> Record:
    good = tuple(f"{text} {grade}" for grade in (1, 2, 3, 4, 5))
    return Record("Vet_1", kind, name, None, text, good, ())


RECORDS = [
    record("service", "Vet_1", "visits to a vet"),
    record("slot", "day", "day of the visit"),
    record("slot", "pet", "name of the pet"),
]


def test_a_prompt_has_the_context_of_its_text():
    source = Source("slot", "day of  the visit", "day", "visits to a vet", ["pet"])
    expected = "visits to a vet\nslots: pet\nslot day: day of the visit\n3:"
    assert source.prompt(3) == expected
    assert Source("sentence", "Hi there").prompt(5) == "sentence: Hi there\n5:"


def test_examples_hold_each_rewording_once_a_pass_at_its_grade():
    found = rewordings.examples(RECORDS, 2, 3)
    assert found == rewordings.examples(RECORDS, 2, 3)
    assert len(found) == 2 * 3 * 2
    lines = [
        (prompt.rpartition(": ")[2].partition("\n")[0], line)
        for prompt, target in found
        for line in f"{prompt[-2:]}{target}".splitlines()
    ]
    assert all(target.endswith("\n") for _, target in found)
    day, near = "day of the visit", "day of the visit 1"
    wanted = {(day, f"{grade}: {day} {grade}") for grade in (1, 2, 3, 4, 5)}
    # The text and its nearest rewording trade places in the second pass.
    wanted |= {(near, f"1: {day}")}
    wanted |= {(near, f"{grade}: {day} {grade}") for grade in (2, 3, 4, 5)}
    assert {line for line in lines if line[0] in (day, near)} == wanted
    assert len(lines) == len(set(lines))
