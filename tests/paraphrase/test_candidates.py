import pytest

from jaxaug.paraphrase.candidates import Candidate, is_question, merged, tidied


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("City of the event", "the town.", "The town"),
        ("city of the event", "The town", "the town"),
        ("city of the event", "A town", "a town"),
        ("city of the event", "I go there", "I go there"),
        ("city of the event", "ID of the town", "ID of the town"),
        ("City of the event", "iPhone of the town", "iPhone of the town"),
        ("City of the event", " the \t town ; ", "The town"),
        ("Discover music.", "find songs", "Find songs."),
        ("Discover music.", "Is it there?", "Is it there?"),
        ("Discover music", "Is it there?", "Is it there?"),
        ("Discover music. ", "Find songs.", "Find songs."),
        (" city", "The town", "the town"),
        ("City", "", ""),
        ("City", " . ", ""),
    ],
)
def test_tidied(source, text, expected):
    assert tidied(source, text) == expected
    assert tidied(source, expected) == expected


def test_merged_counts_and_keeps_where_they_came_from():
    outputs = [
        ("a", ["The town", "place", "the town."]),
        ("b", ["the Town", "", "Name"]),
        ("a", ["Name", "name", "the town"]),
    ]
    assert merged("City", outputs) == [
        Candidate("The town", 4, ("a", "b")),
        Candidate("Name", 3, ("b", "a")),
        Candidate("Place", 1, ("a",)),
        Candidate("", 1, ("b",)),
    ]


def test_nothing_gives_nothing():
    assert merged("City", []) == []
    assert merged("City", [("a", [])]) == []


def test_outputs_may_be_left_as_they_are():
    outputs = [("a", ["the  name.", "The name."]), ("b", ["the name"])]
    found = merged("Name", outputs, tidy=False)
    assert found == [
        Candidate("the name.", 2, ("a",)),
        Candidate("the name", 1, ("b",)),
    ]
    assert merged("Name", outputs) == [Candidate("The name", 3, ("a", "b"))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("does the guest pay", True),
        ("how long is the visit", True),
        ("for how many people is the table", True),
        ("how long the visit is", False),
        ("says whether the guest is a member", False),
        ("what kind of car you would like", False),
    ],
)
def test_a_question_has_its_auxiliary_before_its_subject(text, expected) -> None:
    assert is_question(text) is expected


def test_a_statement_takes_no_mark_of_a_question() -> None:
    question = "Does the guest pay?"
    assert (
        tidied(question, "Says whether the guest pays") == "Says whether the guest pays"
    )
    assert tidied(question, "Will the guest pay") == "Will the guest pay?"
    # The source must not be a question by its words either.
    assert tidied("The guest pays?", "The visitor pays") == "The visitor pays?"
