"""Rewords short texts: applies the rules of the grammar until enough results exist.

The table `fluency.txt` finds clumsy results.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etils import epath

from jaxaug.augment.grammar import rules, senses, vocabulary
from jaxaug.augment.grammar.chunks import Chunk, chunks
from jaxaug.augment.grammar.rules import Context
from jaxaug.augment.grammar.senses import Source
from jaxaug.augment.language.inflection import THIRD
from jaxaug.core.errors import UserError
from jaxaug.paraphrase import literals
from jaxaug.paraphrase.candidates import is_question

_FILE = epath.Path(__file__).parent / "fluency.txt"
# "What accommodation there are."
_DISAGREES = re.compile(
    rf"\b(?:{'|'.join(sorted(vocabulary.UNCOUNTABLE))})(?: there)? are\b"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
# Words shorter than this may occur twice: "in".
_SHORT = 4


@functools.cache
def _table() -> tuple[
    dict[str, int],
    tuple[re.Pattern[str], ...],
    tuple[tuple[re.Pattern[str], re.Pattern[str]], ...],
]:
    """Returns (word -> number of its family, shapes, words to keep).

    Words to keep are (words of a source, words of which a rewording then has one).

    Raises:
        UserError: a line of the file is malformed.
    """
    families: dict[str, int] = {}
    shapes, kept = [], []
    for number, line in enumerate(_FILE.read_text(encoding="utf-8").splitlines(), 1):
        kind, _, value = line.partition(" # ")[0].partition(" ")
        if kind == "family":
            families.update(dict.fromkeys(value.split(), number))
        elif kind == "shape":
            shapes.append(re.compile(value))
        elif kind == "keep":
            asked, _, also = value.partition(" -> ")
            kept.append((_any_of(asked), _any_of(f"{asked} {also}")))
        elif line and not line.startswith("#"):
            raise UserError(
                f"{_FILE}, line {number}: {line!r} is no family, shape, or keep. Write "
                "`family` or `keep` and words, or `shape` and a regular expression."
            )
    return families, tuple(shapes), tuple(kept)


def _any_of(words: str) -> re.Pattern[str]:
    either = "|".join(word.replace("_", " ") for word in words.split())
    return re.compile(rf"\b(?:{either})\b")


@functools.lru_cache(4096)
def faults(text: str) -> frozenset[str]:
    """Returns the families and words that a text has twice, and the shapes it has."""
    families, shapes, _ = _table()
    seen: set[str] = set()
    found: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if len(word) < _SHORT and word not in families:
            continue
        key = str(families.get(word, vocabulary.singular(word)))
        if key in seen and word not in vocabulary.OTHERS:
            found.add(key)
        seen.add(key)
    found |= {
        shape.pattern
        for shape in (*shapes, _DISAGREES, _unparallel())
        if shape.search(text.lower())
    }
    return frozenset(found)


@functools.cache
def _unparallel() -> re.Pattern[str]:
    """Returns a pattern of a gerund joined to a base form: "booking it and pay"."""
    bases = {verb.partition(" ")[0] for verb in vocabulary.verbs()}
    thirds = {vocabulary.inflected(base, THIRD) for base in bases}
    only = "|".join(sorted(thirds | bases - set(vocabulary.nouns())))
    return re.compile(
        r"(?:^|\b(?:in|for|of|by|with|at) )(?:\w+ly )?\w+ing\b[^,;]* "
        rf"(?:and|or) (?:{only})\b"
        r"(?= (?:the|a|an|your|my|their|them|it|one|up|for|out)\b)"
    )


def is_clumsy(text: str, source: str) -> bool:
    """Returns whether a rewording has a fault that its source does not have, or lacks a
    word of the source that changes its meaning."""
    lower, before = text.lower(), source.lower()
    kept = _table()[2]
    loses = any(one.search(before) and not any_.search(lower) for one, any_ in kept)
    return loses or not faults(text) <= faults(source)


_DEPTH = 3
# Maximum words of a sentence; the time to match the rules grows with the square.
_LONGEST = 40
# Results of one rule that are reworded further, so that no rule fills the list alone.
_EACH = 6
# Maximum results of a step that are reworded further.
_WIDTH = 60
# Choices of synonyms for all words of a text.
_CHOICES = 12
# Results that are searched for a derivation.
_MANY = 1000
_EACH_ONE, _A = re.compile(r"\b(?:each|every|per)\b"), re.compile(r"\ban?\b")
_FADED = frozenset(["a", "an", "the", "that"])
_ADDRESSES = {
    "email": re.compile(r"@\w"),
    "url": re.compile(r"://|^www\."),
    "ip": re.compile(r"^\d+(?:\.\d+){3}|^[\da-fA-F:]*::"),
}
_UNITS = frozenset({"date", "day"}), frozenset({"time", "hour"})

Steps = tuple[tuple[str, str], ...]
"""(name of a rule, text after it), from the source to the result."""
_Result = tuple[str, Steps]


@dataclasses.dataclass(frozen=True)
class Reworded:
    """A rewording.

    Attributes:
        text: the result.
        steps: the derivation of the result.
    """

    text: str
    steps: Steps


def reword(
    text: str,
    context: Context | None = None,
    num: int = 100,
) -> list[Reworded]:
    """Rewords a description, deterministically.

    Args:
        text: one sentence or several, of which one is reworded at a time. Literals and
            line breaks stay, see `jaxaug.paraphrase.literals`.
        context: context of the description; None is a slot without further information.
        num: maximum number of results.

    Returns:
        Distinct results that differ from the text in more than articles and letter
        case. Results of few steps come first, and rules take turns. Every other result
        has synonyms for all words that have any. Sentences of more than 40 words have
        no results.
    """
    found = literals.framed(text)
    context = _beside(found.text, context or Context())
    outputs = [
        {one.text: one.steps for one in _reworded(piece.masked, context, num)}
        for piece in found.pieces
    ]

    def steps(number: int, of: Steps) -> Iterator[tuple[str, str]]:
        for name, masked in of:
            new = found.pieces[number].restored(masked)
            yield name, masked if new is None else found.filled({number: new})

    return [
        Reworded(
            one.text,
            tuple(
                step
                for number, output in one.outputs.items()
                for step in steps(number, outputs[number][output])
            ),
        )
        for one in found.written([list(own) for own in outputs])
    ]


def _beside(text: str, context: Context) -> Context:
    """Returns the context with the kinds of the addresses in a text.

    They decide about synonyms, and masks hide them.
    """
    kinds = {
        kind
        for literal in literals.found(text)
        for kind, pattern in _ADDRESSES.items()
        if pattern.search(literal)
    }
    return dataclasses.replace(context, service=context.service | kinds)


def _reworded(text: str, context: Context, num: int) -> list[Reworded]:
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", text)
    if len(sentences) == 1:
        return _sentence(text, context, num)
    groups = [
        [
            Reworded(
                " ".join([*sentences[:place], one.text, *sentences[place + 1 :]]),
                one.steps,
            )
            for one in _sentence(sentence, context, num)
            if not _asks(one.text) or _asks(sentence)
        ]
        for place, sentence in enumerate(sentences)
    ]
    return list(_turns(groups))[:num]


def _asks(sentence: str) -> bool:
    """Returns whether a sentence begins as a question: "Which code you get. It is"."""
    return sentence.partition(" ")[0].lower() in vocabulary.QUESTIONS


def under_all(
    text: str,
    contexts: Sequence[Mapping[str, Any]],
    num: int,
) -> list[str]:
    """Rewords a text that occurs in several places.

    Args:
        contexts: contexts of the places, as JSON; empty is a slot without further
            information.
        num: maximum number of results.

    Returns:
        Distinct results, at most `num`: the first result under each context, then the
        second, and so on.
    """
    places = [Context.of_json(one) for one in contexts] or [Context()]
    found = [reword(text, place, num) for place in places]
    results = [one.text for one in _turns(found)]
    return list(dict.fromkeys(results))[:num]


def derivation(text: str, kind: str, result: str) -> Steps:
    """Returns the steps from a description to a result, or () if the grammar has none.

    Args:
        kind: "slot", "intent", or "service".
        result: rewording whose steps are returned.
    """
    for is_flag in (False, True):
        for one in reword(text, Context(kind, is_flag=is_flag), _MANY):
            if one.text == result:
                return one.steps
    return ()


def _sentence(text: str, context: Context, num: int) -> list[Reworded]:
    body = text.rstrip(".!? ")
    if body.count(" ") >= _LONGEST:
        return []
    end = text[len(body) :].strip()
    first = body.partition(" ")[0]
    capital = first[:1].isupper() and (not first.isupper() or first == "A")
    if capital:
        body = body[:1].lower() + body[1:]
    about = _source(body, _is_verb_phrase(context))
    stepwise = list(itertools.islice(_stepwise(body, context, about), num))
    at_once = itertools.islice(_at_once([(body, ()), *stepwise], context, about), num)
    seen = {_folded(body)}
    found: list[Reworded] = []
    for written, steps in _turns([stepwise, list(at_once)]):
        key = _folded(written)
        if key in seen:
            continue
        seen.add(key)
        if is_clumsy(written, body) or _hides_unit(written, body, context):
            continue
        if _EACH_ONE.search(body) and not (
            _EACH_ONE.search(written) or _A.search(written)
        ):
            continue
        shown = written[:1].upper() + written[1:] if capital else written
        mark = "" if written.endswith("?") else end
        if end == "?" and is_question(body) and not is_question(written):
            if written.startswith(("if ", "when ")):
                continue  # "If the guest pays": a fragment, where the source is whole.
            mark = ""
        found.append(Reworded(shown + mark, steps))
    return found[:num]


def _stepwise(body: str, context: Context, about: Source) -> Iterator[_Result]:
    """Yields results of one step, then of two, and so on; each text once."""
    seen = {_folded(body)}
    layer: list[_Result] = [(body, ())]
    for _ in range(_DEPTH):
        following: list[_Result] = []
        for result in _turns([list(_once(one, context, about)) for one in layer]):
            key = _folded(result[0])
            if key and key not in seen:
                seen.add(key)
                if is_clumsy(result[0], body):
                    continue
                following.append(result)
                yield result
        layer = _mixed(following)[:_WIDTH]


def _at_once(
    results: Sequence[_Result], context: Context, about: Source
) -> Iterator[_Result]:
    """Yields the results without synonyms, now with synonyms for all their words."""
    names = {rule.name for rule in rules.table()}
    plain = [
        (steps, parsed, senses.choices(parsed, context, about.allows))
        for text, steps in results
        if names.issuperset(name for name, _ in steps)
        for parsed in [_parsed(text, _is_verb_phrase(context), about)]
    ]
    for number in range(_CHOICES):
        for place, (steps, parsed, found) in enumerate(plain):
            # Neighbors get different words.
            added, written = senses.replace_all(parsed, found, number + place)
            if len(added) > 1:
                yield written, (*steps, (", ".join(added), written))


def _once(one: _Result, context: Context, about: Source) -> Iterator[_Result]:
    """Yields the results of one more step; only words of the source get synonyms."""
    text, steps = one
    parsed = _parsed(text, _is_verb_phrase(context), about)
    used = {name for name, _ in steps}
    if not used & rules.final() and not any(map(_ends, used)):
        for name, written in rules.apply(parsed, context):
            if name not in used:
                yield written, (*steps, (name, written))
    if any(" -> " in name for name in used):
        return  # `_at_once` replaces several words.
    for name, written in senses.apply(parsed, context, about.allows):
        yield written, (*steps, (name, written))


def _hides_unit(written: str, body: str, context: Context) -> bool:
    """Returns whether "when" hides the unit, and a sibling has the other unit."""
    words, source = ({*text.lower().rstrip("?").split()} for text in (written, body))
    for unit, other in (_UNITS, _UNITS[::-1]):
        if source & unit and context.siblings & other:
            return "when" in words - source and not words & unit
    return False


def _ends(name: str) -> bool:
    """Returns whether a synonym has a preposition.

    Rules would tear "way of cooking" apart.
    """
    _, arrow, new = name.partition(" -> ")
    return bool(arrow) and not vocabulary.PREPOSITIONS.isdisjoint(new.split())


def _turns(groups: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """Yields the first of each group, then the second of each, ..."""
    for place in range(max(map(len, groups), default=0)):
        for group in groups:
            if place < len(group):
                yield group[place]


def _mixed(results: Sequence[_Result]) -> list[_Result]:
    """Returns up to `_EACH` results of each last rule, in their order."""
    counts: dict[str, int] = {}
    kept = []
    for written, steps in results:
        name = steps[-1][0]
        counts[name] = counts.get(name, 0) + 1
        if counts[name] <= _EACH:
            kept.append((written, steps))
    return kept


def _is_verb_phrase(context: Context) -> bool:
    return context.kind != "slot" or context.is_flag


_source = functools.lru_cache(20_000)(senses.read_source)


@functools.lru_cache(20_000)
def _parsed(text: str, is_verb_phrase: bool, about: Source) -> tuple[Chunk, ...]:
    kinds = about.nouns, about.verbs, about.adjectives
    return tuple(chunks(text, is_verb_phrase, *kinds))


def _folded(text: str) -> str:
    """Returns the words without articles and "that"; texts with equal words are one."""
    words = re.findall(r"[^\W_]+", text.lower())
    return " ".join(word for word in words if word not in _FADED)
