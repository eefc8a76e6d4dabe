"""Parses a short description: its frame, its head, its object, and its words.

A frame names the person, but adds nothing to the content. "Help the user book a
flight", "service that lets people book flights", and "request to book a flight" all
mean "book a flight".

Slots are noun phrases ("date of the return flight"), clauses with a question word
("where to collect the parcel"), or flags ("whether pets are allowed"). Services and
intents are orders ("find and book flights"). A parser of newspaper text reads "pick up
date" as an order and "book a flight" as a book. The rules here are therefore our own:
function words mark the end of a phrase. Only the built-in lexicon is loaded.
"""

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from jaxaug.augment.language import inflection, lexicon
from jaxaug.augment.language.lexicon import STOP_WORDS

_WHO = r"(?:(?:the |a )?(?:users?|customers?|people|person)|somebody|someone|you)"
_WANTS = r"(?:wants?|would like|wishes|wish|needs?)"
_ASKS = r"(?:gives?|asks? for|prefers?|chooses?|selects?|means?)"
_SAYS = r"(?:tells?|says?|indicates?|shows?)"
_THING = (
    r"(?:(?:an? |the )?(?:app|application|platform|service|website|site|portal|"
    r"system|request)s? )"
)
_HELPS = r"(?:helps?|lets?|allows?|enables?)"


def _table(*rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(rule, re.IGNORECASE), by) for rule, by in rules)


# The first match is removed.
_ORDERS = _table(
    (rf"^(?:(?:when|if) )?{_WHO} {_WANTS} to ", ""),
    (
        rf"^{_THING}?(?:(?:that|which) )?{_HELPS} {_WHO} (?:to )?",
        "",
    ),
    (rf"^{_THING}(?:(?:on|in|with|through) which|where) {_WHO} (?:can|may) ", ""),
    (rf"^{_THING}(?:to|for) ", ""),
    (r"^to (?=\w+ )", ""),
)
# All matches are removed.
_SLOTS = _table(
    (
        rf" (?:that )?{_WHO} (?:{_WANTS}|{_ASKS}|(?:is|are) looking for)$",
        "",
    ),
    (r" that (?:is|are) (?:wanted|given|requested|needed)$", ""),
    (r" to (?:look|search|ask) for$", ""),
    (r" or not$", ""),
    (
        rf"^(?:{_SAYS}|true|yes|flag)\b(?: for)? (?:if|whether|when)(?: or not)? ",
        "whether ",
    ),
    (r"^(?:the )?(?:requested|desired|preferred|wanted|chosen|selected) ", ""),
    (r"^(?:total|full|exact) (?=number|count)", ""),
)


def inside(kind: str, text: str) -> str:
    """Returns the text without its frame.

    Args:
        kind: "slot", or anything else for orders.

    Returns:
        The text inside the frame; the text itself if nothing would be left.
    """
    found = text.strip().rstrip("?.")
    if kind == "slot":
        for rule, by in _SLOTS:
            found = rule.sub(by, found)
    else:
        for rule, by in _ORDERS:
            rest = rule.sub(by, found, count=1)
            if rest != found:
                found = rest
                break
    return found if found.strip() else text


def is_framed(kind: str, text: str) -> bool:
    """Returns whether a text has a frame."""
    return inside(kind, text) != text.strip().rstrip("?.")


_WORD = re.compile(r"[^\W_]+")
_OWNER = re.compile(r"['\u2019]s\b|(?<=s)['\u2019](?!\w)")
_ARTICLES = frozenset({"a", "an", "the"})
OWNERS = frozenset({"my", "your", "his", "her", "its", "our", "their"})
PREPOSITIONS = frozenset(
    (
        "about", "after", "at", "before", "between", "by", "during", "for", "from",
        "in",
        "into", "off", "on", "onto", "out", "over", "through", "to", "under", "up",
        "via",
        "with", "within", "without",
    )
)  # fmt: skip
_JOINED = frozenset({"and", "or"})
# Words that add nothing to their neighbors, in addition to the stop words.
_LIGHT = STOP_WORDS | frozenset(
    (
        "whether", "located", "situated", "call", "called", "named", "due",
        "getting", "much", "many", "certain", "specific", "specified", "given",
        "particular", "let",
    )
)  # fmt: skip
# Words that do not end a description.
_OPEN = _ARTICLES | OWNERS | {"of", "and", "or"}
_FLAGS = frozenset(
    (
        "is", "are", "was", "were", "do", "does", "did", "has", "can", "should", "will",
        "if", "whether",
    )
)  # fmt: skip
# Words before the verb of an order: "let's check", "please check", "start checking".
_BEFORE_ORDERS = frozenset({"let", "please", "start", "us", "to", "begin"})

FLAG, PLACE, TIME, PERSON = "flag", "where", "when", "who"
COUNT, PRICE, NAME, KIND = "how many", "how much", "name", "kind"
_OF_QUESTIONS = {"where": PLACE, "when": TIME, "who": PERSON, "whom": PERSON}
# Nouns that a question asks for: "where" for the city, but the address is not the city.
_ASKED = {
    PLACE: (
        "place location spot city town municipality address area region state country "
        "street neighborhood venue airport station destination origin"
    ),
    TIME: "date day time hour",
    PERSON: "person someone somebody people name",
    COUNT: "number count quantity amount",
    PRICE: "price cost charge fare fee rent amount",
    NAME: "name title",
    KIND: "type kind sort category class genre style",
}
_GENERAL = {"place": PLACE, "location": PLACE, "spot": PLACE, "someone": PERSON}
_GENERAL |= {"somebody": PERSON}
_CALLED = frozenset({"call", "name", "title"})
_COSTS = frozenset({"cost", "pay", "charge"})
_KINDS = frozenset({"type", "kind", "sort"})
# Actions of services, one set per line. The lexicon separates these words, as they are
# not synonyms in sentences.
_DEEDS = (
    "find search look seek browse discover locate",
    "book reserve",
    "buy purchase order",
    "rent hire",
    "send mail post ship deliver",
    "deliver delivery",
    "arrive arrival",
    "depart departure leave",
    "send transfer wire",
    "plan schedule arrange organize organise",
    "check verify view see",
    "show display",
    "collect pick pickup",
    "drop dropoff",
    "sing perform",
    "give offer provide",
    "get receive",
    "go head",
    "begin start",
    "watch stream see",
    "add create make",
    "pay settle",
    "number amount count quantity",
    "total sum overall",
    "person someone somebody",
    "people participants attendees guests",
    "type kind sort category",
    "song music track",
    "parcel package",
    "hotel accommodation lodging",
    "value worth amount",
)
# Pairs that the lexicon joins and services separate.
_APART = tuple(
    frozenset(pair.split())
    for pair in ("visit tour", "appointment meeting", "food meal")
)


class Phrase(NamedTuple):
    """A description, in parts.

    Attributes:
        words: all words, in lower case; possessives without their 's.
        heads: the noun that the phrase names, or the verbs of an order ("find and book
            flights"); empty in "to pick up date", which names nothing.
        asks: for a clause, its question, such as `PLACE`; `FLAG` for yes or no. Empty
            for other phrases, None for a clause with another question.
        object: the object noun of an order, or empty.
    """

    words: tuple[str, ...]
    heads: tuple[str, ...]
    asks: str | None
    object: str = ""

    @property
    def content(self) -> list[str]:
        """The content words, in order."""
        start = 0
        if self.object:  # An order: "start planning", "let's check".
            start = self.words.index(self.heads[0])
        return [word for word in self.words[start:] if word not in _LIGHT]

    @property
    def repeated(self) -> int:
        """Number of content words that repeat an earlier word or its synonym."""
        found = self.content
        return sum(
            any(named(word, before) for before in found[:place])
            for place, word in enumerate(found)
        )

    @property
    def ends_open(self) -> bool:
        """True if the end is incomplete: "hotel city of the"."""
        return self.words[-1:] != () and self.words[-1] in _OPEN


def words(text: str) -> tuple[str, ...]:
    """Returns the words of a text in lower case: "the doctor's" gives `the doctor`."""
    return tuple(_WORD.findall(_OWNER.sub(" ", text.lower())))


@functools.lru_cache(4096)
def bases(word: str) -> frozenset[str]:
    """Returns the word and its possible base forms: `cities` also gives `city`."""
    return frozenset(form.base for form in inflection.readings(word)) | {word}


@functools.lru_cache(65536)
def same(first: str, second: str) -> bool:
    """Returns whether two words may be forms of one word, or synonyms.

    Synonyms come from the built-in lexicon and from the actions of services.
    """
    own, other = bases(first), bases(second)
    if any(own & pair and other & pair and not own & other & pair for pair in _APART):
        return False
    return bool(own & other or other & _synonyms(own) or own & _synonyms(other))


def related(first: str, second: str) -> bool:
    """Returns whether two words have a synonym in common."""
    return bool(_synonyms(bases(first)) & _synonyms(bases(second)))


@functools.lru_cache(4096)
def _synonyms(words: frozenset[str]) -> frozenset[str]:
    known = lexicon.built_in()
    found = {
        synonym
        for word in words
        for synonyms in known.lookup(word).values()
        for synonym in synonyms
    }
    for line in _DEEDS:
        if words & set(line.split()):
            found.update(line.split())
    return frozenset(found)


def of_slot(text: str) -> Phrase:
    """Returns the parts of the description of a slot, or of any noun phrase."""
    found = words(text)
    start = 0
    while start < len(found) and found[start] in _ARTICLES | OWNERS:
        start += 1
    rest = found[start:]
    if not rest:
        return Phrase(found, (), "")
    asks = _asked(rest)
    if asks != "":
        return Phrase(found, (), asks)
    noun = _last_noun(rest)
    return Phrase(found, (noun,) if noun else (), "")


def of_order(text: str) -> Phrase:
    """Returns the parts of the description of a service or an intent."""
    found = words(text)
    start = 0
    while start < len(found) - 1 and (
        found[start] in _ARTICLES or bases(found[start]) & _BEFORE_ORDERS
    ):
        start += 1
    heads, rest = found[start : start + 1], found[start + 1 :]
    if rest[:1] and rest[0] in _JOINED:
        heads, rest = (*heads, *rest[1:2]), rest[2:]
    # "Search for a flight", "check out the room".
    while rest and rest[0] in PREPOSITIONS:
        rest = rest[1:]
    named = [word for word in rest if word not in _ARTICLES | OWNERS]
    ends = [place for place, word in enumerate(named) if word in _JOINED]
    for place in ends:
        heads = (*heads, *named[place + 1 : place + 2])
    return Phrase(
        found, heads, "", _last_noun(named[: min(ends, default=len(named))], True)
    )


def asked(phrase: Phrase, other: Phrase) -> bool | None:
    """Returns whether a clause asks for the thing that the other phrase names.

    Returns None if neither phrase is a clause.
    """
    if phrase.asks == "" and other.asks == "":
        return None
    if phrase.asks is None or other.asks is None:
        return False
    if phrase.asks and other.asks:
        return phrase.asks == other.asks
    kind, heads = phrase.asks or other.asks, phrase.heads or other.heads
    if kind == FLAG or not heads:
        return False
    return bool(bases(heads[0]) & set(_ASKED[kind].split()))


def says_what(word: str, clause: Phrase) -> bool:
    """Returns whether a word is part of the question: "what it costs", "what type"."""
    if not clause.asks or clause.asks == FLAG:
        return False
    parts = _COSTS if clause.asks == PRICE else set(_ASKED[clause.asks].split())
    return bool(bases(word) & parts)


def named(first: str, second: str) -> bool:
    """Returns whether two heads name the same thing, or one is a general word for it.

    For example, `place` is a general word for `city`.
    """
    if same(first, second):
        return True
    for general, other in ((first, second), (second, first)):
        for base in bases(general) & _GENERAL.keys():
            if bases(other) & set(_ASKED[_GENERAL[base]].split()):
                return True
    return False


def _asked(rest: Sequence[str]) -> str | None:
    """Returns the question of a clause; empty if the phrase is not a clause."""
    first, second = rest[0], "".join(rest[1:2])
    if first in _FLAGS:
        return FLAG
    if first in _OF_QUESTIONS:
        return _OF_QUESTIONS[first]
    said = {base for word in rest for base in bases(word)}
    if first == "how":
        if second == "many":
            return COUNT
        if second == "much":
            return PRICE if said & _COSTS else COUNT
        return None
    if first in ("what", "which"):
        if bases(second) & _KINDS:
            return KIND
        if second and second not in STOP_WORDS:
            return _noun_asked(second)
        if said & _COSTS:
            return PRICE
        return NAME if bases(rest[-1]) & _CALLED else None
    return ""


def _noun_asked(noun: str) -> str | None:
    """Returns the question of a noun: `PLACE` for "what city"."""
    for kind, nouns in _ASKED.items():
        if bases(noun) & set(nouns.split()):
            return kind
    return None


def _last_noun(rest: Sequence[str], is_object: bool = False) -> str:
    """Returns the last word before the next phrase: `date` of "date of the show".

    A preposition between two content words may be part of a compound: "check in date",
    "pick up date". A preposition before an article is not: "doctor in a town".
    """
    last = ""
    for place, word in enumerate(rest):
        behind = "".join(rest[place + 1 : place + 2])
        if word in ("up", "in", "off", "out") and not is_object and last:
            if behind and behind not in STOP_WORDS:
                continue
            break
        if word in _JOINED:
            continue
        if word in STOP_WORDS:
            break
        last = word
    return last
