"""Word classes and fixed pairs of a source text, which decide where synonyms fit."""

import dataclasses
import functools
from collections.abc import Sequence

from etils import epath

from jaxaug.augment.grammar import senses, vocabulary
from jaxaug.augment.grammar.chunks import NOUN, VERB, WORD, Chunk, chunks
from jaxaug.augment.grammar.senses import Sense
from jaxaug.augment.language import nlp
from jaxaug.augment.language.inflection import BASE, GERUND, THIRD, readings
from jaxaug.core.errors import UserError

_FILE = epath.Path(__file__).parent / "collocations.txt"
# Words in front of a description, with which it is a whole clause or group.
_BEFORE = {VERB: "i want to", NOUN: "the", THIRD: "it"}
# A gerund behind one of these may be the subject of a clause: "before boarding starts".
_CONJUNCTIONS = frozenset(["before", "after", "until", "since"])
_OPENING = vocabulary.QUESTIONS | {"it", "there", "which", "who"}
_BASE_BEHIND = vocabulary.word_set(
    "to can could will would should may might must do does did you they we i and or , "
    "optionally also"
)
# Verbs of the tables that are nouns too, which nouns.txt lacks.
_ALSO_NOUNS = vocabulary.word_set(
    "print block archive display drive drop exhibit feed fix hand handle hire issue "
    "launch limit lock look measure monitor move need patch pick plan plant post "
    "raise refill reserve scan schedule search share stream suit swap switch talk "
    "trade turn view walk wash watch wish wait dispatch file fill find finish help "
    "hold hunt lead leave mail offer reach refuse request run start stop use "
)


@dataclasses.dataclass(frozen=True)
class Source:
    """Restrictions of synonyms by the words of a source text.

    Attributes:
        known: (kind of chunk, base form) of the words that may be replaced.
        nouns: lower-case words that look like a third person and are nouns here.
        verbs: lower-case words that are verbs here.
        adjectives: lower-case words that are adjectives or participles here.
        fixed: ((kind of chunk, base form), partners) of its fixed verb-noun pairs.
    """

    known: frozenset[tuple[str, str]]
    nouns: frozenset[str]
    verbs: frozenset[str] = frozenset()
    adjectives: frozenset[str] = frozenset()
    fixed: tuple[tuple[tuple[str, str], frozenset[str]], ...] = ()

    def allows(self, kind: str, sense: Sense) -> bool:
        """Returns whether a chunk of a kind may have a synonym."""
        if (kind, sense.old) not in self.known:
            return False
        partners = (p for key, p in self.fixed if key == (kind, sense.old))
        return all(_pairs(kind, sense.new, one) for many in partners for one in many)


def read(text: str, is_verb_phrase: bool) -> Source:
    """Returns the rewordings that the words of a text allow.

    If a spaCy model is installed, its tags decide the class of ambiguous words.

    Args:
        text: one sentence without its final mark, with a lower-case first letter.
    """
    first = chunks(text, is_verb_phrase)
    tagged, adjectives = _tags(text, first)
    nouns = frozenset(word for word, kinds in tagged.items() if kinds == {NOUN})
    verbs = frozenset(word for word, kinds in tagged.items() if kinds == {VERB})
    parsed = chunks(text, is_verb_phrase, nouns, verbs, adjectives)
    # The tagger decides what neighbors leave open, but for a clause of two such words.
    unclear = _subjects(parsed) if tagged else _subjects(parsed) | _undecided(parsed)
    known: set[tuple[str, str]] = set()
    for place, chunk in enumerate(parsed):
        if chunk.kind == WORD:
            continue
        for word, base in _bases(chunk):
            kinds = tagged.get(word.removesuffix("'s"), frozenset())
            disagrees = bool(kinds) and chunk.kind not in kinds
            if not disagrees and (place, word) not in unclear:
                known.add((chunk.kind, base))
    return Source(frozenset(known), nouns, verbs, adjectives, _fixed(text))


def _bases(chunk: Chunk) -> list[tuple[str, str]]:
    """Returns (lower-case word that decides the class, base form) pairs of a chunk."""
    if chunk.kind == VERB:
        return [(chunk.words[len(chunk.adverb)].lower(), chunk.base)]
    spans = senses.spans(chunk.words)
    found = [(chunk.words[end - 1].lower(), base) for _, end, base in spans]
    return found + [(word.lower(), word.lower()) for word in chunk.words]


def _tags(
    text: str, parsed: Sequence[Chunk]
) -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """Returns word -> kinds of chunk by spaCy's tags, and adjectives and participles.

    Both are empty without spaCy.
    """
    if not nlp.installed() or not parsed:
        return {}, frozenset()
    first = parsed[0]
    start = _BEFORE.get(THIRD if first.form == THIRD else first.kind, "")
    if first.det or (first.kind == VERB and first.form not in (BASE, THIRD)):
        start = ""
    (document,) = nlp.analyse([f"{start} {text}".strip()])
    found: dict[str, set[str]] = {}
    adjectives = set()
    for token in document.tokens[len(start.split()) :]:
        if token.tag.startswith("JJ") or token.tag in ("VBN", "VBG"):
            adjectives.add(token.text.lower())
        modifies = token.dep in ("compound", "amod")
        kinds = found.setdefault(token.text.lower(), set())
        if token.tag.startswith("NN") or token.tag == "VBN" or modifies:
            kinds.add(NOUN)  # A participle may describe a noun.
        if token.tag.startswith("VB"):
            kinds.add(VERB)
        if token.pos not in ("NOUN", "PROPN", "VERB", "AUX"):
            kinds |= {NOUN, VERB}  # "Printed copies": no opinion.
    kinds_of = {word: frozenset(kinds) for word, kinds in found.items()}
    return kinds_of, frozenset(adjectives)


def _is_both(word: str) -> bool:
    """Returns whether the tables have a word as a noun and as a verb."""
    noun = vocabulary.singular(word)
    listed = noun in vocabulary.nouns() or noun in _ALSO_NOUNS | _nouns()
    forms = vocabulary.verb_forms(word)
    return listed and any(one.form in (BASE, THIRD, GERUND) for one in forms)


@functools.cache
def _nouns() -> frozenset[str]:
    """Returns the nouns that have synonyms."""
    return frozenset(
        old for old, found in senses.table().items() if any(s.pos == "n" for s in found)
    )


def _subjects(parsed: Sequence[Chunk]) -> set[tuple[int, str]]:
    """Returns (place, word) of "printing" and "starts" in "before printing starts"."""
    found = set()
    for place in range(2, len(parsed)):
        before, gerund, last = parsed[place - 2 : place + 1]
        if before.cls not in _CONJUNCTIONS or gerund.form != GERUND:
            continue
        word = last.words[0].lower()
        forms = {one.form for one in vocabulary.verb_forms(word)}
        alone = last.kind == NOUN and len(last.words) == 1 and not last.det
        if alone and THIRD in forms:
            found |= {(place - 1, gerund.words[0].lower()), (place, word)}
    return found


def _undecided(parsed: Sequence[Chunk]) -> set[tuple[int, str]]:
    """Returns (place, word) of each word whose class its neighbors leave open."""
    found = set()
    for place, chunk in enumerate(parsed):
        before = parsed[place - 1] if place else None
        after = parsed[place + 1] if place + 1 < len(parsed) else None
        if chunk.kind == VERB and len(chunk.words) == 1:
            word = chunk.words[0].lower()
            if _is_both(word) and not _is_verb(chunk, before, after, parsed[:place]):
                found.add((place, word))
        elif chunk.kind == NOUN and len(chunk.words) == 1 and not chunk.det:
            word = chunk.words[0].lower()
            of = after is not None and after.kind == WORD
            behind = before is None or before.kind != NOUN
            if _is_both(word) and not (behind and (of or after is None)):
                found.add((place, word))
    return found


def _is_verb(
    chunk: Chunk, before: Chunk | None, after: Chunk | None, earlier: Sequence[Chunk]
) -> bool:
    """Returns whether the neighbors of a verb say that it is one."""
    has_object = after is not None and after.kind == NOUN
    if chunk.form == BASE:
        return before is None or before.cls in _BASE_BEHIND
    if chunk.form == GERUND:
        return has_object
    if chunk.form != THIRD:
        return True
    if before is None:
        return has_object
    verbs = [place for place, one in enumerate(earlier) if one.kind == VERB]
    clause = earlier[verbs[-1] + 1 if verbs else 0 :]
    return any(one.cls in _OPENING for one in clause)


@functools.cache
def collocations() -> dict[str, frozenset[str]]:
    """Returns verb -> nouns that it goes with.

    Raises:
        UserError: a line of the file is malformed.
    """
    found: dict[str, frozenset[str]] = {}
    for number, line in enumerate(_FILE.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        verb, *nouns = (word.replace("_", " ") for word in line.split())
        if not nouns or verb in found:
            raise UserError(
                f"{_FILE}, line {number}: {line!r} is not a new verb with nouns. Write "
                "the verb once, then all its nouns."
            )
        found[verb] = frozenset(nouns)
    return found


def _fixed(text: str) -> tuple[tuple[tuple[str, str], frozenset[str]], ...]:
    """Returns the collocations in a text: each of the two words with its partners."""
    words = text.lower().split()
    verbs = {form.base for w in words for form in readings(w) if form.pos in ("", "v")}
    verbs |= {*words}
    singular = " ".join(vocabulary.singular(word.strip(",;:")) for word in words)
    found: dict[tuple[str, str], set[str]] = {}
    for verb, nouns in collocations().items():
        for noun in nouns if verb.partition(" ")[0] in verbs else ():
            if f" {noun} " in f" {singular} ":
                found.setdefault((VERB, verb), set()).add(noun)
                found.setdefault((NOUN, noun), set()).add(verb)
    return tuple((key, frozenset(partners)) for key, partners in found.items())


def _pairs(kind: str, new: str, partner: str) -> bool:
    """Returns whether a synonym goes with the other word of a fixed pair."""
    verb, noun = (new, partner) if kind == VERB else (partner, new)
    return noun in collocations().get(verb, frozenset())
