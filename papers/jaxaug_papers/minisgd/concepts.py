"""The phrases of users and systems of MiniSGD for a slot, by its meaning.

Every slot names a concept of `phrases/concepts.json`; slots of different services may
share a concept. Phrases depend on the meaning of the slot, not on the schema variant.
"""

import importlib.resources
import json
import re
from dataclasses import dataclass
from typing import Any

_PREPOSITIONS = (
    "around|at|by|for|from|in|near|of|on|out of|through|to|under|until|with|without"
)
_FRAGMENT = re.compile(
    rf"({_PREPOSITIONS}|again|as fast|back|called|delivered|furnished|located|not|only"
    r"|somewhere|that|where|worth|written|wrapped|\w+ing)\b"
)
_INFINITIVE = re.compile(r"to (see|pick|drop|watch|live|hear|help|meet|arrive|stay)\b")
_NOUNS = re.compile(
    r"(a|an|some|something) |\{v\}($| [a-z]+$| \()|the \w+ \{v\}$|the \{v\} \w+$"
)
_ARTICLE = re.compile(r"\ba \{v\}")
_NUMBER = re.compile(r"\((\w+)\|(\w+)\)")


@dataclass(frozen=True, slots=True)
class Concept:
    """The phrases of a meaning of slots.

    Attributes:
        noun: name of the slot in "any NOUN is fine".
        tell: statements of a value. "{v}" is the value; "(seat|seats)" agrees with it.
        yes: statements of the value True; the first one is also used by the system.
        no: statements of the value False; the first one is also used by the system.
        suggest: phrases after "how about"; empty derives them from `tell`.
        role: such as "city" or "day"; slots with the same role in two services may
            share a value.
        same: phrases that take over the value of another service.
    """

    noun: str
    tell: tuple[str, ...] = ()
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    wonder: tuple[str, ...] = ()
    suggest: tuple[str, ...] = ()
    role: str = ""
    same: tuple[str, ...] = ()

    @property
    def offer(self) -> tuple[str, ...]:
        """The phrases that fit after "how about": no clauses."""
        return self.suggest or tuple(
            text
            for text in self.tell
            if re.match(rf"({_PREPOSITIONS})\b", text) and not _INFINITIVE.match(text)
        )

    @property
    def with_article(self) -> bool:
        """The values are common nouns, such as "the museum"."""
        return bool(self.tell) and all("the {v}" in text for text in self.tell)

    @property
    def added(self) -> tuple[str, ...]:
        """The phrases of `tell` that can continue a sentence: no bare nouns."""
        return tuple(t for t in self.tell if not _NOUNS.match(t)) or self.tell


def goes_on(phrase: str) -> bool:
    """Returns whether a phrase can continue a sentence without an "and"."""
    return bool(_FRAGMENT.match(phrase))


def agreeing(template: str, value: str) -> str:
    """Returns the template in agreement with a value, such as "{v} seat" for 1."""
    if value[0] in "aeio":
        template = _ARTICLE.sub("an {v}", template)
    return _NUMBER.sub(lambda both: both[1 if value == "1" else 2], template)


def _concept(raw: dict[str, Any]) -> Concept:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in raw.items()
    }
    return Concept(**values)


def _load(name: str) -> dict[str, Any]:
    folder = importlib.resources.files(__package__) / "phrases"
    return json.loads((folder / name).read_text("utf-8"))


CONCEPTS: dict[str, Concept] = {
    name: _concept(raw) for name, raw in _load("concepts.json").items()
}
# How a user opens an intent, keyed by the original names of service and intent.
OPENERS: dict[tuple[str, str], tuple[str, ...]] = {
    (service, intent): tuple(texts)
    for service, intents in _load("openers.json").items()
    for intent, texts in intents.items()
}
