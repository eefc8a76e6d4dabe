import re

import pytest

from jaxaug_papers.mini import overlap, pretraining, written
from jaxaug_papers.mini.invented_words import Fresh
from jaxaug_papers.minisgd.draw import Draw
from jaxaug_papers.minisgd.world import ORIGINAL, VARIANTS, services


@pytest.fixture(scope="module")
def made():
    lexis = pretraining.lexis()
    draws = (Draw(f"test/{number}") for number in range(400))
    return [written.exercise(draw, Fresh(lexis, draw)) for draw in draws]


def test_texts_of_unseen_services_are_left_out():
    def content(text):
        return set(re.findall("[a-z]+", text.lower())) - overlap.STOP_WORDS

    known = [
        content(t) for own in written.known() for r in own for t in (r.text, *r.good)
    ]
    unseen = {
        item.wordings[one][1]
        for spec in services()
        if spec.splits != ("train",)
        for item in (*spec.slots, *spec.intents)
        for one in (ORIGINAL, *VARIANTS)
    }
    assert len(known) > 20_000 and len(unseen) > 100
    for words in map(content, unseen):
        assert all(len(words & one) < 0.6 * len(words | one) for one in known if one)


def test_answers_follow_from_the_prompt(made):
    """Each value of an answer is said, and each index is in the prompt."""
    states = 0
    for text, answer in made:
        prompt, _, said = text.partition(" [user] ")
        shown = set(re.findall(r"(?:^| )(i?\d+)=", prompt))
        assert set(re.findall(r"(?:^| )(\d+)=", answer)) <= shown
        if answer.startswith("[states]"):
            states += 1
            filled = answer.removeprefix("[states]").partition(" [intents]")[0]
            for value in re.split(r" \d+=", filled)[1:]:
                letter = re.fullmatch(r"\d+[a-h]", value)
                assert (f" {value}) " in prompt) if letter else (value in said), text
    assert 200 < states < 350
