"""Splits a short text into noun groups, verbs, and function words, without a tagger."""

import dataclasses
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from jaxaug.augment.grammar import vocabulary
from jaxaug.augment.language.inflection import BASE, GERUND, PARTICIPLE, PAST, THIRD

NOUN, VERB, WORD = "noun", "verb", "word"
# A number, a mask (see `jaxaug.paraphrase.literals`), a word, or a mark.
_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*|\[[^\[\]]+\]|[^\W\d_](?:[\w'’/-]*\w)?|\S")
# "Check in date" is "check-in date".
_PAIR = re.compile(
    r"\b(check|pick|drop) (in|out|up|off)"
    r"(?= (?:date|time|day|location|place|point|city|address)\b)",
    re.IGNORECASE,
)
_SUBJECTS = frozenset({"it", "you", "they", "we", "i", "that", "which", "who", "there"})
_MODALS = vocabulary.word_set(
    "can could will would should may might must do does did not"
)
# Adjectives that may follow their noun.
_BEHIND = vocabulary.word_set(
    "available nearest closest left free open closed online responsible"
)
_HELPERS = vocabulary.word_set("has have had do does did")
_JOINING = frozenset({"and", "or", ","})
_ASKING = frozenset({"should", "can", "will", "may", "must"})
_BEHIND_BASE = vocabulary.word_set("and or , for how what whether which")
_ENDS = frozenset({"", "the", "each", "every", ",", ";", "("})
_ARTICLES = frozenset({"a", "an", "the", "my", "your", "all"})
# "Service for booking sessions", but "service for parking permits".
_SERVED = vocabulary.word_set("booking buying selling viewing learning teaching")
_BE = frozenset(["is", "are", "was", "were", "be", "been", "being"])


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """A noun group, a verb, or a closed-class word.

    Attributes:
        kind: `NOUN`, `VERB`, or `WORD`.
        cls: class of the head noun or of the verb; the lower-case word itself for
            `WORD`.
        words: words of a noun group without its determiner, or of a verb with its
            particle and behind its adverb.
        det: determiner of a noun group, else empty.
        base: base form of a verb, with its particle.
        form: form of a verb; a constant of `language.inflection`.
        described: whether the tagger finds an adjective before the head noun.
    """

    kind: str
    cls: str
    words: tuple[str, ...]
    det: str = ""
    base: str = ""
    form: str = ""
    described: bool = False

    @property
    def adverb(self) -> tuple[str, ...]:
        """The adverb in front of a verb, else ()."""
        first = self.words[:1] if self.kind == VERB else ()
        return first if {*map(str.lower, first)} <= vocabulary.ADVERBS else ()

    def inflected(self, base: str, form: str) -> tuple[str, ...]:
        """Returns the words of another verb in a form, behind the same adverb."""
        return (*self.adverb, *vocabulary.inflected(base, form).split())

    @property
    def text(self) -> str:
        """The chunk as written."""
        return " ".join([self.det, *self.words] if self.det else self.words)


def tokens(text: str) -> list[str]:
    """Returns the words and marks of a text."""
    return [match.group() for match in _TOKEN.finditer(_PAIR.sub(r"\1-\2", text))]


class _Reader:
    """Reads tokens from left to right."""

    def __init__(
        self,
        words: Sequence[str],
        is_verb_phrase: bool,
        nouns: AbstractSet[str],
        verbs: AbstractSet[str],
        adjectives: AbstractSet[str],
    ):
        self.words, self.is_verb_phrase = words, is_verb_phrase
        self.nouns, self.verbs, self.adjectives = nouns, verbs, adjectives
        self.lower = [word.lower() for word in words]
        self.found: list[Chunk] = []
        # True after the beginning of a clause until its verb.
        self.waits = False
        self.place = 0

    def read(self) -> list[Chunk]:
        """Returns the chunks of all tokens."""
        while self.place < len(self.words):
            if not (self._adverb() or self._closed() or self._verb()):
                self._noun()
        return self.found

    def _adverb(self) -> bool:
        """Takes an adverb with the verb behind it."""
        adverb, after = self.words[self.place], self._next()
        if adverb.lower() not in vocabulary.ADVERBS or self._is_closed(after):
            return False
        self.place += 1
        if not self._verb():
            self.place -= 1
            return False
        verb = self.found.pop()
        self.found.append(dataclasses.replace(verb, words=(adverb, *verb.words)))
        return True

    def _closed(self) -> bool:
        word = self.lower[self.place]
        if word == "that" and self._next() in vocabulary.PREPOSITIONS | {""}:
            return False
        if word in vocabulary.QUESTIONS:
            self.waits = True
        elif word in vocabulary.AUXILIARIES:
            if word in _HELPERS and not self._helps():
                return False
            # "Do students pay": the verb comes after the group.
            asks = not self.found or self.found[0].cls in vocabulary.QUESTIONS
            begins = asks and word in ("has", "have", *_ASKING)
            self.waits = word in ("do", "does", "did") or begins
        elif word not in vocabulary.PREPOSITIONS | vocabulary.OTHERS:
            return False
        self.found.append(Chunk(WORD, word, (self.words[self.place],)))
        self.place += 1
        return True

    def _helps(self) -> bool:
        """Returns whether a form of have or do is an auxiliary of another verb."""
        after = self.lower[self.place + 1 : self.place + 3]
        if self.lower[self.place].startswith("d"):
            before = self.found[-1].cls if self.found else ""
            relative = before in ("that", "which", "who")
            return not (relative and after[:1] and after[0] in vocabulary.DETERMINERS)
        if not self.found and after[:1] and after[0] in vocabulary.DETERMINERS:
            # "Has the guest paid", but not "has a deposit".
            behind = self.lower[self.place + 3 : self.place + 5]
        else:
            behind = [word for word in after if word not in vocabulary.ADVERBS][:1]
        return any(
            form.form == PARTICIPLE
            for word in behind
            for form in vocabulary.verb_forms(word)
        ) or behind[:1] in (["been"], ["had"])

    def _verb(self) -> bool:
        word = self.lower[self.place]
        if word in ("has", "have", "had"):
            return self._take("have", {"has": THIRD, "have": BASE}.get(word, PAST))
        for form in vocabulary.verb_forms(word):
            if self._is_verb(form.form, word) and self._take(form.base, form.form):
                return True
        return self._unknown_verb(word)

    def _is_plural(self, word: str) -> bool:
        """Returns whether a word is the subject behind "which": "which guests pay"."""
        known = vocabulary.singular(word) in vocabulary.nouns()
        return word in self.nouns or known or self._next() in _BE | _MODALS

    def _is_tagged(self, word: str) -> bool:
        """Returns whether the tagger has a word as a verb, and it may be one here."""
        before = self.found[-1] if self.found else None
        if word not in self.verbs or before is None:
            return False
        return before.cls == "to" or before.cls not in vocabulary.PREPOSITIONS

    def _unknown_verb(self, word: str) -> bool:
        """Takes a verb that verbs.txt lacks, if only a verb fits the place."""
        before = self.found[-1].cls if self.found else ""
        wanted = ""
        if word in vocabulary.DETERMINERS | vocabulary.ADVERBS:
            return False  # "Which this", "can also be"
        if before in ("that", "which", "who") and not self._is_plural(word):
            wanted = THIRD
        elif before in _BE and (
            self._is_closed(self._next()) or self._next() in vocabulary.PARTICLES
        ):
            wanted = PARTICIPLE
        elif (before == "to" and self._next() in vocabulary.DETERMINERS) or (
            before in _MODALS and self._is_closed(self._next())
        ):
            wanted = BASE
        elif not self.found and self.is_verb_phrase and self._next() in _ARTICLES:
            # "Assess the damage", "computes the fee".
            wanted = THIRD if re.search(r"[^s]s$", word) else BASE
        elif self._is_tagged(word):
            wanted = _form(word)
        for form in vocabulary.any_verb(word, wanted) if wanted else ():
            cls = vocabulary.verbs().get(form, "OTHER")
            self.found.append(
                Chunk(VERB, cls, (self.words[self.place],), base=form, form=wanted)
            )
            self.place += 1
            self.waits = False
            return True
        return False

    def _take(self, base: str, form: str) -> bool:
        words, verb = [self.words[self.place]], base
        after = self._next()
        if after in vocabulary.particles().get(base, ()):
            verb = f"{base} {after}"
            words.append(self.words[self.place + 1])
        elif base not in vocabulary.verbs():
            return False
        # After a form of be, or after its noun, it is a participle.
        form = PARTICIPLE if form in (PAST, PARTICIPLE) else form
        cls = vocabulary.verbs()[verb]
        self.found.append(Chunk(VERB, cls, tuple(words), base=verb, form=form))
        self.place += len(words)
        self.waits = False
        return True

    def _is_verb(self, form: str, word: str) -> bool:
        """Returns whether a possible verb form is a verb in its place."""
        before = self.found[-1] if self.found else None
        tests = {BASE: self._is_base, THIRD: self._is_third, GERUND: self._is_gerund}
        if form in tests:
            return tests[form](before, word)
        return before is not None and self._is_participle(before)

    def _is_base(self, before: Chunk | None, word: str) -> bool:
        after = self._next()
        is_noun = word in vocabulary.nouns()
        if before is None:
            # "Learn to drive", but not "request to book".
            joins = after in _BEHIND_BASE or (after == "to" and not is_noun)
            return self.is_verb_phrase and (joins or not self._is_closed(after))
        if before.cls in _JOINING and len(self.found) > 1:
            has_verb = any(c.kind == VERB and c.form == BASE for c in self.found[:-2])
            follows_object = self.found[-2].kind == NOUN and has_verb
            known = not is_noun or not self._is_closed(after)
            return self._continues(BASE) or (follows_object and known)
        if before.cls == "to":
            return after != "of"
        if before.cls in _MODALS | {"you", "they", "we", "i", "optionally", "also"}:
            return True
        if before.cls in ("that", "which", "who", "where", "when"):
            return not is_noun
        if before.kind != NOUN:
            return False
        if len(self.found) > 1 and self.found[-2].base in ("help", "let"):
            return not is_noun or not self._is_closed(after)
        if before.words[-1].lower() == "user":
            return self.waits or word == "want"
        # "Do guests pay", "where does the guest pay".
        agrees = any(c.cls in {"does", "did", *_ASKING} for c in self.found[:3])
        agrees |= vocabulary.is_plural(before.words[-1])
        return self.waits and agrees and not is_noun

    def _is_third(self, before: Chunk | None, word: str) -> bool:
        is_noun = vocabulary.singular(word) in vocabulary.nouns()
        if word in self.nouns or self._next() in _MODALS - {"not"} | _BE:
            return False  # "The finished prints will be collected".
        if before is None:
            return not is_noun or self._next() in _ARTICLES
        if before.cls in _SUBJECTS:
            return True
        return before.kind == NOUN and (self.waits or not is_noun)

    def _is_gerund(self, before: Chunk | None, word: str) -> bool:
        after = self._next()
        if after == "of" and before is not None and before.kind == NOUN:
            return False  # "Current reading of the meter".
        if self._continues(GERUND) and not self._is_closed(after):
            return True
        if word in _SERVED and [c.cls for c in self.found[-2:]] == ["APP", "for"]:
            return not self._is_closed(after)
        modifies = after and after not in vocabulary.DETERMINERS
        if word in vocabulary.MODIFIERS and modifies and not self._is_closed(after):
            return False
        if f"{word} {vocabulary.singular(after)}" in vocabulary.nouns():
            return False  # "Charging point".
        before_word = before.cls if before else ""
        if word in vocabulary.nouns() and before_word not in ("for", "of"):
            return False
        if before is None or before.kind == NOUN:
            return True
        return before_word in vocabulary.PREPOSITIONS | _BE | _JOINING | {"optionally"}

    def _is_participle(self, before: Chunk) -> bool:
        if before.cls in _BE | {"has", "have", "had", "who", "that", "which"}:
            return True
        if before.base == "get":  # "Get notified".
            return self.lower[self.place] not in vocabulary.nouns()
        if before.kind != NOUN or before.words[-1].lower() in vocabulary.MODIFIERS:
            return False
        if self.lower[self.place] in vocabulary.nouns() and not self.waits:
            return False  # "Total cost".
        return self.waits or self._next() in vocabulary.PREPOSITIONS | _ENDS

    def _continues(self, form: str) -> bool:
        """Returns whether `and` or the like follows a verb in a form."""
        if len(self.found) < 2 or self.found[-1].cls not in _JOINING:
            return False
        return self.found[-2].kind == VERB and self.found[-2].form == form

    def _noun(self) -> None:
        det, words = "", list[str]()
        start = self.place
        while self.place < len(self.words):
            word = self.lower[self.place]
            if word in vocabulary.DETERMINERS:
                if words or det:
                    break
                det = self.words[self.place]
            elif self._ends_group(word, bool(words)) or (
                words
                and word in _BEHIND
                and self._is_closed(self._next())
                and words[-1].lower() not in vocabulary.ADVERBS
            ):
                break
            else:
                words.append(self.words[self.place])
            self.place += 1
        if self.place == start:  # Nothing fits: the word is its own group.
            words.append(self.words[self.place])
            self.place += 1
        if (
            len(words) > 1
            and self._asks()
            and (self.place == len(self.words) or words[-1].lower() in self.adjectives)
        ):
            # "is the parcel insured", "is it safe for": the last word is the question.
            self.place -= 1
            words.pop()
        if not words:  # A determiner alone.
            det, words = "", [det]
        cls = vocabulary.noun_class(tuple(words))
        described = any(word.lower() in self.adjectives for word in words[:-1])
        self.found.append(Chunk(NOUN, cls, tuple(words), det, described=described))

    def _asks(self) -> bool:
        """Returns whether the text is a question that began with a form of be."""
        return [chunk.cls for chunk in self.found] in (["is"], ["are"])

    def _ends_group(self, word: str, begun: bool) -> bool:
        if self._is_closed(word) or (begun and word in vocabulary.ADVERBS):
            return True
        if not begun:
            return False
        # The current group precedes the word.
        group = Chunk(NOUN, "THING", (self.words[self.place - 1],))
        self.found.append(group)
        found = self._is_tagged(word) or any(
            self._is_verb(form.form, word) for form in vocabulary.verb_forms(word)
        )
        self.found.pop()
        return found

    def _is_closed(self, word: str) -> bool:
        return word == "" or word in (
            vocabulary.PREPOSITIONS
            | vocabulary.QUESTIONS
            | vocabulary.AUXILIARIES
            | vocabulary.OTHERS
        )

    def _next(self) -> str:
        return self.lower[self.place + 1] if self.place + 1 < len(self.words) else ""


def _form(word: str) -> str:
    """Returns the form of a word that is a verb."""
    ends = (("ing", GERUND), ("ed", PARTICIPLE), ("s", THIRD))
    return next((form for end, form in ends if word.endswith(end)), BASE)


def chunks(
    text: str,
    is_verb_phrase: bool = False,
    nouns: AbstractSet[str] = frozenset(),
    verbs: AbstractSet[str] = frozenset(),
    adjectives: AbstractSet[str] = frozenset(),
) -> list[Chunk]:
    """Returns the chunks of a text.

    Args:
        is_verb_phrase: whether it may begin with a verb, as descriptions of intents do.
        nouns: lower-case words that are no verb in the third person here.
        verbs: lower-case words that are verbs here, but behind prepositions.
        adjectives: lower-case words that are adjectives or participles here.
    """
    return _Reader(tokens(text), is_verb_phrase, nouns, verbs, adjectives).read()
