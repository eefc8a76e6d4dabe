"""The heuristic filters of schema paraphrases, with a reason for each dropped
candidate.

They are the twelve heuristics of Coca et al. (2023), table 4, each a separate
predicate. Their names are the paper's. The rules are ours, as no program of theirs is
published; each rule drops the table's example for it. All rules are relative: a
paraphrase may have what its source has. Filters for slots ("City of departure") thus
leave the paraphrases of intents ("Find a hotel") alone.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rapidfuzz import fuzz

from jaxaug.augment import descriptions
from jaxaug.augment.language import inflection, lexicon, nlp
from jaxaug.augment.language.lexicon import STOP_WORDS
from jaxaug.augment.language.nlp import Document, Token
from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import suggestion

Predicate = Callable[[Document, Document], bool]
"""(source, candidate) -> whether to drop the candidate."""

SENSITIVE = "sensitive_word"
COPY, LOST, ADDED_NUMBER = "copy", "lost_value", "added_number"
NEGATION = "changed_negation"
CHECKS = (COPY, LOST, ADDED_NUMBER, NEGATION)
"""Checks that the paper does not have; each is optional, see `reasons`."""

_ADVICE = re.compile(
    r"\b(should|must|ought|shall|have to|has to|need to|needs to|had better|"
    r"make sure|be sure|recommend\w*|advis\w+|suggest\w*|consider|remember to|"
    r"(good|great|bad|best) (idea|way|thing) to|important to|necessary to|"
    r"(is|are) (necessary|essential|advisable)|"
    r"try to|please|do not|don't|never)\b",
    re.IGNORECASE,
)
# "Whether or not" is not a negation.
_NEGATION = re.compile(
    r"(?<!or )\bnot\b|\b(no|never|without|none|neither|nor|cannot)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
# Verbs that describe a state instead of an action.
_STATES = frozenset({
    "be", "have", "indicate", "specify", "denote", "represent", "show", "describe",
    "refer", "mean", "depend", "contain", "include", "state", "tell", "give", "say",
    "determine", "signify", "concern", "require",
})  # fmt: skip
_ORDERS = frozenset({("search", "for"), ("look", "for"), ("ask", "for")})
_PRESENT = frozenset({"VB", "VBG", "VBP", "VBZ"})
# Passive forms that describe a state: "the city it is located in".
_STATIVE = frozenset({"locate", "situate", "base", "call", "name", "title", "rate"})
_NAMES = frozenset({
    "PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "EVENT", "WORK_OF_ART",
    "LAW", "LANGUAGE",
})  # fmt: skip
_QUESTION_TAGS = frozenset({"WDT", "WP", "WP$", "WRB"})
_SENTENCE_END = frozenset({".", "!", "?"})
_ARTICLES = frozenset({"a", "an", "the"})
_COMMANDS = frozenset({"VB", "VBP"})
_COMMAND = re.compile(
    r"(?:book|reserve|purchase|rent|schedule|order|mail|plan|search|transfer)\s+"
    r"(?!of\b|from\b|in\b|on\b|is\b)\w",
    re.IGNORECASE,
)
# Threshold for the words of similar bigrams, 0 to 100.
_SIMILAR = 80.0
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    "ten", "eleven", "twelve",
)  # fmt: skip


def reasons(
    source: str,
    candidates: Sequence[str],
    *,
    names: Sequence[str] | None = None,
    checks: Sequence[str] = CHECKS,
    sensitive: Sequence[str] = (),
    protected: Sequence[str] = (),
) -> list[tuple[str, ...]]:
    """Returns why each candidate is dropped: codes, empty if it is kept.

    In addition to the filters, `sensitive_word` marks a listed word that the source
    does not have. The checks are:

    - `copy`: the candidate is the source itself;
    - `lost_value`: a number, placeholder, or protected text of the source is missing;
    - `added_number`: a number is not in the source;
    - `changed_negation`: only one of the two texts has a negation.

    Letter case does not count, and numbers up to twelve may be words.

    Args:
        source: the text that was paraphrased.
        candidates: its paraphrases.
        names: filters to use, keys of `FILTERS`; None is all twelve.
        checks: checks to do, of `CHECKS`.
        sensitive: words or phrases that no candidate may hold.
        protected: texts that each candidate must hold, such as values of the slot.

    Returns:
        For each candidate the codes that apply: `copy`, the codes of `names` in their
        order, then the others in the order above.

    Raises:
        UserError: a name is unknown, or filters are requested and spaCy or its model is
            not installed.
    """
    names = tuple(FILTERS) if names is None else names
    for name in names:
        if name not in FILTERS:
            raise UserError(f"{name!r} is not a filter; {suggestion(name, FILTERS)}")
    found = []
    for text in candidates:
        codes = _beside_the_filters(source, text, sensitive, protected)
        found.append([code for code in codes if code in (SENSITIVE, *checks)])
    judged: list[list[str]] = [[] for _ in candidates]
    if names:
        original, *documents = nlp.analyse([source, *candidates])
        judged = [
            [name for name in names if FILTERS[name](original, document)]
            for document in documents
        ]
    same = source.casefold() if COPY in checks else None
    return [
        ((COPY,) if text.casefold() == same else ()) + (*filtered, *codes)
        for text, filtered, codes in zip(candidates, judged, found, strict=True)
    ]


def _beside_the_filters(
    source: str, candidate: str, sensitive: Sequence[str], protected: Sequence[str]
) -> list[str]:
    codes = []
    if any(_holds(candidate, w) and not _holds(source, w) for w in sensitive if w):
        codes.append(SENSITIVE)
    written = _digits(candidate)
    needed = [*descriptions.protected(_digits(source)), *map(_digits, protected)]
    if not all(_holds(written, text) for text in needed):
        codes.append(LOST)
    if set(_numbers(written)) - set(_numbers(_digits(source))):
        codes.append(ADDED_NUMBER)
    if bool(_NEGATION.search(candidate)) != bool(_NEGATION.search(source)):
        codes.append(NEGATION)
    return codes


def _holds(text: str, part: str) -> bool:
    """Returns whether a text has a part as whole words; numbers may touch letters."""
    left = r"(?<!\w)" if part[:1].isalpha() else r"(?<!\d)"
    right = r"(?!\w)" if part[-1:].isalpha() else r"(?!\d)"
    return re.search(left + re.escape(part) + right, text, re.IGNORECASE) is not None


def _digits(text: str) -> str:
    """Returns the text with number words as digits; `one` and `two-way` stay."""

    def digits(match: re.Match[str]) -> str:
        word = match[0].lower()
        known = word in _NUMBERS and word != "one"
        return str(_NUMBERS.index(word)) if known else match[0]

    return re.sub(r"(?<![\w-])[A-Za-z]+(?![\w-])", digits, text)


def _numbers(text: str) -> list[str]:
    # Digits count in `2nd`, but not in a word such as `b2b`.
    return re.findall(r"(?<![^\W\d_])\d+(?:[.,:/-]\d+)*", text)


def advice(source: Document, candidate: Document) -> bool:
    """Gives advice, unlike the source: "You should know the name of the hotel"."""
    return bool(_ADVICE.search(candidate.text) and not _ADVICE.search(source.text))


def action(source: Document, candidate: Document) -> bool:
    """Describes an action, unlike the source: "Find the name of the hotel"."""
    return _is_action(candidate) and not _is_action(source)


def _is_action(document: Document) -> bool:
    """Returns whether a text begins with an order, or its main verb is an action."""
    words = document.words
    if len(words) < 2 or words[0].tag in _QUESTION_TAGS:
        return False
    first, second = words[:2]
    if first.text.lower() in ("whether", "if"):
        return False
    # The tagger reads many orders as names: "Book a table".
    orders = second.pos == "DET" or (first.lemma.lower(), second.lemma) in _ORDERS
    if orders and "v" in lexicon.built_in().lookup(first.text.lower()):
        return True
    if first.dep == "ROOT" and first.pos == "VERB" and first.lemma not in _STATES:
        # "Leaving time" and "Desired date" are not actions; "Leaving the house" is.
        return first.tag == "VB" or (first.tag == "VBG" and second.tag != "NN")
    subject = False
    for before, word in itertools.pairwise(words):
        subject = subject or before.dep == "nsubj"
        if word.dep == "ROOT":
            acts = word.tag in _PRESENT and word.lemma not in _STATES
            # "Number of seats to reserve" is not an action.
            return subject and acts and word.pos == "VERB" and before.tag != "TO"
    return False


def named_entity(source: Document, candidate: Document) -> bool:
    """Names somebody or something that the source does not: "Hotel in Paris"."""
    own = {token.text.lower() for token in source.tokens}
    return any(
        token.entity in _NAMES
        and token.pos == "PROPN"
        and token.text[:1].isupper()
        and token.text.lower() not in own
        # Any word has a capital at the beginning.
        and not (place == 0 and _is_common(token.text.lower()))
        for place, token in enumerate(candidate.words)
    )


def _is_common(word: str) -> bool:
    bases = {form.base for form in inflection.readings(word)}
    return any(map(lexicon.built_in().lookup, bases))


def rare_word(source: Document, candidate: Document) -> bool:
    """Has a rare word: "Appellation of the hostelry".

    A word is known if the training texts of the spaCy model, the built-in lexicon, or
    the source have it.
    """
    own = {form for token in source.words for form in _spellings(token)}
    return any(
        token.text.isalpha()
        and len(token.text) > 2
        and not _spellings(token) & nlp.known_words()
        and not _spellings(token) & own
        and not _is_common(token.text.lower())
        for token in candidate.words
    )


def _spellings(token: Token) -> set[str]:
    return {token.text.lower(), token.lemma.lower()}


def several_sentences(source: Document, candidate: Document) -> bool:
    """Has more sentences than the source: "It is a hotel. The name is asked for"."""
    return _sentences(candidate) > max(1, _sentences(source))


def _sentences(document: Document) -> int:
    pairs = zip(document.tokens, document.tokens[1:], strict=False)
    return 1 + sum(
        before.text[-1] in _SENTENCE_END and after.starts and after.is_word
        for before, after in pairs
    )


def repeated_ngram(source: Document, candidate: Document) -> bool:
    """Repeats words, unlike the source: "Name of the hotel or name of the inn".

    Three words in a row count, or two with a content word: "The dentist is the
    dentist".
    """
    return bool(_repeated(candidate) - _repeated(source))


def _repeated(document: Document) -> set[tuple[str, ...]]:
    words = [word.text.lower() for word in document.words]
    grams: list[tuple[str, ...]] = list(zip(words, words[1:], words[2:], strict=False))
    grams += [
        pair for pair in itertools.pairwise(words) if not STOP_WORDS.issuperset(pair)
    ]
    return {gram for gram in grams if grams.count(gram) > 1}


def similar_bigrams(source: Document, candidate: Document) -> bool:
    """Has two similar pairs of words, unlike the source.

    An example is "Hotel name or the names of hotels". Pairs are lemmas without stop
    words, next to each other except for stop words. They match to 80 of 100 by edit
    distance, in either order. A repeated pair of a stop word and another word counts
    too: "type of event ... title of the event".
    """
    return _has_similar(candidate) and not _has_similar(source)


def _has_similar(document: Document) -> bool:
    # These are our stop words; for spaCy, `name` is a stop word.
    words = [word for word in document.words if word.text.lower() not in STOP_WORDS]
    lemmas = [word.lemma.lower() for word in words]
    bigrams = list(itertools.pairwise(lemmas))
    said = [w.lemma.lower() for w in document.words if w.text.lower() not in _ARTICLES]
    half = [p for p in itertools.pairwise(said) if len(STOP_WORDS & {*p}) == 1]
    return len(half) > len(set(half)) or any(
        _alike(first, second) or _alike(first, second[::-1])
        for place, first in enumerate(bigrams)
        for second in bigrams[place + 2 :]  # Skip pairs that share a word.
    )


def _alike(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(fuzz.ratio(a, b) >= _SIMILAR for a, b in pairs)


def repeated_word(source: Document, candidate: Document) -> bool:
    """Doubles a word, unlike the source: "Name of the the hotel"."""
    return bool(set(_doubled(candidate)) - set(_doubled(source)))


def _doubled(document: Document) -> Iterator[str]:
    # Marks count: "a bar, bar stools" is not a slip.
    words = [token.text.lower() for token in document.tokens]
    pairs = itertools.pairwise(words)
    return (a for a, b in pairs if a == b and a.isalnum())


def past_tense(source: Document, candidate: Document) -> bool:
    """Has a finite past verb, unlike the source: "The hotel where the user stayed"."""
    return _is_past(candidate) and not _is_past(source)


def _is_past(document: Document) -> bool:
    """Returns whether a verb with a subject is past; `set` may be present."""
    subject = False
    for token in document.tokens:
        subject = subject or token.dep.startswith("nsubj")
        # The tagger reads many participles as the past: "the specified city".
        finite = token.pos == "AUX" or (subject and token.dep not in ("acl", "amod"))
        if finite and token.tag == "VBD" and token.text.lower() != token.lemma:
            return True
    return False


def passive(source: Document, candidate: Document) -> bool:
    """Has a passive verb, unlike the source: "The hotel is chosen by the user"."""
    return _is_passive(candidate) and not _is_passive(source)


def _is_passive(document: Document) -> bool:
    tokens = document.tokens
    # The verb follows its auxiliary: "is [often] chosen".
    verbs = (
        next((t for t in tokens[place:] if t.pos == "VERB"), None)
        for place, token in enumerate(tokens)
        if token.dep == "auxpass"
    )
    return any(verb is None or verb.lemma not in _STATIVE for verb in verbs)


def question(source: Document, candidate: Document) -> bool:
    """Asks, unlike the source: "What is the name of the hotel", even unmarked."""
    return _is_question(candidate) and not _is_question(source)


def _is_question(document: Document) -> bool:
    """Returns whether a text has a question mark or begins with an inverted auxiliary.

    "What the name is" and "who comes" may describe a slot; "what is the name" asks.
    """
    if "?" in document.text:
        return True
    words = document.words
    asks = bool(words) and words[0].tag in _QUESTION_TAGS
    for place, word in enumerate(words):
        if word.pos == "AUX":
            behind = words[place + 1 :]
            subject = any(w.dep.startswith("nsubj") for w in words[:place])
            inverted = not subject or (behind and behind[0].text == "there")
            return bool((asks or place == 0) and inverted and behind)
        if not asks:
            return False
    return False


def alphanumeric(source: Document, candidate: Document) -> bool:
    """Has a new word with a digit: "Name of the h0tel", "400 baths"."""
    return bool(_with_digits(candidate) - _with_digits(source))


def _with_digits(document: Document) -> set[str]:
    return {w for w in re.findall(r"\w+", document.text.lower()) if re.search(r"\d", w)}


FILTERS: Mapping[str, Predicate] = {
    "advice": advice,
    "action": action,
    "named_entity": named_entity,
    "rare_word": rare_word,
    "several_sentences": several_sentences,
    "repeated_ngram": repeated_ngram,
    "similar_bigrams": similar_bigrams,
    "repeated_word": repeated_word,
    "past_tense": past_tense,
    "passive": passive,
    "question": question,
    "alphanumeric": alphanumeric,
}
"""Code -> predicate, in the order of the paper's table."""


def keeps_command(source: str, candidates: Sequence[str]) -> list[bool]:
    """Returns whether each candidate is a command if the source is one.

    "Rent a car" is a command, "car you rent" is not. This is for services and intents,
    as words such as "place to visit" look like orders too. It needs spaCy, which reads
    "book a flight" as the noun "book"; such verbs are listed here.
    """
    source_tells, *others = _tells([source, *candidates])
    return [other or not source_tells for other in others]


def _tells(texts: Sequence[str]) -> list[bool]:
    documents = nlp.analyse([f"Please {text}" for text in texts])
    return [
        bool(_COMMAND.match(text))
        or (len(document.tokens) > 1 and document.tokens[1].tag in _COMMANDS)
        for text, document in zip(texts, documents, strict=True)
    ]
