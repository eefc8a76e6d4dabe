"""Exercises in the subtasks of state tracking from descriptions.

Small models learn each subtask late if they see only the complete task. A line is an
input and its answer; A, B, C are random words:

- match: `0=A 1=B 2=C [user] C A C` -> `2= 0= 2=`: find the index of a description.
- recite: `0=A 1=B 2=C | 2= 0=` -> `C | A`: find the description of an index.
- option: `0a) A 0b) B 1a) C [user] C` -> `1a`: find the index of a value.
- copy: `0=A 1=B [user] B x A y` -> `0=y 1=x`: copy values next to their descriptions.
- span: `[user] i want <0> in paris` -> `<0> a room`: complete a dialogue with hidden
  words (Raffel et al., 2020, with spans of one to three words, 15% of all words).
"""

from collections.abc import Callable, Sequence

from jaxaug_papers.minisgd.draw import Draw

HIDDEN = 0.15
MOST_SPANS = 8
_ITEMS = (1, 2, 2, 3, 3, 4, 5, 6)
_FILLERS = ("the", "a", "of", "for", "is", "with", "i want", "and", "please")

Words = Callable[[], str]


def exercise(draw: Draw, word: Words) -> tuple[str, str]:
    """Returns an input and its answer, of any kind but `span`."""
    kind = draw.pick((_match, _match, _recite, _option, _copy, _copy))
    return kind(draw, word)


def _match(draw: Draw, word: Words) -> tuple[str, str]:
    items, text = _list(draw, word)
    asked = [draw.pick(range(len(items))) for _ in range(draw.pick((1, 2, 3, 5, 8)))]
    said = [_said(draw, items[i]) for i in asked]
    return f"{text} [user] {' '.join(said)}", " ".join(f"{i}=" for i in asked)


def _recite(draw: Draw, word: Words) -> tuple[str, str]:
    items, text = _list(draw, word)
    asked = draw.sample(range(len(items)), draw.pick((1, 2)))
    return (
        f"{text} | {' '.join(f'{i}=' for i in asked)}",
        " | ".join(" ".join(items[i]) for i in asked),
    )


def _option(draw: Draw, word: Words) -> tuple[str, str]:
    names, shown = [], []
    for number in range(draw.pick((1, 1, 2, 3))):
        for letter in "abcd"[: draw.pick((2, 3, 3, 4))]:
            names.append((f"{number}{letter}", word()))
            shown.append(f"{number}{letter}) {names[-1][1]}")
    asked = draw.sample(names, draw.pick((1, 2)))
    said = " ".join(_said(draw, [value]) for _, value in asked)
    return f"{' '.join(shown)} [user] {said}", " ".join(name for name, _ in asked)


def _copy(draw: Draw, word: Words) -> tuple[str, str]:
    items, text = _list(draw, word)
    asked = draw.sample(range(len(items)), draw.pick((1, 2, 3)))
    before = draw.chance(0.5)
    said, values = [], {}
    for i in asked:
        values[i] = " ".join(word() for _ in range(draw.pick((1, 1, 2))))
        name = _said(draw, items[i])
        said.append(f"{values[i]} {name}" if before else f"{name} {values[i]}")
    return (
        f"{text} [user] {' '.join(said)}",
        " ".join(f"{i}={values[i]}" for i in sorted(values)),
    )


def _list(draw: Draw, word: Words) -> tuple[list[list[str]], str]:
    """Returns descriptions of one to three words, and their list in prompt format."""
    count = draw.pick(_ITEMS)
    items = [[word() for _ in range(draw.pick((1, 1, 2)))] for _ in range(count)]
    shown = []
    for i, item in enumerate(items):
        words = list(item)
        if draw.chance(0.4):
            words.insert(int(draw.chance(0.5)), draw.pick(_FILLERS))
        shown.append(f"{i}={' '.join(words)}")
    return items, " ".join(shown)


def _said(draw: Draw, item: Sequence[str]) -> str:
    """Returns the item or one of its words, possibly after filler words."""
    text = " ".join(item if draw.chance(0.5) else [draw.pick(item)])
    return f"{draw.pick(_FILLERS)} {text}" if draw.chance(0.4) else text


def span(draw: Draw, text: str) -> tuple[str, str]:
    """Returns the text with hidden spans, and the hidden words."""
    words = text.split()
    shown, answer, number, at = [], [], 0, 0
    while at < len(words):
        hide = (
            number < MOST_SPANS
            and not words[at].startswith("[")
            and draw.chance(HIDDEN / 2)
        )
        if not hide:
            shown.append(words[at])
            at += 1
            continue
        end = at + 1
        most = at + draw.pick((1, 2, 3))
        while end < min(most, len(words)) and not words[end].startswith("["):
            end += 1
        shown.append(f"<{number}>")
        answer += [f"<{number}>", *words[at:end]]
        number, at = number + 1, end
    return " ".join(shown), " ".join(answer)
