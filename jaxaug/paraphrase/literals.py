r"""Literals: the parts of a text that are no words, which stay letter by letter.

Literals are addresses, paths, code, placeholders, markup, numbers and their units,
quotations, emoji, names such as `snake_case` and `camelCase`, and words of another
script than the text. The lines, the indentation, and the section names of a text stay
too. The rest is prose in pieces: at most one line each.

Generators get pieces with a mask such as `[1]` instead of each literal. Their outputs
get the literals back; an output without a literal, or with one twice, is dropped. Plain
numbers need no mask, but are checked as well.

    reworded(["mail to bob@example.com"], generate)  # generate(["mail to [1]"])
"""

import bisect
import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Span = tuple[int, int]
"""Start and exclusive end, in characters."""
Generate = Callable[[Sequence[str]], list[list[str]]]
"""Texts -> outputs of each."""

# White space between words; no-break spaces join them.
_BLANK = r"[^\S\u00a0\u202f]"
_TOKEN = re.compile(r"(?:\S|[\u00a0\u202f])+")
_JOIN = r"[ \u00a0\u202f]"
_NUMBER = r"\d++(?:[.,:/-]\d++)*+"
_UNITS = (
    r"%|‰|°[CF]?|[kMGTP]i?[Bb](?:ps|/s)?|bps|bytes?|[num\u00b5\u03bc]?s|min|hrs?|h|"
    r"[kcmn\u00b5\u03bc]?m[²³]?|km/h|m/s|mph|[km]?g|lbs?|oz|m?l|px|pt|r?em|dpi|fps|rpm|"
    r"[kMG]?Hz|[kM]?Wh?|[km]?V|mAh|[aApP](?:\.[mM]\.|[mM])|USD|EUR|GBP|JPY|CHF|UTC|GMT|"
    r"[$€£¥₹]"
)
# Literals with white space or marks at an end. Possessive or bounded, so they take
# linear time.
_WIDE = re.compile(
    rf"""
    ```[\s\S]*?(?:```|\Z)|``[^\n]+?``|`[^`\n]++`        # code
    |<!--[\s\S]{{0,2000}}?-->|<[^<>\s][^<>]{{0,999}}+>  # tags and placeholders
    |!?\[[^\[\]\n]*+\](?:\([^()\n]*+\)|\[[^\[\]\n]*+\]) # links
    |\{{(?:[^{{}}]|\{{(?:[^{{}}]|\{{[^{{}}]*+\}})*+\}})*+\}}
    |\[(?:[^\[\]]|\[[^\[\]]*+\])++\]
    |\b[A-Za-z_][\w.]*+\([^()\n]*+\)                    # calls
    |\$(?=[^\s$])[^$\n]{{0,199}}?(?<=[^\s$\\])\$(?!\w)|\\\([^\n]{{0,199}}?\\\)
    |"[^"\n]++"|“[^”\n]{{1,999}}+”|«[^»\n]{{1,999}}+»|‘[^’\n]{{1,999}}+’(?!\w)
    |„[^“”\n]{{1,999}}+[“”]
    |(?<![\w'])'[^\s'](?:[^'\n]*[^\s'])?'(?!\w)
    |&(?:\#\d+|\#[xX][\da-fA-F]+|[A-Za-z]\w*);|(?<![\w:]):[a-z0-9_+-]+:(?![\w:])
    |(?<![\w.])(?:[A-Za-z]\.){{2,}}                     # e.g.
    |\d{{4}}-\d\d-\d\d{_JOIN}\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?(?!\w)
    |(?<![\w.,])(?:[$€£¥₹]{_JOIN}?)?\d{{1,3}}(?:{_JOIN}\d{{3}})+(?![\w.,]?\d)
    |(?<![\w.])\+?\d[\d() -]{{6,18}}\d(?!\w)            # telephone numbers
    |(?<![\w.])[$€£¥₹]{_JOIN}?{_NUMBER}
    |(?<![\w.]){_NUMBER}{_JOIN}?(?:{_UNITS})(?!\w)
    |\b[A-Z][A-Z0-9]+{_JOIN}\d(?:[\w.:/-]*\w)?          # ISO 8601
    """,
    re.VERBOSE,
)
_LATIN = r"A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_WORD = re.compile(rf"[{_LATIN}]+(?:['’-][{_LATIN}]+)*(?:['’](?=\Z))?")
# Inner capitals, as in `camelCase`.
_MIXED = re.compile(r"[a-z\u00df-\u00f6\u00f8-\u00ff][A-Z]")
_PLAIN = re.compile(_NUMBER)
_BOTH = frozenset({"and/or"})
# Marks of sentences, around words or alone.
_OPENING, _CLOSING = "([{\"'“‘«¿¡„", ".,;:!?)]}\"'”’»…"
_MARKS = frozenset(f"{_OPENING}{_CLOSING}-–—&+/|")
_ENDS = ".!?:;…"

_LINE_END = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
# Columns, and a wide space behind a sentence.
_GAP = re.compile(rf"[^\S \u00a0\u202f](?:{_BLANK})*|(?<=[.!?:;]) {{2,}}")
_BULLETS = re.compile(
    r"\s*(?:(?:[-*+•‣◦–—]|\d{1,3}[.)]|\(?[A-Za-z0-9]{1,2}\)|#{1,6}|>)[ \t]+"
    r"(?:\[[ xX]\][ \t]+)?)*"
)
# `:param name:`, `@param name`, `name (type):` in the lines of docstrings.
_ENTRY = re.compile(
    r":[a-z]+(?: [\w.\[\], *|]+)?:\s+|@\w+(?:[ \t]+\{[^}\n]*\})?[ \t]+\S+[ \t]+|"
    r"[`*]{0,2}[\w.\[\]-]+[`*]{0,2}(?: ?\([^()\n]*\))?[ \t]*:(?=\s|\Z)\s*"
)
# Section names, tables, and lines of a session.
_NO_PROSE = re.compile(
    r"\s*(?:[A-Z][\w ]{0,40}:\s*\Z|[A-Z]\w*(?: [A-Z]\w*)?\s*\Z|"
    r"\*{0,2}\w+(?:, \*{0,2}\w+)* : |\||>>>|\.\.\. |\$ )"
)
_WRAPPED = 40  # Least characters of a line whose sentence continues in the next one.
_MASK = re.compile(r"\[\d+\]")


@functools.lru_cache(20_000)
def spans(text: str) -> tuple[Span, ...]:
    """Returns the literals of a text without the marks of the sentence around them."""
    wide = [match.span() for match in _WIDE.finditer(text)]
    latin = _is_latin(text)
    found: list[Span] = []
    place = 0
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        while place < len(wide) and wide[place][1] <= start:
            place += 1
        last = place
        while last < len(wide) and wide[last][0] < end:
            last += 1
        if last == place:
            start, end = _core(text, start, end)
            if start < end and not _is_word(text[start:end], latin):
                found.append((start, end))
            continue
        # The token around a wide literal is part of it, but for the outer marks.
        within = max(wide[place][0], start), min(wide[last - 1][1], end)
        core = _core(text, start, end)
        start, end = min(core[0], within[0]), max(core[1], within[1])
        if found and wide[place][0] < found[-1][1]:
            start = found.pop()[0]
        found.append((start, end))
    return tuple(found)


def found(text: str) -> tuple[str, ...]:
    """Returns the literals of a text in their order, with repetitions."""
    return tuple(text[start:end] for start, end in spans(text))


def keeps(source: str, output: str) -> bool:
    """Returns whether an output has each literal of its source equally often."""
    needed = Counter(found(source))
    if not needed:
        return True
    there = Counter(found(output))
    return all(
        there[literal] == count
        # Numbers side by side may be one literal, such as a telephone number.
        and (
            not _PLAIN.fullmatch(literal)
            or output.count(literal) == source.count(literal)
        )
        for literal, count in needed.items()
    )


def _core(text: str, start: int, end: int) -> Span:
    """Returns a token without the marks of the sentence around it."""
    token = text[start:end]
    if all(character in _MARKS for character in token):
        return end, start  # Empty.
    while text[start] in _OPENING and start < end - 1:
        start += 1
    while end > start and text[end - 1] in _CLOSING:
        inside = text[start : end - 1]
        if text[end - 1] == ")" and inside.count("(") > inside.count(")"):
            break  # "wiki/A_(letter)"
        end -= 1
    return start, end


def _is_word(core: str, latin: bool) -> bool:
    if not latin and core.replace("-", "").isalpha():
        return True
    if not latin and not any(c.isascii() and not c.isspace() for c in core):
        return any(map(str.isalpha, core))  # Its vowel signs are no letters.
    if core.lower() in _BOTH:
        return True
    if "-" in core and core.isupper():
        return False  # "YYYY-MM-DD"
    return _WORD.fullmatch(core) is not None and not _MIXED.search(core)


def _is_latin(text: str) -> bool:
    """Returns whether most letters of a text are Latin, or it has none."""
    if text.isascii():
        return True
    count = sum(map(str.isalpha, text))
    # One character of Chinese is about two letters.
    count += sum(c.isalpha() for c in text if c > "\u2e80")
    return 2 * sum(map(len, re.findall(f"[{_LATIN}]+", text))) >= count


@dataclasses.dataclass(frozen=True)
class Piece:
    """A piece of prose.

    Attributes:
        masked: the piece for a generator: masks instead of literals that are no plain
            numbers, and single spaces.
    """

    span: Span
    source: str
    literals: tuple[Span, ...]

    @functools.cached_property
    def _hidden(self) -> tuple[Span, ...]:
        source = self.source
        return tuple(
            (start, end)
            for start, end in self.literals
            if not _PLAIN.fullmatch(source[start:end])
        )

    @functools.cached_property
    def masked(self) -> str:
        """The piece for a generator; see the class."""
        parts, done = [], 0
        for number, (start, end) in enumerate(self._hidden, 1):
            parts += [self.source[done:start], f"[{number}]"]
            done = end
        parts.append(self.source[done:])
        return re.sub(rf"(?:{_BLANK})+", " ", "".join(parts)).strip()

    def hide(self, text: str) -> str:
        """Returns another text with masks instead of the literals of the piece."""
        for number, (start, end) in enumerate(self._hidden, 1):
            text = text.replace(self.source[start:end], f"[{number}]")
        return text

    @property
    def masks(self) -> list[str]:
        """The masks in `masked`."""
        return [f"[{number}]" for number in range(1, len(self._hidden) + 1)]

    def restored(self, output: str) -> str | None:
        """Returns an output with the literals; None if it lacks or repeats one."""
        if not self.literals:
            return output
        if sorted(_MASK.findall(output)) != sorted(self.masks):
            return None
        literals = {
            mask: self.source[start:end]
            for mask, (start, end) in zip(self.masks, self._hidden, strict=True)
        }
        text = _MASK.sub(lambda match: literals[match[0]], output)
        return text if keeps(self.source, text) else None


class Written(NamedTuple):
    """A rewording of a text, and number of the piece -> the output in it."""

    text: str
    outputs: Mapping[int, str]


@dataclasses.dataclass(frozen=True)
class Framed:
    """A text as pieces of prose in a frame that stays.

    Attributes:
        pieces: its pieces in their order; none if the text has no word.
    """

    text: str
    pieces: tuple[Piece, ...]

    def filled(self, outputs: Mapping[int, str]) -> str:
        """Returns the text with other pieces: number of the piece -> text."""
        parts, done = [], 0
        for number, piece in enumerate(self.pieces):
            start, end = piece.span
            new = outputs.get(number, piece.source)
            parts += [self.text[done:start], new]
            done = end
        return "".join([*parts, self.text[done:]])

    def written(self, outputs: Sequence[Sequence[str]]) -> list[Written]:
        """Returns rewordings of the text.

        Args:
            outputs: for each piece the outputs of a generator for its `masked`.

        Returns:
            The first text has the first output of each piece, and so on; a piece with
            fewer outputs repeats them. Outputs that do not keep the literals are left
            out.
        """
        kept = [
            [(new, one) for one in own if (new := piece.restored(one)) is not None]
            for piece, own in zip(self.pieces, outputs, strict=True)
        ]
        if len(kept) > 1:
            kept = [[one for one in own if one[0].strip()] for own in kept]
        found = []
        for i in range(max(map(len, kept), default=0)):
            chosen = {n: own[i % len(own)] for n, own in enumerate(kept) if own}
            text = self.filled({n: new for n, (new, _) in chosen.items()})
            # A literal at the edge of the frame may have grown together with it.
            if keeps(self.text, text):
                found.append(Written(text, {n: one for n, (_, one) in chosen.items()}))
        return found

    @property
    def longest(self) -> Piece | None:
        """The longest piece, the first of several."""
        return max(self.pieces, key=lambda piece: len(piece.source), default=None)

    def fixed(self) -> list[Span]:
        """Returns the parts that no generator changes, without overlaps."""
        parts, done = list[Span](), 0
        for piece in self.pieces:
            start, end = piece.span
            parts.append((done, start))
            parts += [(start + one, start + other) for one, other in piece.literals]
            done = end
        return [part for part in (*parts, (done, len(self.text))) if part[0] < part[1]]


@functools.lru_cache(20_000)
def framed(text: str) -> Framed:
    """Returns the pieces of a text; see the module."""
    literals = spans(text)
    pieces = []
    for start, end in _prose(text, literals):
        first, last = (bisect.bisect_left(literals, (at,)) for at in (start, end))
        own = tuple((a - start, b - start) for a, b in literals[first:last])
        pieces.append(Piece((start, end), text[start:end], own))
    return Framed(text, tuple(one for one in pieces if _has_words(one)))


def _has_words(piece: Piece) -> bool:
    """Returns whether a piece has a word that is no literal."""
    rest, done = [], 0
    for start, end in piece.literals:
        rest.append(piece.source[done:start])
        done = end
    return any(map(str.isalpha, "".join([*rest, piece.source[done:]])))


def _prose(text: str, literals: Sequence[Span]) -> Iterator[Span]:
    """Yields the pieces of a text, before it is known whether they have words."""
    lines = list(_divided((0, len(text)), _LINE_END, text, literals))
    several = len(lines) > 1
    bodies: list[Span] = []
    for start, end in lines:
        line = text[start:end]
        if several and _NO_PROSE.match(line):
            bodies.append((end, end))
            continue
        found = _BULLETS.match(line)
        begin = start + (found.end() if found else 0)
        if several and (entry := _ENTRY.match(text[begin:end])):
            begin += entry.end()
        bodies.append((_around(begin, literals), end))
    wrapped: set[int] = set()
    for place in range(len(bodies) - 1):
        start, end = lines[place]
        after = bodies[place + 1]
        indent = text[lines[place + 1][0] : after[0]]
        goes_on = not indent.strip() and text[slice(*after)].strip()
        line = text[start:end].rstrip()
        if len(line) >= _WRAPPED and line[-1] not in _ENDS and goes_on:
            # Half a sentence is no text to reword.
            wrapped |= {place, place + 1}
    for place, body in enumerate(bodies):
        if place not in wrapped:
            yield from _divided(body, _GAP, text, literals)


def _around(place: int, literals: Sequence[Span]) -> int:
    """Returns the start of the literal around a place, else the place itself."""
    number = bisect.bisect_left(literals, (place,)) - 1
    if number >= 0 and literals[number][1] > place:
        return literals[number][0]
    return place


def _divided(
    span: Span, gaps: re.Pattern[str], text: str, literals: Sequence[Span]
) -> Iterator[Span]:
    """Yields the parts of a span between gaps outside of literals, without blanks."""
    start, end = span
    for match in gaps.finditer(text, *span):
        if _around(match.start(), literals) != match.start():
            continue
        yield _stripped(text, start, match.start())
        start = match.end()
    yield _stripped(text, start, end)


def _stripped(text: str, start: int, end: int) -> Span:
    own = text[start:end]
    start += len(own) - len(own.lstrip())
    return start, max(start, end - (len(own) - len(own.rstrip())))


def reworded(texts: Sequence[str], generate: Generate) -> list[list[str]]:
    """Returns the outputs of a generator, which sees no literals, with literals."""
    frames = [framed(text) for text in texts]
    asked = [piece.masked for one in frames for piece in one.pieces]
    outputs = iter(generate(asked) if asked or not texts else ())
    return [
        [new.text for new in one.written([next(outputs) for _ in one.pieces])]
        for one in frames
    ]


def keeping(generate: Callable[..., list[list[str]]]) -> Any:
    """Returns a function of texts that keeps their literals; see `reworded`."""

    def call(texts: Sequence[str], **options: Any) -> list[list[str]]:
        return reworded(list(texts), functools.partial(generate, **options))

    # A `partial` has no name.
    return functools.wraps(generate)(call) if hasattr(generate, "__name__") else call
