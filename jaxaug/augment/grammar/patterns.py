"""Patterns over chunks, and templates that write what a pattern found.

A pattern is a sequence of literal words, with `|` between alternatives (`at_which` is
two words) and `?` after optional ones, and of variables:

    {d:DATE|TIME}    a noun group whose head has one of these classes of nouns.txt
    {x:NP}           any noun group;  {x:NPX}  one with its prepositional phrases;
                     {x:NPC}  several with `and` or `or`
    {x:NP=start date/starting date}     the group, without determiner, is one of these
    {x:NP<start/starting}   the words before its head are one of these; {x:NP<} has none
    {x:NP>fee/charge}       its head, in the singular, is one of these
    {x:DATE+}, {x:DATE!}    it has words before its head, or none
    {x:NP*}, {x:NP^}        it is a plural; it is a singular with a determiner
    {v:BUY.base}     a verb of a class of verbs.txt in a form; V: any, DO: all but TELL
    {x:NPO}          a noun group with its `of` phrases
    {t:TAIL}         nothing, or the rest from a preposition on; {t:QTAIL}  but not
                     from `of` on; {t:CTAIL}, {t:PTAIL}  the same, or from a clause on
    {t:ITAIL}, {t:OTAIL}, {t:LTAIL}  nothing, or the rest from `to`, from `of`, or from
                     in, at, on, or for on; {t:NTAIL}  from a preposition, no clause;
    {t:STAIL}, {t:MTAIL}  the rest from a preposition of place, or of measures, on
    {t:ANY}          nothing or anything
    {r:REST}         one chunk or more; {r:PLAIN}  without a second verb after `and`
                     or `or`

A template repeats variables, perhaps changed: see `_NOUN` and `_VERB`.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence

from jaxaug.augment.grammar import vocabulary
from jaxaug.augment.grammar.chunks import NOUN, VERB, WORD, Chunk
from jaxaug.augment.language.inflection import BASE, GERUND, PARTICIPLE, THIRD

Match = Mapping[str, Sequence[Chunk]]

_FORMS = (BASE, THIRD, PARTICIPLE, GERUND)
_NOUN_PREPOSITIONS = "of for in at on to from with per by about"
_TAIL_STARTS = (
    _NOUN_PREPOSITIONS + " between near as based before after during within without"
)
_NEAR = "in at on for near with from"
_CLAUSES = "how what whether when where which who whom whose why that if"
_CLAUSE_STARTS = " where when that which who whom to"
_VARIABLE = re.compile(r"\{(\w+):([^}]+)\}")
_WRITTEN = re.compile(r"\{(\w+)(?:\.([^}]+))?\}")
_PRONOUNS = vocabulary.word_set("someone somebody anyone anybody everyone everybody")
_OWN = vocabulary.DETERMINERS - {"a", "an", "the", "these", "those", "another"}


class _Codes(dict[tuple[str, ...], str]):
    """Key of a chunk -> one character; a key gets its character at its first use."""

    def __missing__(self, key: tuple[str, ...]) -> str:
        self[key] = chr(0xE000 + len(self))
        return self[key]


_codes = _Codes()


def _key(chunk: Chunk) -> tuple[str, ...]:
    if chunk.kind == VERB:
        return (VERB, chunk.cls, chunk.form)
    return (chunk.kind, chunk.cls)


def encode(chunks: Sequence[Chunk]) -> str:
    """Returns one character for each chunk."""
    return "".join(_codes[_key(chunk)] for chunk in chunks)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A compiled pattern.

    Attributes:
        expression: regular expression over the characters of `encode`.
        tests: name of a variable -> whether its chunks are allowed.
        starts: a matching text begins with one of these characters; empty for any.
    """

    expression: re.Pattern[str]
    tests: tuple[tuple[str, Callable[[Sequence[Chunk]], bool]], ...]
    starts: frozenset[str]

    def match(self, chunks: Sequence[Chunk], codes: str) -> Match | None:
        """Returns the chunks of each variable, or None if the text does not match."""
        found = self.expression.fullmatch(codes)
        if found is None:
            return None
        match = {
            name: chunks[slice(*found.span(name))]
            for name in self.expression.groupindex
        }
        if all(test(match[name]) for name, test in self.tests):
            return match
        return None


@functools.cache
def compiled(pattern: str) -> Pattern:
    """Compiles a pattern.

    Raises:
        ValueError: a class or form is unknown.
    """
    parts, tests = [], []
    for item in re.findall(r"\{[^}]*\}|\S+", pattern):
        if variable := _VARIABLE.fullmatch(item):
            name, kind = variable.groups()
            expression, test = _variable(kind)
            parts.append(f"(?P<{name}>{expression})")
            tests += [(name, test)] if test else []
        else:
            optional = item.endswith("?")
            words = "|".join(
                "".join(_codes[WORD, word] for word in one.split("_"))
                for one in item.rstrip("?").split("|")
            )
            parts.append(f"(?:{words})" + "?" * optional)
    expression = "".join(parts)
    # All characters of the first part, so that most patterns need not be tried.
    starts = frozenset() if "." in parts[0] else frozenset(parts[0])
    return Pattern(re.compile(expression), tuple(tests), starts)


def _variable(kind: str) -> tuple[str, Callable[[Sequence[Chunk]], bool] | None]:
    found = re.fullmatch(r"([^=<>+!*^]+)(?:([=<>+!*^])([^!]*)(!?))?", kind)
    if not found:
        raise ValueError(f"{kind!r} is not a variable of a pattern")
    names, sign, values, alone = found.groups()
    test = None
    if sign:
        wanted = frozenset((values or "").split("/"))
        signs = sign + (alone or "")
        test = functools.partial(_tested, signs, wanted)
    return "|".join(map(_class, names.split("|"))), test


def _tested(signs: str, wanted: frozenset[str], chunks: Sequence[Chunk]) -> bool:
    words = [word.lower() for word in chunks[0].words]
    sign = signs[0]
    if signs.endswith("!") and len(words) > 1:
        return False
    if sign == "=":
        return " ".join(words) in wanted
    if sign == "*":
        return is_plural(chunks[:1]) or words[-1] == "people"
    if sign == "^":
        return bool(chunks[0].det) and not is_plural(chunks[:1])
    if sign in "+!":
        size = vocabulary.noun_size(chunks[0].words)
        return (len(words) > size) == (sign == "+")
    if sign == ">":
        return vocabulary.singular(words[-1]) in wanted
    return " ".join(words[:-1]) in wanted


def _class(name: str) -> str:
    nouns = {*vocabulary.nouns().values(), "THING"}
    if name in nouns:
        # The class EVENT includes HELD.
        parts = ("EVENT", "HELD") if name == "EVENT" else (name,)
        return f"[{''.join(_codes[NOUN, one] for one in parts)}]"
    noun = f"[{''.join(_codes[NOUN, one] for one in sorted(nouns))}]"
    verb = "".join(
        _codes[VERB, one, form]
        for one in vocabulary.verbs().values()
        for form in _FORMS
    )
    verb, joining = f"[{verb}]", _letters("and or")
    fixed = {
        "NP": noun,
        "NPX": f"{noun}(?:[{_letters(_NOUN_PREPOSITIONS + ' and or')}]{noun})*",
        "TAIL": _tail(_TAIL_STARTS),
        "NTAIL": rf"(?:[{_letters(_TAIL_STARTS)}][^{_letters(_CLAUSES)}]+)?",
        "STAIL": f"(?:[{_letters(_NEAR)}][^{_letters(_CLAUSES + ' by')}]+)?",
        "NPO": f"{noun}(?:{_codes[WORD, 'of']}{noun})*",
        "PTAIL": _tail(_TAIL_STARTS.removeprefix("of ") + _CLAUSE_STARTS),
        "OTAIL": _tail("of"),
        "ITAIL": _tail("to"),
        "MTAIL": _tail("per in at for before after during without"),
        "LTAIL": f"[{_letters('in at on for')}].*",
        "NPC": f"{noun}(?:[{_letters('and or')}]{noun})*",
        "QTAIL": _tail(_TAIL_STARTS.removeprefix("of ")),
        "CTAIL": _tail(_TAIL_STARTS + _CLAUSE_STARTS),
        "ANY": ".*",
        "MODAL": f"[{_letters('must can may should will could')}]",
        "REST": f"(?![{joining}]).+",
        "PLAIN": f"(?![{joining}])(?:(?![{joining}]{verb}|{_codes[WORD, 'not']}).)+",
        "BE": f"[{_letters('is are')}]",
        "PREP": f"[{_letters('in at on to for from by with')}]",
        "WAS": f"[{_letters('is are was were')}]",
    }
    if name in fixed:
        return fixed[name]
    cls, _, form = name.partition(".")
    every = {*vocabulary.verbs().values()}
    classes = sorted({"V": every, "DO": every - {"TELL"}}.get(cls, {cls}))
    if form not in _FORMS or not set(classes) <= every:
        raise ValueError(f"{name!r} is not a class of the grammar")
    return f"[{''.join(_codes[VERB, one, form] for one in classes)}]"


def _tail(starts: str) -> str:
    """Returns an expression for nothing, or for one of `starts` and the rest."""
    return f"(?:[{_letters(starts)}].+)?"


def _letters(words: str) -> str:
    return "".join(_codes[WORD, word] for word in words.split())


def text_of(chunks: Sequence[Chunk]) -> str:
    """Returns the text of some chunks."""
    return " ".join(chunk.text for chunk in chunks)


def _the(chunks: Sequence[Chunk]) -> str:
    """Returns the group with `the`, unless it has a possessive or a quantifier."""
    first = chunks[0]
    if first.kind != NOUN:
        return text_of(chunks)
    own = first.det.lower() in _OWN or first.words[0].endswith(("'s", "s'"))
    own |= first.words[0].lower() in _PRONOUNS
    own = own or first.words[0][:1].isupper() or _is_activity(first)
    det = first.det if own else "the"
    if not det and first.words[0].endswith("'s") and first.words[0][0].islower():
        det = "the"  # "Donor's weight".
    return text_of([dataclasses.replace(first, det=det), *chunks[1:]])


def _is_activity(chunk: Chunk) -> bool:
    """Returns whether a group is a gerund alone, such as "fasting"."""
    word = chunk.text.lower()
    return word.endswith("ing") and " " not in word and word not in vocabulary.nouns()


def _bare(chunks: Sequence[Chunk]) -> str:
    return text_of([dataclasses.replace(chunks[0], det=""), *chunks[1:]])


def _noun(chunks: Sequence[Chunk]) -> str:
    """Returns the group after a noun: "hotel [phone number]", without adjectives."""
    if _describes(chunks[0]):
        raise Unwritable("noun")
    return _bare(chunks)


def _is_general(chunks: Sequence[Chunk]) -> bool:
    """Returns whether a group names no certain thing: "pets", "a pet", "parking"."""
    det = chunks[0].det.lower()
    uncountable = chunks[0].words[-1].lower() in vocabulary.UNCOUNTABLE
    return det in ("a", "an") or (not det and (uncountable or is_plural(chunks)))


def _numbered(change: Callable[[str], str], chunks: Sequence[Chunk]) -> str:
    *before, head = chunks[0].words
    group = dataclasses.replace(chunks[0], det="", words=(*before, change(head)))
    return text_of([group, *chunks[1:]])


def _a(chunks: Sequence[Chunk]) -> str:
    text = _numbered(vocabulary.singular, chunks)
    if chunks[0].cls == "MASS":
        return text
    return f"{'an' if text[:1].lower() in 'aeio' else 'a'} {text}"


def _possessive(chunks: Sequence[Chunk]) -> str:
    text = _the(chunks[:1])
    if text.endswith("s"):
        raise Unwritable("poss")
    return f"{text}'s"


def _split(chunks: Sequence[Chunk]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the words before the noun of a group, and the noun."""
    words = chunks[0].words
    size = len(words) - vocabulary.noun_size(words)
    return words[:size], words[size:]


def _describes(chunk: Chunk) -> bool:
    """Returns whether words before a noun name no thing: adjectives, possessives."""
    plain = vocabulary.ADJECTIVES | vocabulary.MODIFIERS
    words = _split([chunk])[0]
    return chunk.described or any(w.lower() in plain or w.endswith("'s") for w in words)


def is_plural(chunks: Sequence[Chunk]) -> bool:
    """Returns whether the head of a noun group is a plural."""
    return vocabulary.is_plural(chunks[0].words[-1])


_NOUN: dict[str, Callable[[Sequence[Chunk]], str]] = {
    "the": _the,
    "bare": _bare,
    "noun": _noun,
    "gen": lambda chunks: text_of(chunks) if _is_general(chunks) else _the(chunks),
    "sg": functools.partial(_numbered, vocabulary.singular),
    "pl": functools.partial(_numbered, vocabulary.plural),
    "anypl": functools.partial(_numbered, vocabulary.plural),
    "a": _a,
    "poss": _possessive,
    "ahead": lambda chunks: _a(
        [dataclasses.replace(chunks[0], words=chunks[0].words[-1:])]
    ),
    "head": lambda chunks: " ".join(_split(chunks)[1]),
    "mods": lambda chunks: " ".join(_split(chunks)[0]),
    "nouns": lambda chunks: " ".join(_split(chunks)[0]),
    "themods": lambda chunks: "the " + " ".join(_split(chunks)[0]),
    "is": lambda chunks: "are" if is_plural(chunks) else "is",
    "has": lambda chunks: "have" if is_plural(chunks) else "has",
    "does": lambda chunks: "do" if is_plural(chunks) else "does",
    "who": lambda chunks: "who" if chunks[0].cls == "PERSON" else "that",
}
_VERB: dict[str, str] = {
    "base": BASE, "ing": GERUND, "pp": PARTICIPLE, "third": THIRD,
}  # fmt: skip
NOMINALS = {
    "reserve": "reservation", "book": "booking", "search": "search", "find": "search",
    "search for": "search", "look for": "search", "transfer": "transfer",
    "buy": "purchase", "purchase": "purchase", "pay": "payment",
    "cancel": "cancellation", "rent": "rental", "schedule": "scheduling",
    "deliver": "delivery", "visit": "visit", "order": "order", "create": "creation",
    "delete": "deletion", "request": "request", "donate": "donation",
    "repair": "repair", "manage": "management", "send": "dispatch", "renew": "renewal",
    "compare": "comparison", "play": "playback", "register": "registration",
}  # fmt: skip
EVENT_VERBS = {
    "departure": "depart", "arrival": "arrive", "pickup": "pick up",
    "pick-up": "pick up", "drop-off": "drop off", "dropoff": "drop off",
    "return": "return", "rental": "rent", "delivery": "deliver",
    "reservation": "reserve", "booking": "book", "collection": "collect",
    "payment": "pay", "visit": "visit", "stay": "stay", "repair": "repair",
    "transfer": "transfer", "donation": "donate", "inspection": "inspect",
    "harvest": "harvest", "purchase": "buy", "order": "order", "treatment": "treat",
    "vaccination": "vaccinate",
}  # fmt: skip


class Unwritable(Exception):
    """A template asks for a form that a variable does not have."""


def _either(template: str) -> list[str]:
    """Returns variables without spaces between them; a pattern has one of them."""
    groups = re.findall(r"(?:\{\w+\}){2,}", template)
    return [one for group in groups for one in re.findall(r"\{\w+\}", group)]


def write(template: str, match: Match) -> str:
    """Fills in a template.

    Raises:
        Unwritable: see the class.
    """

    def put(found: re.Match[str]) -> str:
        if found[1] not in match:  # Another pattern of the rule has it.
            if found[0] in _either(template):
                return ""
            raise Unwritable(found[1])
        return _written(match[found[1]], found[2] or "")

    return " ".join(_WRITTEN.sub(put, template).split())


def _written(chunks: Sequence[Chunk], change: str) -> str:
    if not change or not chunks:
        return text_of(chunks)
    first = chunks[0]
    if change.startswith("v:"):  # A given verb, which agrees with the group.
        base = change[2:]
        return base if is_plural(chunks) else vocabulary.inflected(base, THIRD)
    if first.kind == VERB:
        if change == "noun":
            if first.base not in NOMINALS or first.adverb:
                raise Unwritable(change)
            return NOMINALS[first.base]
        rest = text_of(chunks[1:])
        return " ".join([*first.inflected(first.base, _VERB[change]), rest]).strip()
    if change.startswith("event."):
        verb = EVENT_VERBS.get(vocabulary.singular(first.words[-1]).lower())
        if verb is None:
            raise Unwritable(change)
        return vocabulary.inflected(verb, _VERB[change.removeprefix("event.")])
    hides = change in ("nouns", "themods") and _describes(first)
    hides |= change == "anypl" and not _is_general(chunks)
    if hides or (change in ("mods", "nouns", "themods") and not _split(chunks)[0]):
        raise Unwritable(change)
    return _NOUN[change](chunks)
