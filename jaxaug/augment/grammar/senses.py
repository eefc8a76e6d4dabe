"""Replaces words and phrases by synonyms of `senses.txt` and `wordnet.txt`.

Word classes and fixed pairs of the source text decide where synonyms fit.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from etils import epath

from jaxaug.augment.grammar import patterns, vocabulary
from jaxaug.augment.grammar.chunks import NOUN, VERB, WORD, Chunk, chunks
from jaxaug.augment.grammar.rules import Context, tidy
from jaxaug.augment.language import nlp
from jaxaug.augment.language.inflection import BASE, GERUND, PARTICIPLE, THIRD, readings
from jaxaug.core.errors import UserError

# The first file with a pair of words wins.
_WORDNET = "wordnet.txt"
_FILES = [epath.Path(__file__).parent / name for name in ("senses.txt", _WORDNET)]
_CONDITIONS = ("if", "txt", "not", "but", "obj")


@dataclasses.dataclass(frozen=True)
class Sense:
    """A pair of words with one sense.

    Attributes:
        pos: "n", "v", "a", or "p", see the file.
        old: the word to replace, in its base form.
        new: the replacement, in its base form.
        of_heads: whether a noun stays before another noun: the harbor of "harbor
            master".
        needed: one of these words must be in the text or describe the service, if any.
        text: one of these words must be in the text, if any.
        refused: none of these words may be in the text or describe the service.
        absent: none of these words may be in the text.
        objects: classes of the noun after the verb; empty for any.
    """

    pos: str
    old: str
    new: str
    of_heads: bool
    needed: frozenset[str]
    text: frozenset[str]
    refused: frozenset[str]
    absent: frozenset[str]
    objects: frozenset[str]

    @property
    def name(self) -> str:
        """Name of the step in a derivation."""
        return f"{self.old} -> {self.new}"


Allows = Callable[[str, Sense], bool]


@functools.cache
def table() -> dict[str, tuple[Sense, ...]]:
    """Returns old word -> its senses in the order of the files.

    Raises:
        UserError: a line of a file is malformed.
    """
    found: dict[str, list[Sense]] = {}
    for path in _FILES:
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if line and not line.startswith("#"):
                place = f"{path}, line {number}"
                for sense in _senses(line, place, path.name == _WORDNET):
                    found.setdefault(sense.old, []).append(sense)
    return {old: tuple(senses) for old, senses in found.items()}


def _senses(line: str, place: str, of_heads: bool) -> Iterator[Sense]:
    """Yields the pairs of a line."""
    pos, *rest = line.split()
    conditions = dict(part.split("=", 1) for part in rest if "=" in part)
    words = [part.replace("_", " ") for part in rest if "=" not in part]
    unknown = set(conditions) - {*_CONDITIONS}
    if pos not in ("n", "v", "a", "p") or unknown or len(set(words) - {"->"}) < 2:
        raise UserError(
            f"{place}: {line!r} is not a sense. Write n, v, a or p, two words or more, "
            "and conditions `if=`, `txt=`, `not=`, `but=`, `obj=`."
        )
    sets = [
        frozenset(conditions[name].split("/")) if name in conditions else frozenset()
        for name in _CONDITIONS
    ]
    both = "->" not in words
    words = [word for word in words if word != "->"]
    for old in words if both else words[:1]:
        yield from (
            Sense(pos, old, new, of_heads, *sets) for new in words if new != old
        )


def apply(
    chunks: Sequence[Chunk], context: Context, allows: Allows
) -> Iterator[tuple[str, str]]:
    """Yields (step, text) with one word or phrase replaced by a synonym.

    Args:
        allows: whether a kind of chunk may have a synonym. Only words of the source do,
            so that no synonym is replaced by a further synonym.
    """
    yield from _phrases(patterns.text_of(chunks), context)
    for place, found in enumerate(choices(chunks, context, allows)):
        for sense, changed in found:
            written = [*chunks[:place], changed, *chunks[place + 1 :]]
            yield sense.name, tidy(patterns.text_of(written))


def replace_all(
    chunks: Sequence[Chunk], found: Sequence[Sequence[tuple[Sense, Chunk]]], number: int
) -> tuple[tuple[str, ...], str]:
    """Returns (steps, text) with one word replaced in every group that has a synonym.

    Args:
        found: options of each chunk, as from `choices`.
        number: selects the synonyms: the next number takes the next one of each word,
            and the words move at different speeds.
    """
    names: list[str] = []
    written = list(chunks)
    for place, options in enumerate(found):
        if options:
            step = number * (1 + len(names) % 3) + len(names)
            sense, written[place] = options[step % len(options)]
            names.append(sense.name)
    return tuple(names), tidy(patterns.text_of(written))


@functools.cache
def _phrase_table() -> tuple[tuple[re.Pattern[str], tuple[Sense, ...]], ...]:
    """Returns (expression, senses) of each phrase."""
    return tuple(
        (re.compile(rf"\b{re.escape(old)}\b(?![-'’])"), senses)
        for old, all_senses in table().items()
        if (senses := tuple(one for one in all_senses if one.pos == "p"))
    )


def _phrases(text: str, context: Context) -> Iterator[tuple[str, str]]:
    """Yields (step, text) with one phrase replaced."""
    for expression, senses in _phrase_table():
        if not expression.search(text):
            continue
        words = {*re.findall(r"[^\W\d_]+", text.lower())}
        for sense in senses:
            if _holds(sense, words, words | _service(context)):
                yield sense.name, tidy(expression.sub(sense.new, text))


def _holds(sense: Sense, words: AbstractSet[str], near: AbstractSet[str]) -> bool:
    """Returns whether the conditions on the text and its service hold."""
    if sense.needed and not sense.needed & near:
        return False
    if sense.text and not sense.text & words:
        return False
    return not sense.refused & near and not sense.absent & words


@functools.lru_cache(1024)
def _service(context: Context) -> frozenset[str]:
    """Returns the words of the service, and their singulars."""
    return context.service | {vocabulary.singular(word) for word in context.service}


def choices(
    chunks: Sequence[Chunk], context: Context, allows: Allows
) -> list[list[tuple[Sense, Chunk]]]:
    """Returns (sense, changed form) of each chunk; see `apply` for the arguments."""
    words = {
        form
        for chunk in chunks
        for word in chunk.words
        for form in (word.lower(), vocabulary.singular(word.lower()))
    }
    near = words | _service(context)
    twice = _repeated(chunks)
    found: list[list[tuple[Sense, Chunk]]] = []
    before: Chunk | None = None
    subject: Chunk | None = None
    asks = bool(chunks) and chunks[0].cls in _BE
    for chunk, behind in zip(chunks, [*chunks[1:], None], strict=False):
        # "Is the bin full": the last word describes the group before it.
        follows = before is not None and before.cls in _BE
        follows |= asks and behind is None and len(chunks) > 2
        # Two senses may give the same text.
        one = {
            changed.text: (sense, changed)
            for sense, changed in _changed(chunk, follows)
            if allows(chunk.kind, sense)
            and sense.old not in twice
            and _takes(sense, subject if chunk.form == PARTICIPLE else None, behind)
            and _holds(sense, words, near)
            and not _is_taken(sense, words, context.siblings)
        }
        found.append(list(one.values()))
        # "The room that is reserved": the verb acts on the subject.
        subject = before if chunk.cls in _PASSIVE else None
        before = chunk if chunk.cls != "that" else before
    return found


def _repeated(chunks: Sequence[Chunk]) -> frozenset[str]:
    """Returns the base forms of nouns that a text has twice."""
    words = (word.lower() for c in chunks if c.kind == NOUN for word in c.words)
    bases = [vocabulary.singular(word.removesuffix("'s")) for word in words]
    return frozenset(base for base in bases if bases.count(base) > 1)


@functools.lru_cache(8192)
def _heads(new: str) -> tuple[frozenset[str], frozenset[str]]:
    """Returns (all content words, the head) of a synonym."""
    words = [w for w in new.split() if w not in _PLAIN]
    return frozenset(words), frozenset([_head(new)]) - _PLAIN


_PLAIN = (
    vocabulary.PREPOSITIONS
    | vocabulary.DETERMINERS
    | vocabulary.AUXILIARIES
    | vocabulary.OTHERS
)


def _is_taken(
    sense: Sense, words: AbstractSet[str], siblings: AbstractSet[str]
) -> bool:
    """Returns whether a synonym repeats the text, or is the name of a sibling."""
    meaning, head = _heads(sense.new)
    own = {*sense.old.split()}
    return bool(meaning & words - own) or bool(head & siblings - own)


def _takes(sense: Sense, subject: Chunk | None, behind: Chunk | None) -> bool:
    """Returns whether the next chunk fits: class of the noun, number, prepositions."""
    is_noun = behind is not None and behind.kind == NOUN
    if sense.pos == "v" and behind is not None and behind.text in vocabulary.PARTICLES:
        return False  # "Makes up" is another verb than "makes".
    if sense.objects:
        about = subject or behind
        if "NONE" in sense.objects:
            return about is None or about.kind != NOUN
        return about is not None and about.kind == NOUN and about.cls in sense.objects
    if sense.pos == "v" and sense.new.rpartition(" ")[2] in _TAKE_NOUNS:
        return is_noun or sense.old.rpartition(" ")[2] in vocabulary.PREPOSITIONS
    if sense.pos == "n" and behind is not None:
        if " to " in sense.new and behind.cls == "of":
            return False
        # "How high the funds is": the verb agrees with the old word.
        is_verb = behind.form == THIRD or behind.cls in ("is", "has", "was", "does")
        return not is_verb or not _turns_plural(sense)
    return True


def _turns_plural(sense: Sense) -> bool:
    plural = vocabulary.is_plural
    return plural(_head(sense.new)) and not plural(_head(sense.old))


@functools.lru_cache(8192)
def _head(phrase: str) -> str:
    """Returns the noun of a phrase: "place" of "place to stay"."""
    return re.split(r" (?:of|to|in|at|for|on|with|by) ", phrase)[0].split()[-1]


# Heads of compounds whose first noun may have a synonym.
_ATTRIBUTES = vocabulary.word_set(
    "ADDRESS CITY COUNT DATE EVENT IDENT KIND MONEY NAME NOTE PHONE RATING SIZE SPAN "
    "STATUS SUM TIME YEAR"
)
_ACTIVE = vocabulary.word_set("get have be come go")
_TAKE_NOUNS = vocabulary.word_set("for of to with at from through after")
_BE = vocabulary.word_set("is are")
_PASSIVE = _BE | {"was", "were", "be"}


@functools.lru_cache(20_000)
def _changed(chunk: Chunk, is_predicate: bool) -> tuple[tuple[Sense, Chunk], ...]:
    """Returns the forms of a chunk with one word replaced."""
    return tuple(_changes(chunk, is_predicate))


def _changes(chunk: Chunk, is_predicate: bool) -> Iterator[tuple[Sense, Chunk]]:
    if chunk.kind == VERB:
        for sense in table().get(chunk.base, ()):
            # "To be made a booking for" and "to be gotten" are not passives.
            active = sense.new.count(" ") > 1 or sense.new.split()[0] in _ACTIVE
            if sense.pos == "v" and not (active and chunk.form == PARTICIPLE):
                written = chunk.inflected(sense.new, chunk.form)
                yield sense, dataclasses.replace(chunk, words=written)
    if chunk.kind != NOUN:
        return
    for start, end, base in spans(chunk.words):
        last, lower = end == len(chunk.words), " ".join(chunk.words[start:end]).lower()
        mine = chunk.words[end - 1].lower().endswith("'s")
        for sense in table().get(base, table().get(lower, ())):
            if sense.pos == "n":
                yield from _renamed(sense, chunk, (start, end), lower != base)
            elif sense.pos == "a" and not mine and last == is_predicate:
                if " " in sense.new and not last:
                    continue
                yield sense, _with(chunk, (start, end), sense.new)


def _renamed(
    sense: Sense, chunk: Chunk, span: tuple[int, int], is_changed: bool
) -> Iterator[tuple[Sense, Chunk]]:
    """Yields a noun group with another noun in its form: plural, possessive."""
    start, end = span
    new, last = sense.new, chunk.words[end - 1].lower()
    if last.endswith("'s"):
        if {*new.split()} & vocabulary.PREPOSITIONS or new.endswith("s"):
            return
        new += "'s"
    elif is_changed:
        new = _plural_phrase(new)
    # A phrase with a preposition stands alone: no "ticket sum to pay".
    inside = end < len(chunk.words)
    if start and not vocabulary.PREPOSITIONS.isdisjoint(new.split()):
        return
    if inside and ({*new.split()} & vocabulary.PREPOSITIONS or new.count(" ") > 1):
        return
    narrow = sense.of_heads or chunk.cls not in _ATTRIBUTES
    if inside and narrow and not last.endswith("'s"):
        return  # "Concert hall" is no "gig hall", but "concert date" is "gig date".
    if start and new.endswith(f" {sense.old}"):
        return  # "Delivery street address".
    if start:
        before = chunk.words[start - 1].lower()
        plain = before in vocabulary.ADJECTIVES | vocabulary.MODIFIERS
        if before in vocabulary.PURPOSES or (
            sense.old in vocabulary.VAGUE and not plain
        ):
            return  # "Waiting list", "subject area".
    # "Lodging room" and "hotels city" are not English.
    mass = _head(new) in vocabulary.UNCOUNTABLE and end - start == 1
    if inside and not last.endswith("'s") and (is_changed or mass):
        return
    yield sense, _with(chunk, span, new)


def _with(chunk: Chunk, span: tuple[int, int], new: str) -> Chunk:
    words = (*chunk.words[: span[0]], *new.split(), *chunk.words[span[1] :])
    det = chunk.det
    if det.lower() in ("a", "an") and span[1] == len(chunk.words):
        # "A hotel" is "accommodation".
        head = _head(new)
        uncountable = head in vocabulary.UNCOUNTABLE or vocabulary.is_plural(head)
        det = "" if uncountable else det
    return dataclasses.replace(chunk, words=words, det=det)


@functools.lru_cache(8192)
def spans(words: tuple[str, ...]) -> tuple[tuple[int, int, str], ...]:
    """Returns (start, end, base form) of the replaceable nouns of a group.

    A word of a fixed group is not replaceable: "number" in "phone number".
    """
    lower = [word.lower().removesuffix("'s") for word in words]
    found = []
    for size in (3, 2, 1):
        for start in range(len(words) - size + 1):
            end = start + size
            base = vocabulary.singular(lower[end - 1])
            base = " ".join([*lower[start : end - 1], base])
            if size > 1 and base not in vocabulary.nouns() and base not in table():
                continue
            if not _is_inside(lower, start, end):
                found.append((start, end, base))
    return tuple(found)


def _is_inside(lower: Sequence[str], start: int, end: int) -> bool:
    """Returns whether a span is a part of a longer noun of nouns.txt."""
    for first in range(start + 1):
        for behind in range(end, len(lower) + 1):
            if behind - first <= end - start:
                continue
            last = vocabulary.singular(lower[behind - 1])
            if " ".join([*lower[first : behind - 1], last]) in vocabulary.nouns():
                return True
    return False


def _plural_phrase(words: str) -> str:
    """Returns the plural of a noun that words may follow: "place to stay"."""
    found = re.fullmatch(r"(.+?)( (?:of|to|in|at|for|on|with|by) .+)", words)
    if found:
        return vocabulary.plural(found[1]) + found[2]
    return vocabulary.plural(words)


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


def read_source(text: str, is_verb_phrase: bool) -> Source:
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
    replaceable = spans(chunk.words)
    found = [(chunk.words[end - 1].lower(), base) for _, end, base in replaceable]
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
        old for old, found in table().items() if any(s.pos == "n" for s in found)
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
