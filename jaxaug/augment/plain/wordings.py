"""Rewords whole sentences by rule: the table `wordings.txt`, read and applied.

The rules need no model and no tagger. They match closed sets of words and leave a
sentence unchanged in doubt.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from etils import epath

from jaxaug.augment.language import inflection
from jaxaug.paraphrase import literals

FILE = epath.Path(__file__).parent / "wordings.txt"
_DEPTH = 3
_MOST = 60  # Maximum rewordings of a sentence.
_SUBJECTS = (
    r"(?:i|you|he|she|it|we|they|i'm|you're|he's|she's|it's|we're|they're|there)"
)
_DETERMINER = r"(?:the|a|an|my|your|his|her|our|their|its|this|that|these|those|all)"
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|"
    r"december)"
)
_UNIT = r"(?:second|minute|hour|day|night|week|weekend|month|year|time|morning|evening)"
_TIME = (
    r"(?:today|tonight|tomorrow|yesterday|(?:tomorrow|yesterday|this) (?:morning|"
    r"afternoon|evening)|(?:last|next|every|each|this) (?:night|week|weekend|month|"
    rf"year|morning|evening|summer|winter|spring|fall|{_DAY})|on (?:{_DAY}s?|weekdays|"
    rf"weekends|the weekend)|in (?:{_MONTH}|the morning|the evening|the afternoon|"
    r"(?:the )?(?:spring|summer|winter|fall|autumn))|at (?:noon|midnight|night|"
    r"the weekend|the last minute|the moment)|after (?:a|an|one|two|three|four|five|"
    rf"six|a few|several) {_UNIT}s?)"
)
_ADJECTIVE = (
    "(?:(?:very |too |so |quite |really )?(?:friendly|fast|cheap|light|heavy|clean|"
    "quiet|warm|cold|hot|small|big|large|easy|simple|safe|strong|soft|kind|polite|nice|"
    "good|new|old|bright|dark|loud|slow|quick|clear|fresh|tasty|waterproof|expensive|"
    "modern))"
)
_SETS = {
    # Only the pronoun or the beginning of a noun phrase is checked.
    "SUBJECT": rf"(?:{_SUBJECTS}|{_DETERMINER} (?!of\b)\w+)",
    "TIME": _TIME,
    "CONJUNCTION": "(?:when|whenever|if|because|before|after|while|although|unless|"
    "as soon as)",
    "DETERMINER": _DETERMINER,
    "ABILITY": (
        r"(?:hear|see|swim|speak|drive|ride|play|sing|dance|understand|read|believe|"
        r"feel|imagine|smell|taste|remember|guess|eat|cook|be|have|know|afford)\b"
    ),
    "PHRASAL": (
        "(?:(?:turn|switch)(?:s|es|ed|ing)?|pick(?:s|ed|ing)?|put|take|takes|took|"
        "throw|threw|bring|brought|write|wrote|clean|cleaned|plug|plugged|shut|wake|"
        "woke)"
    ),
    "PARTICLE": "(?:on|off|up|down|away|back|out)",
    "AFTER": (
        "when|if|before|after|while|because|from|at|for|today|tomorrow|tonight|"
        "yesterday|this|last|next|every|again|please|now|and|so"
    ),
    "ADJECTIVE": _ADJECTIVE,
}
# Before these words a clause is an object, or the conjunction belongs to them.
_BOUND = re.compile(
    r"\b(?:know|knows|knew|wonder|wonders|ask|asks|asked|see|tell|told|say|said|"
    r"check|sure|"
    r"decide|remember|forgot|forget|remind|even|only|just|right|shortly|long|ever|look|"
    r"looked|looks|looking|named|what|day|days|week|weeks|hour|hours|minutes|or|and|"
    r"but|"
    r"exactly|especially|except|like|as|doesn't matter|care)(?: me| us| him| her|"
    r" them| you)?$|,|"
    r"\b(?:that|who|which|whether|"
    r"where|if|when|because|unless|while|before|after)\b|"
    r"(?<!need )(?<!needs )(?<!have )(?<!has )(?<!had )(?<!going )(?<!like )(?<!able )"
    r"\bto\b(?! (?:the|a|my|our|your|his|her|their|it|me|you|us)\b)"
)
_REORDERING = ("front-time", "clause-first", "because-so")
# First words that have no capital inside a sentence.
_SMALL = re.compile(rf"^(?:{_SUBJECTS}|{_DETERMINER}|please|don't|can|could|let's|to|"
                    r"when|whenever|if|because|before|after|while|although|unless|as|"
                    r"in|on|at|last|next|every|each|today|tonight|tomorrow|yesterday|"
                    r"how|what|where|do|does|is|are|who|why|which|remember|turn|"
                    r"take)\b",
                    re.IGNORECASE)  # fmt: skip
_FORMS = {
    "v": (
        inflection.BASE, inflection.THIRD, inflection.PAST, inflection.PARTICIPLE,
        inflection.GERUND,
    ),
    "n": (inflection.BASE, inflection.PLURAL),
    "x": (inflection.BASE,),
}  # fmt: skip
_BEFORE_VERB = frozenset((
    "to", "i", "you", "we", "they", "can", "could", "will", "would",
    "shall", "should", "may", "might", "must", "please", "not", "don't",
))  # fmt: skip
_NEVER = {
    "cannot": r"can(?:'t|not) (?:stand|help|wait)\b",
    "what-time": r"^what time is it$",
}
_OBJECTS = {"i": "me", "we": "us"}


class Rule(NamedTuple):
    """A rule of the table.

    Attributes:
        name: name of the rule.
        pattern: pattern of a whole sentence without its mark.
        form: the new sentence.
        mark: required mark of the sentence; "any" for any.
        new_mark: mark of the new sentence; "=" for the same.
        example: a sentence.
        result: result for the example, or empty if only another rule changes it.
        stays: a sentence that the rule leaves unchanged.
    """

    name: str
    pattern: re.Pattern[str]
    form: str
    mark: str
    new_mark: str
    example: str
    result: str
    stays: str


@dataclass(frozen=True)
class Table:
    """The rules and the words of `wordings.txt`.

    Attributes:
        rules: rules in the order of the file.
        written: words in one form -> part of speech, words that may replace them.
        canonical: words in one form -> the word that stands for its set.
    """

    rules: Sequence[Rule]
    written: dict[str, tuple[str, tuple[str, ...]]]
    canonical: dict[str, str]

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds the words of `written`, the longest first."""
        return _any_of(self.written)

    @functools.cached_property
    def known(self) -> re.Pattern[str]:
        """Finds the words of `canonical`, the longest first."""
        return _any_of(self.canonical)


class Reworded(NamedTuple):
    """A rewording.

    Attributes:
        text: the result.
        steps: names of the rules, and `word -> word`.
    """

    text: str
    steps: tuple[str, ...]


def reword(text: str, num: int = _MOST) -> list[Reworded]:
    """Rewords a sentence, deterministically.

    Args:
        text: a sentence, or a line for each; literals and line breaks stay, see
            `jaxaug.paraphrase.literals`. Lines of several sentences have no rewordings.
        num: maximum number of results.

    Returns:
        Distinct results that differ from the text, the shortest derivations first.
    """
    framed = literals.framed(text)
    outputs = [
        {one.text: one.steps for one in _reworded(piece.masked, num)}
        for piece in framed.pieces
    ]
    return [
        Reworded(
            one.text,
            tuple(s for n, output in one.outputs.items() for s in outputs[n][output]),
        )
        for one in framed.written([list(own) for own in outputs])
    ]


def _reworded(text: str, num: int) -> list[Reworded]:
    body, _ = _parts(text)
    if not body or re.search(r"[.!?]\s", body):
        return []
    found = {_folded(text): Reworded(text, ())}
    layer = [Reworded(text, ())]
    for _ in range(_DEPTH):
        following = []
        for one in layer:
            for step, written in _once(one.text):
                kind = step.partition(" -> ")[0]
                if _folded(written) in found or any(
                    s.partition(" -> ")[0] == kind for s in one.steps
                ):
                    continue
                result = Reworded(written, (*one.steps, step))
                found[_folded(written)] = result
                following.append(result)
        layer = following
    results = list(itertools.islice(found.values(), 1, 1 + num))
    if "\u2019" not in text:
        return results
    return [one._replace(text=one.text.replace("'", "\u2019")) for one in results]


@functools.cache
def table() -> Table:
    """Returns the table, which is read once."""
    rules: list[Rule] = []
    written: dict[str, tuple[str, tuple[str, ...]]] = {}
    canonical: dict[str, str] = {}
    lines = FILE.read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    place = 0
    while place < len(lines):
        line = lines[place]
        if line.startswith("rule "):
            end = place + 4
            while end < len(lines) and lines[end][0] in "+->":
                end += 1
            rules.append(_rule(lines[place:end]))
            place = end
            continue
        for word, kind, others, stands in _words(line):
            canonical.setdefault(word, stands)
            if others:
                written[word] = kind, (*written.get(word, ("", ()))[1], *others)
        place += 1
    return Table(rules, written, canonical)


def canonical(text: str) -> str:
    """Returns a text in lower case, without contractions, with one word or phrase for
    all that mean the same."""
    lower = expanded(text)
    for before, after in _EVEN:
        lower = re.sub(before, after, lower)
    return table().known.sub(lambda m: table().canonical[m[0].lower()], lower)


def expanded(text: str) -> str:
    """Returns a text in lower case without contractions."""
    lower = text.lower()
    for before, after in _CONTRACTIONS:
        lower = re.sub(before, after, lower)
    return lower


_CONTRACTIONS = (
    ("\u2019", "'"), (r"\bcan't\b", "can not"), (r"\bcannot\b", "can not"),
    (r"\bwon't\b", "will not"), (r"n't\b", " not"), (r"'m\b", " am"),
    (r"'re\b", " are"),
    (r"'ve\b", " have"), (r"'ll\b", " will"),
    (r"\b(i|you|he|she|we|they)'d like\b", r"\1 would like"),
    (r"\b(it|he|she|that|what|there|where)'s\b", r"\1 is"),
)  # fmt: skip
# Phrases with the same meaning -> one of them.
_EVEN = (
    (r"\bis going to\b|\bare going to\b|\bam going to\b", "will"),
    (r"\b(?:is|are|am) (?:unable to|not able to)\b", "can not"),
    (r"\b(?:was|were) (?:unable to|not able to)\b", "could not"),
    (r"\bwould like\b", "want"), (r"^(?:can|could|would|will) you ", ""),
    (r"\b(?:have|need|got) to\b", "need to"), (r"\b(?:has|needs) to\b", "needs to"),
    (r"\b(?:could|would|can|will) you\b", "can you"),
    (r"\bhow (?:do|can) i\b", "how can i"),
    (r"\bhave you got\b", "do you have"), (r"\bdo not forget to\b", "remember to"),
    (r"\bwhat (is|are) the (?:price|cost) of\b", r"how much cost"),
    (r"\bhow much (?:does|do|is|are) (.*) cost\b", r"how much cost \1"),
)  # fmt: skip


def _rule(lines: Sequence[str]) -> Rule:
    name = lines[0].removeprefix("rule ")
    pattern = lines[1].strip()
    for word, found in _SETS.items():
        whole = rf"(?<![A-Z]){word}(?![A-Z])"
        pattern = re.sub(whole, lambda _: found, pattern)  # noqa: B023
    mark, new_mark = lines[3].split()
    notes = {line[0]: line[2:] for line in lines[4:]}
    compiled = re.compile(rf"^{pattern}$", re.IGNORECASE)
    return Rule(
        name, compiled, lines[2].strip(), mark, new_mark,
        notes["+"], notes.get(">", ""), notes["-"],
    )  # fmt: skip


def _words(line: str) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yields (word, part of speech, replacements, canonical word) of a line."""
    pos, rest = line.split(" ", 1)
    both, arrow, target = re.split(r" (->|==) ", f"{rest} -> ")[:3]
    words = [word.strip().replace("_", " ") for word in both.split(" / ")]
    last = target.strip().replace("_", " ")
    words = [word for word in words if word != last] + ([last] if last else [])
    for form in _FORMS[pos]:
        written = [inflection.inflect(word, pos, form) for word in words]
        may = () if arrow == "==" else written[-1:] if last else written
        # Forms with an ending rarely have two parts of speech.
        kind = pos if form == inflection.BASE else "x"
        for word in written:
            yield word, kind, tuple(o for o in may if o != word), written[-1]


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    ordered = sorted(map(re.escape, words), key=len, reverse=True)
    return re.compile(rf"(?<![\w'-])(?:{'|'.join(ordered)})(?![\w'-])", re.IGNORECASE)


def _once(text: str) -> Iterator[tuple[str, str]]:
    """Yields (name, result) of each rule and each word."""
    body, mark = _parts(text)
    for rule in table().rules:
        written = _by_rule(rule, body, mark)
        if written is not None:
            yield rule.name, written
    for match in table().pattern.finditer(body):
        if not _fits(match, body):
            continue
        for other in table().written[match[0].lower()][1]:
            changed = body[: match.start()] + other + body[match.end() :]
            yield f"{match[0].lower()} -> {other}", _capital(_articles(changed)) + mark


def _fits(match: re.Match[str], body: str) -> bool:
    """Returns whether the words before a match leave its part of speech possible."""
    pos = table().written[match[0].lower()][0]
    before = body[: match.start()].lower().split()[-1:]
    if pos == "v":  # A base form may be a noun: "a good start".
        return bool(before) and before[0] in _BEFORE_VERB
    return pos != "n" or not (before and before[0] in _BEFORE_VERB)


def apply_rule(rule: Rule, text: str) -> str | None:
    """Returns the result of a rule, or None if the rule does not apply."""
    return _by_rule(rule, *_parts(text))


def _by_rule(rule: Rule, body: str, mark: str) -> str | None:
    if rule.mark != "any" and (mark or ".")[-1] not in (rule.mark, "!"):
        return None
    if rule.mark == "?" and mark != "?":
        return None
    if rule.name in _NEVER and re.search(_NEVER[rule.name], body, re.IGNORECASE):
        return None
    match = rule.pattern.match(body)
    if match is None or not _SMALL.match(body):
        return None
    parts = match.groupdict()
    if rule.name in _REORDERING and _BOUND.search(
        parts["b" if rule.name == "because-so" else "a"].lower()
    ):
        return None
    form = re.sub(r"OBJECT\((\w)\)", lambda m: _OBJECTS[parts[m[1]].lower()], rule.form)
    form = re.sub(r"BE\((\w)\)", lambda m: _be(parts[m[1]], "am", "is", "are"), form)
    form = re.sub(
        r"WAS\((\w)\)", lambda m: _be(parts[m[1]], "was", "was", "were"), form
    )
    small = {name: _small(part or "") for name, part in parts.items()}
    written = _capital(" ".join(form.format(**small).split()))
    return written + (mark if rule.new_mark == "=" or not mark else rule.new_mark)


def _be(subject: str, first: str, third: str, others: str) -> str:
    return {"i": first, "he": third, "she": third, "it": third}.get(
        subject.lower(), others
    )


def _small(part: str) -> str:
    """Returns a part of a sentence with the case of the middle of a sentence."""
    if re.match(r"(?:I\b|I')", part) or not _SMALL.match(part):
        return part
    return part[:1].lower() + part[1:]


def _capital(text: str) -> str:
    text = re.sub(r"\bi\b(?![.])", "I", text)
    return text[:1].upper() + text[1:]


def _articles(text: str) -> str:
    """Corrects "a" and "an" if the next word has changed."""
    text = re.sub(r"\b([Aa])n (?=[bcdfgj-np-tv-z])", r"\1 ", text)
    return re.sub(
        r"\b([Aa]) (?=(?:[aeio]|un(?!i)|up)[a-z])(?!one\b|once\b)", r"\1n ", text
    )


def _parts(text: str) -> tuple[str, str]:
    text = " ".join(text.replace("\u2019", "'").split())
    bare = text.rstrip(".!?")
    return bare, text[len(bare) :]


def _folded(text: str) -> str:
    return " ".join(re.findall(r"[\w$']+", text.lower()))
