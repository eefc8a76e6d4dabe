"""Persona text: golden examples in both styles."""

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data.personachat import Dialogue, Turn
from jaxaug.formats import persona
from jaxaug.formats.persona import PersonaExample, PersonaOptions

DIALOGUE = Dialogue(
    "valid_00007",
    ("I have  two dogs.", "i like tea."),
    ("i read.",),
    (Turn("Hi !", "hello , how are you ?"), Turn("fine .", "Good . i've\ta dog .")),
)


def test_marked():
    traits = (
        "[persona] I have two dogs. [persona] i like tea. [partner_persona] i read."
    )
    first, second = persona.examples(DIALOGUE, PersonaOptions())
    assert first == PersonaExample(
        traits, "[partner] Hi !", "hello , how are you ?", "valid_00007", 0
    )
    assert second == PersonaExample(
        traits,
        "[partner] Hi ! [self] hello , how are you ? [partner] fine .",
        "Good . i've a dog .",
        "valid_00007",
        1,
    )
    assert first.inputs == f"{traits} [partner] Hi !"


def test_turns():
    options = PersonaOptions(style="turns", lowercase=True)
    first, second = persona.examples(DIALOGUE, options)
    assert first.persona == "i have two dogs. i like tea. i read.\n"
    assert second.history == "hi !\nhello , how are you ?\nfine ."
    assert second.targets == "good . i've a dog ."
    assert first.inputs == "i have two dogs. i like tea. i read.\nhi !"


@pytest.mark.parametrize(
    ("utterances", "history"),
    [
        (0, "Hi !\nhello , how are you ?\nfine ."),
        (1, "fine ."),
        (2, "hello , how are you ?\nfine ."),
        (9, "Hi !\nhello , how are you ?\nfine ."),
    ],
)
def test_last_utterances(utterances, history):
    options = PersonaOptions(style="turns", utterances=utterances)
    assert list(persona.examples(DIALOGUE, options))[1].history == history


def test_without_a_persona():
    bare = Dialogue("x", (), (), DIALOGUE.turns)
    for style, start in (("marked", "[partner] "), ("turns", "")):
        first = next(persona.examples(bare, PersonaOptions(style=style)))
        assert (first.persona, first.inputs) == ("", f"{start}Hi !")


def test_rewording_is_asked_for_each_turn():
    found = persona.examples(
        DIALOGUE,
        PersonaOptions(),
        lambda dialogue, turn: (f"{dialogue.dialogue_id} {turn}",),
    )
    assert [one.persona for one in found] == [
        f"[persona] valid_00007 {turn} [partner_persona] i read." for turn in (0, 1)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" hello   there . ", "hello there ."),
        ("yes . [partner] and you ? [self] me", "yes ."),
        ("yes .\nand you ?", "yes ."),
        ("[self] ", ""),
    ],
)
def test_parse(text, expected):
    assert persona.parse(text) == expected


def test_targets_are_their_own_parse():
    for style in persona.STYLES:
        for one in persona.examples(DIALOGUE, PersonaOptions(style=style)):
            assert persona.parse(one.targets) == one.targets


def test_options_are_checked():
    with pytest.raises(UserError, match="style='chat': use one of marked, turns"):
        PersonaOptions(style="chat")
    with pytest.raises(UserError, match="utterances=-1: use 0 for the whole dialogue"):
        PersonaOptions(utterances=-1)
