"""The rules of `rules.txt`, with patterns, templates, examples, and counterexamples.

Rules depend on the context of a description in its schema.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etils import epath

from jaxaug.augment.grammar import patterns, vocabulary
from jaxaug.augment.grammar.chunks import VERB, Chunk
from jaxaug.augment.grammar.patterns import Pattern
from jaxaug.augment.language.inflection import GERUND, PARTICIPLE
from jaxaug.core.errors import UserError
from jaxaug.data.schema import Schema, Service

_WORD = re.compile(r"[^\W\d_]+")


@dataclasses.dataclass(frozen=True)
class Context:
    """The context of a description in its schema.

    Attributes:
        kind: "slot", "intent", or "service".
        siblings: words of the other slots or intents of the service, in lower case.
        service: words that name and describe the service, in lower case.
        is_flag: whether the slot is true or false.
        is_input: whether users give the slot's value; False for results of a call.
    """

    kind: str = "slot"
    siblings: frozenset[str] = frozenset()
    service: frozenset[str] = frozenset()
    is_flag: bool = False
    is_input: bool = True

    def to_json(self) -> dict[str, Any]:
        """Returns the context as JSON values, sorted."""
        return {
            "kind": self.kind,
            "siblings": sorted(self.siblings),
            "service": sorted(self.service),
            "is_flag": self.is_flag,
            "is_input": self.is_input,
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Context":
        """Inverts `to_json`."""
        words = {name: frozenset(values[name]) for name in ("siblings", "service")}
        return cls(**{**values, **words})


def contexts(schema: Schema) -> dict[str, list[Context]]:
    """Returns the contexts of each text of a schema, in the schema's order."""
    found: dict[str, list[Context]] = {}
    for service in schema.services:
        for text, context in _contexts(service):
            if context not in found.setdefault(text, []):
                found[text].append(context)
    return found


def _contexts(service: Service) -> Iterator[tuple[str, Context]]:
    about = _words(re.sub(r"(?<=[a-z])(?=[A-Z])|_|\d", " ", service.name))
    about |= _words(service.description)
    yield service.description, Context("service", service=about)
    given = {
        name
        for intent in service.intents
        for name in (
            *intent.required_slots,
            *(slot for slot, _ in intent.optional_slots),
        )
    }
    results = {name for intent in service.intents for name in intent.result_slots}
    for kind, items in (("slot", service.slots), ("intent", service.intents)):
        for item in items:
            others = [one for one in items if one is not item]
            values = {v.lower() for v in getattr(item, "possible_values", ())}
            yield (
                item.description,
                Context(
                    kind,
                    frozenset().union(*(_words(one.description) for one in others)),
                    about,
                    bool(values) and values <= {"true", "false", "yes", "no"},
                    item.name in given or item.name not in results,
                ),
            )


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


_FILE = epath.Path(__file__).parent / "rules.txt"
_FIELDS = ("match", "write", "good", "bad")
KINDS = ("slot", "flag", "value", "input", "intent", "service")
_FINAL = "final"
_VOWEL_SOUND = re.compile(r"\b(a|an) (?=(\w))", re.IGNORECASE)
_OTHERS = ("people", "somebody", "everyone", "user", "customer")
_SPEAKER = frozenset({"my", "our"})
_ADDRESSED = frozenset({"you", "your", *_OTHERS})
_NOT_AN = ("use", "user", "uni", "one", "euro", "eu")


@dataclasses.dataclass(frozen=True)
class Rule:
    """A meaning-preserving operation.

    Attributes:
        name: unique name.
        kinds: descriptions to which it applies: "slot", "intent", or "service"; "flag"
            is a slot that is true or false, "value" any other, "input" one whose value
            users give.
        matches: patterns; see `patterns`.
        writes: templates.
        good: (source, result) examples of the rule.
        bad: texts for which the rule gives nothing.
        is_final: whether no other rule changes its results; synonyms still do.
    """

    name: str
    kinds: tuple[str, ...]
    matches: tuple[str, ...]
    writes: tuple[str, ...]
    good: tuple[tuple[str, str], ...]
    bad: tuple[str, ...]
    is_final: bool

    def fits(self, kind: str, is_flag: bool, is_input: bool) -> bool:
        """Returns whether the rule applies to a description; see `engine.Context`."""
        names = {kind}
        if kind == "slot":
            names |= {"flag"} if is_flag else {"value"}
            names |= {"input"} if is_input and not is_flag else set()
        return not names.isdisjoint(self.kinds)

    @functools.cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The compiled patterns."""
        return tuple(map(patterns.compiled, self.matches))

    def apply(self, chunks: Sequence[Chunk], codes: str) -> Iterator[str]:
        """Yields the results of the rule for a text."""
        for pattern in self.patterns:
            if pattern.starts and codes[:1] not in pattern.starts:
                continue
            match = pattern.match(chunks, codes)
            if match is None:
                continue
            for template in self.writes:
                try:
                    yield tidy(patterns.write(template, match))
                except patterns.Unwritable:
                    continue


def tidy(text: str) -> str:
    """Corrects `a` and `an`, and the spaces before marks."""

    def article(found: re.Match[str]) -> str:
        rest = text[found.end() :].lower()
        vowel = rest[:1] in "aeiou" and not rest.startswith(_NOT_AN)
        vowel = vowel or rest.startswith(("hour", "honest"))
        start = found[1][0]
        return f"{start}n " if vowel else f"{start} "

    if not text.replace(" ", "").isalpha():  # It has marks.
        text = re.sub(r" ([,;:.!?…)])", r"\1", text).replace("( ", "(")
    text = re.sub(r"\b([ei])\. ?([ge])\. ?(?=\w)", r"\1.\2. ", text)  # "e. g."
    return _VOWEL_SOUND.sub(article, text)


_REMARKS = vocabulary.PREPOSITIONS | vocabulary.word_set(
    "not if as when where unless such like because since"
)
_MARKS = frozenset(["(", ";", ":"])


@functools.cache
def table() -> tuple[Rule, ...]:
    """Returns the rules in the order of the file.

    Raises:
        UserError: a line of the file does not belong to a rule.
    """
    found: list[Rule] = []
    for block in re.split(r"\n\s*\n", _FILE.read_text(encoding="utf-8")):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            found.append(_rule(lines))
    names = [rule.name for rule in found]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise UserError(f"{_FILE}: two rules are called {twice[0]!r}. Rename one.")
    return tuple(found)


def _rule(lines: Sequence[str]) -> Rule:
    head = re.fullmatch(r"\[([\w-]+)\]\s+([\w ]+)", lines[0])
    kinds = tuple(head[2].removesuffix(_FINAL).split()) if head else ()
    if not head or not set(kinds) <= set(KINDS):
        raise UserError(
            f"{_FILE}: {lines[0]!r} does not begin a rule. Write `[name] kinds`, "
            f"perhaps with `final` at the end, with kinds of {', '.join(KINDS)}."
        )
    fields: dict[str, list[str]] = {name: [] for name in _FIELDS}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        if name not in fields or not value:
            raise UserError(
                f"{_FILE}: [{head[1]}]: {line!r} is not a line of a rule. Write "
                f"`name: value`, with a name of {', '.join(_FIELDS)}."
            )
        fields[name].append(value.strip())
    good = [tuple(map(str.strip, value.split("->"))) for value in fields["good"]]
    return Rule(
        head[1],
        kinds,
        tuple(fields["match"]),
        tuple(fields["write"]),
        tuple((pair[0], pair[1]) for pair in good),
        tuple(fields["bad"]),
        head[2].endswith(_FINAL),
    )


def apply(chunks: Sequence[Chunk], context: Context) -> Iterator[tuple[str, str]]:
    """Yields (name of a rule, reworded text) for each rule that matches a text.

    If the text ends with a remark after a comma or bracket, the rules also apply to the
    text before it, and the remark is appended to the results.

    Args:
        chunks: chunks of the text of a description.
        context: kind of the description, and words of its schema.
    """
    yield from _apply(chunks, context)
    place = _remark(chunks)
    if place:
        remark = patterns.text_of(chunks[place:])
        for name, written in _apply(chunks[:place], context):
            if not written.endswith("?"):
                yield name, tidy(f"{written} {remark}")


def _remark(chunks: Sequence[Chunk]) -> int:
    """Returns the place of a comma or bracket with a remark behind it, else 0.

    "Price, including taxes" has one, and "name, address" has none.
    """
    for place, chunk in enumerate(chunks[1:-1], 1):
        after = chunks[place + 1]
        if chunk.cls in _MARKS or chunk.text in _MARKS:
            return place
        if chunk.cls == "as" and after.cls in ("it", "they"):
            return place  # "Name as it stands on the card".
        if chunk.cls == ",":
            is_verb = after.kind == VERB and after.form in (GERUND, PARTICIPLE)
            is_remark = is_verb or {after.cls, after.text} & _REMARKS
            return place if is_remark else 0
    return 0


def _apply(chunks: Sequence[Chunk], context: Context) -> Iterator[tuple[str, str]]:
    codes = patterns.encode(chunks)
    text = patterns.text_of(chunks)
    clashes = _clashes(text)
    mine = not _SPEAKER.isdisjoint(text.split())
    place = context.kind, context.is_flag, context.is_input
    for rule in _starting(codes[:1], *place):
        for written in rule.apply(chunks, codes):
            if mine and not _ADDRESSED.isdisjoint(written.split()):
                continue  # "Help the user track my order": whose order is it?
            if clashes or not _clashes(written):
                yield rule.name, written


def _clashes(text: str) -> bool:
    """Returns whether a text refers to the user in the second and the third person."""
    words = set(text.split())
    return not words.isdisjoint(("you", "your")) and not words.isdisjoint(_OTHERS)


@functools.cache
def _fitting(kind: str, is_flag: bool, is_input: bool) -> tuple[Rule, ...]:
    return tuple(rule for rule in table() if rule.fits(kind, is_flag, is_input))


@functools.lru_cache(8192)
def _starting(code: str, kind: str, is_flag: bool, is_input: bool) -> tuple[Rule, ...]:
    """Returns the fitting rules with a pattern that may begin with `code`."""
    return tuple(
        rule
        for rule in _fitting(kind, is_flag, is_input)
        if any(not one.starts or code in one.starts for one in rule.patterns)
    )


@functools.cache
def final() -> frozenset[str]:
    """Returns the names of the rules whose results no other rule changes."""
    return frozenset(rule.name for rule in table() if rule.is_final)
