"""The word classes of the grammar: nouns, verbs, and closed classes."""

import functools
import re

from etils import epath

from jaxaug.augment.language import inflection
from jaxaug.augment.language.inflection import BASE, PLURAL, Form

# A base that ends so takes no further e: "touch", "adorn", "destroy", "seal", "iron".
_WHOLE = re.compile(
    r"(?:[ywx]|ss|ll|[cs]h|[^aeiouy][dtnrmpkfb]|(?<!q)[aeiou]{2}[dtnlrmpkf]"
    r"|[aeiouy][^aeiouy]+(?:er|en|el|et|on|om|al|it))$"
)
_FOLDER = epath.Path(__file__).parent


def word_set(text: str) -> frozenset[str]:
    """Returns the words of a text, which spaces part."""
    return frozenset(text.split())


DETERMINERS = word_set(
    "a an the this that these those each every any all some another my your his her "
    "its our their both no one"
)
PREPOSITIONS = word_set(
    "of for in at on to from with without by per about within during near into onto "
    "between through under over as across before after until since via around inside "
    "outside near based than"
)
QUESTIONS = word_set("when where which who whom whose what how whether if that why")
AUXILIARIES = word_set(
    "is are was were be been being can could will would should may might must do does "
    "did has have had"
)
OTHERS = word_set(
    "and or not it you they we i there optionally also only already currently either , "
    "; : / ( ) . ? ! & -"
)
# Gerunds that modify the next noun: "starting city".
MODIFIERS = word_set(
    "starting ending waiting opening closing seating meeting booking parking living "
    "leaving departing arriving boarding swimming cooking training waking wedding "
    "charging shipping mailing billing listening playing walking working viewing "
    "outgoing incoming requested selected given chosen desired preferred specified "
    "scheduled planned expected particular drinking fishing sailing diving riding "
    "driving running washing sewing sleeping dining learning teaching selling buying "
    "remaining missing"
)
# A gerund of purpose forms one word with its noun: "waiting list".
PURPOSES = word_set(
    "waiting parking living swimming boarding meeting seating cooking training "
    "shipping mailing billing drinking driving riding washing dining sleeping closing "
    "opening"
)
# Nouns whose sense depends on the noun before them: "subject area".
VAGUE = word_set(
    "area point place position spot list form line field group class order part level "
    "type kind"
)
ADJECTIVES = word_set(
    "monthly weekly daily nightly yearly hourly total overall full average mean exact "
    "free short long brief maximum minimum highest lowest first last final main new "
    "next common estimated approximate expected current available relative whole "
    "single initial annual quarterly minimal maximal earliest latest previous "
    "following upcoming additional preliminary complete original primary secondary "
    "official local national regional international public private personal legal "
    "medical technical financial physical digital electronic automatic manual regular "
    "special general basic advanced optional required necessary mandatory valid "
    "invalid unique specific important urgent active inactive recent old young large "
    "small big little high low long wide deep heavy light fast slow early late good "
    "best better worst safe dangerous open closed full empty correct wrong possible "
    "likely certain different same similar other second third outstanding overdue "
    "refundable everyday brief greatest largest smallest biggest least top principal "
    "chief present"
)
"""Words before a noun that do not name a separate thing."""
# Nouns with neither an article `a` nor a plural.
UNCOUNTABLE = word_set(
    "species series music food money weather alcohol wifi insurance luggage baggage "
    "information accommodation lodging housing coverage travel cooking precipitation "
    "transport cash moisture warmth cuisine dining shipping entry admission quarters "
    "equipment progress garbage trash rubbish refuse waste parking produce medication "
    "therapy funds data headcount experience breakfast lunch dinner assistance "
    "electricity heating"
)


@functools.cache
def nouns() -> dict[str, str]:
    """Returns noun or two-word noun, singular, in lower case -> class."""
    return _table("nouns.txt")


@functools.cache
def verbs() -> dict[str, str]:
    """Returns base form, with its particle -> class."""
    return _table("verbs.txt")


# Behind a verb they make another verb of it: "makes up".
PARTICLES = word_set("up off out down away back over along aside apart")
# They stand before their verb and stay there: "still accepted".
ADVERBS = word_set(
    "already also always automatically currently directly only still usually"
)


@functools.cache
def particles() -> dict[str, frozenset[str]]:
    """Returns base form without a particle -> its particles."""
    found: dict[str, set[str]] = {}
    for verb in verbs():
        base, _, particle = verb.partition(" ")
        if particle:
            found.setdefault(base, set()).add(particle)
    return {base: frozenset(words) for base, words in found.items()}


def _table(name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (_FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            kind, *words = line.split()
            for word in words:
                found.setdefault(word.replace("_", " "), kind)
    return found


@functools.lru_cache(8192)
def verb_forms(word: str) -> tuple[Form, ...]:
    """Returns the readings of a lower-case word as a known verb."""
    return tuple(
        Form(form.base, "v", form.form)
        for form in inflection.readings(word)
        if form.pos in ("", "v") and form.base in _first_words()
    )


@functools.cache
def _first_words() -> frozenset[str]:
    """Returns the verbs without their particles."""
    return frozenset(verb.partition(" ")[0] for verb in verbs())


def any_verb(word: str, form: str) -> list[str]:
    """Returns possible bases of a lower-case word, the most likely first."""
    if form == BASE or word == "does":
        return ["do" if word == "does" else word]
    if form == inflection.THIRD and word.endswith("ss"):
        return []
    found = [one.base for one in inflection.readings(word) if one.form == form]
    found = [base for base in found if not base.endswith("ie")] or found  # "Certified".
    # "Raised" may come from "rais" or "raise", and "touched" from "touch" or "touche".
    return sorted(
        found,
        key=lambda base: (
            bool(_WHOLE.search(base.removesuffix("e"))) == base.endswith("e")
        ),
    )


@functools.lru_cache(8192)
def singular(word: str) -> str:
    """Returns the singular of a noun; the word itself if it is not a plural."""
    lower = word.lower()
    if lower in nouns() or lower in UNCOUNTABLE or lower.endswith("ss"):
        return word
    for form in inflection.readings(lower):
        if form.form != PLURAL or form.pos != "n":
            continue
        base = form.base
        # The bases of "prices" are "price" and "pric", and "status" is not a plural.
        sibilant = lower[:-2].endswith(("s", "x", "z", "ch", "sh"))
        is_cut = lower.endswith("es") and base == lower[:-2] and not sibilant
        is_cut |= lower.endswith("ies") and base == lower[:-1]  # "copies"
        if base in nouns() or not (base.endswith(("s", "u", "i")) or is_cut):
            return base
    return word


def is_plural(word: str) -> bool:
    """Returns whether a noun is a plural."""
    return singular(word) != word


@functools.lru_cache(8192)
def plural(word: str) -> str:
    """Returns the plural of a noun; the word itself if it has none or is one."""
    if word.lower() in UNCOUNTABLE or is_plural(word):
        return word
    return inflection.inflect(word, "n", PLURAL)


@functools.lru_cache(8192)
def noun_class(words: tuple[str, ...]) -> str:
    """Returns the class of the noun at the end of a group of words, else THING."""
    return nouns().get(_noun(words), "THING")


@functools.lru_cache(8192)
def noun_size(words: tuple[str, ...]) -> int:
    """Returns the word count of a group's last noun: "phone number" has 2."""
    return _noun(words).count(" ") + 1


def _noun(words: tuple[str, ...]) -> str:
    """Returns the longest known noun at a group's end, singular, else its last word."""
    lower = [word.lower() for word in words]
    lower[-1] = singular(lower[-1])
    ends = (" ".join(lower[-size:]) for size in (3, 2) if len(lower) >= size)
    return next((end for end in ends if end in nouns()), lower[-1])


def inflected(base: str, form: str) -> str:
    """Returns a verb, with its particle, in a form."""
    if base == "have" and form == inflection.THIRD:
        return "has"
    return inflection.inflect(base, "v", form) if form != BASE else base
