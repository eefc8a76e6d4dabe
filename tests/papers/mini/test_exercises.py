"""Exercises for small models: the input determines the answer."""

import itertools
import re

from jaxaug_papers.mini import exercises
from jaxaug_papers.minisgd.draw import Draw


def made(seed):
    draw = Draw(f"test/{seed}")
    numbers = iter(range(1000))
    return exercises.exercise(draw, lambda: f"w{next(numbers)}x")


def listed(text):
    """Returns index -> words of its description, and the text after the list."""
    head, _, said = text.partition(" [user] ")
    head = head.partition(" | ")[0]
    items = re.split(r"(?:^| )(\d+)=", head)[1:]
    return dict(zip(items[::2], map(str.split, items[1::2]), strict=True)), said


def own(words):
    return [word for word in words if re.fullmatch(r"w\d+x", word)]


def test_the_answer_follows_from_the_input():
    for seed in range(200):
        check(*made(seed))


def check(text, answer):
    if ") " in text:
        options = dict(re.findall(r"(\d[a-d])\) (w\d+x)", text))
        asked = text.partition(" [user] ")[2].split()
        assert [options[name] for name in answer.split()] == own(asked)
    elif " | " in text:
        items, _ = listed(text)
        indexes = text.rpartition(" | ")[2].split()
        assert answer.split(" | ") == [
            " ".join(own(items[i.rstrip("=")])) for i in indexes
        ]
    elif re.search(r"=\w", answer):
        items, said = listed(text)
        names = {word: i for i, words in items.items() for word in own(words)}
        found = dict(re.findall(r"(\d+)=([^=]+?)(?= \d+=|$)", answer))
        assert sorted(found, key=int) == list(found)
        # Every word of a description in the text names an asked item or is its value.
        values = [word for value in found.values() for word in value.split()]
        assert {names[word] for word in own(said.split()) if word in names} == set(
            found
        )
        assert sorted(w for w in own(said.split()) if w not in names) == sorted(values)
    else:
        items, said = listed(text)
        names = {word: i for i, words in items.items() for word in own(words)}
        order = [f"{names[word]}=" for word in own(said.split())]
        # Two adjacent words of a description are one or two mentions.
        said_once = [i for i, _ in itertools.groupby(order)]
        assert [i for i, _ in itertools.groupby(answer.split())] == said_once


def test_hidden_words_and_the_rest_make_up_the_text():
    text = "[user] find me a room in paris please [system] how about oslo"
    for seed in range(100):
        shown, answer = exercises.span(Draw(f"span/{seed}"), text)
        hidden = dict(re.findall(r"(<\d>) ([^<]+?)(?= <|$)", answer))
        rebuilt = re.sub(r"<\d>", lambda match, hidden=hidden: hidden[match[0]], shown)
        assert rebuilt == text
        assert "[user]" in shown and "[system]" in shown
        assert list(hidden) == [f"<{n}>" for n in range(len(hidden))]
