"""Replaces words by synonyms of `senses.txt`, by sense."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from etils import epath

from jaxaug.augment.grammar import patterns, vocabulary
from jaxaug.augment.grammar.chunks import NOUN, VERB, Chunk
from jaxaug.augment.grammar.context import Context
from jaxaug.augment.grammar.rules import tidy
from jaxaug.core.errors import UserError

_FILE = epath.Path(__file__).parent / "senses.txt"


@dataclasses.dataclass(frozen=True)
class Sense:
    """A pair of words of one sense.

    Attributes:
        pos: "n", "v" or "a", see the file.
        old: to be replaced, in its base form.
        new: the replacement, in its base form.
        needed: one of these stands in the text or describes the service, if any.
        text: one of these stands in the text, if any.
        refused: none of these stands or describes.
        objects: classes of the noun behind the verb; empty for any.
    """

    pos: str
    old: str
    new: str
    needed: frozenset[str]
    text: frozenset[str]
    refused: frozenset[str]
    objects: frozenset[str]

    @property
    def name(self) -> str:
        """Name of the step in a derivation."""
        return f"{self.old} -> {self.new}"


@functools.cache
def table() -> dict[str, tuple[Sense, ...]]:
    """Returns old word -> its senses in the order of the file.

    Raises:
        UserError: a line of the file is malformed.
    """
    found: dict[str, list[Sense]] = {}
    for number, line in enumerate(_FILE.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        pos, *rest = line.split()
        conditions = dict(part.split("=", 1) for part in rest if "=" in part)
        words = [part.replace("_", " ") for part in rest if "=" not in part]
        unknown = set(conditions) - {"if", "txt", "not", "obj"}
        if pos not in ("n", "v", "a") or unknown or len(set(words) - {"->"}) < 2:
            raise UserError(
                f"{_FILE}, line {number}: {line!r} is no sense. Write n, v or a, two "
                "words or more, and conditions `if=`, `txt=`, `not=`, `obj=`."
            )
        sets = [
            frozenset(conditions[name].split("/"))
            if name in conditions
            else frozenset()
            for name in ("if", "txt", "not", "obj")
        ]
        both = "->" not in words
        words = [word for word in words if word != "->"]
        for old in words if both else words[:1]:
            for new in words:
                if new != old:
                    found.setdefault(old, []).append(Sense(pos, old, new, *sets))
    return {old: tuple(senses) for old, senses in found.items()}


def bases(chunks: Sequence[Chunk]) -> frozenset[tuple[str, str]]:
    """Returns (kind of chunk, base form) of the nouns and verbs of a text."""
    found = {(VERB, chunk.base) for chunk in chunks if chunk.kind == VERB}
    for chunk in chunks:
        if chunk.kind == NOUN:
            for word in map(str.lower, chunk.words):
                found |= {(NOUN, word), (NOUN, vocabulary.singular(word))}
    return frozenset(found)


def apply(
    chunks: Sequence[Chunk], context: Context, known: AbstractSet[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yields (step, text) with one word replaced by a synonym.

    A synonym that another slot or intent of the service uses is left out.

    Args:
        chunks: of the text.
        context: of the description.
        known: words that may be replaced, as `bases` gives them.
    """
    for place, found in enumerate(_choices(chunks, context, known)):
        for sense, changed in found:
            rest = [*chunks[:place], changed, *chunks[place + 1 :]]
            yield sense.name, tidy(patterns.text_of(rest))


def replace_all(
    chunks: Sequence[Chunk],
    context: Context,
    known: AbstractSet[tuple[str, str]],
    number: int,
) -> tuple[tuple[str, ...], str]:
    """Returns (steps, text) with a word of every group replaced that has a synonym.

    Args:
        chunks: of the text.
        context: of the description.
        known: words that may be replaced, as `bases` gives them.
        number: which synonyms: the next number takes the next one of each word.
    """
    names, written = [], list(chunks)
    for place, found in enumerate(_choices(chunks, context, known)):
        if found:
            sense, written[place] = found[number % len(found)]
            names.append(sense.name)
    return tuple(names), tidy(patterns.text_of(written))


def _choices(
    chunks: Sequence[Chunk], context: Context, known: AbstractSet[tuple[str, str]]
) -> list[list[tuple[Sense, Chunk]]]:
    """For each chunk, its changed forms."""
    words = {
        form
        for chunk in chunks
        for word in chunk.words
        for form in (word.lower(), vocabulary.singular(word.lower()))
    }
    near = words | context.service
    taken = words | context.siblings

    def fits(sense: Sense, chunk: Chunk, behind: Chunk | None) -> bool:
        if (chunk.kind, sense.old) not in known or not _takes(sense, behind):
            return False
        if sense.needed and not sense.needed & near:
            return False
        if sense.text and not sense.text & words:
            return False
        return not sense.refused & near and not {*sense.new.split()} & taken

    return [
        [
            (sense, changed)
            for sense, changed in _changed(chunk)
            if fits(sense, chunk, behind)
        ]
        for chunk, behind in zip(chunks, [*chunks[1:], None], strict=False)
    ]


def _takes(sense: Sense, behind: Chunk | None) -> bool:
    if not sense.objects:
        return True
    return behind is not None and behind.kind == NOUN and behind.cls in sense.objects


def _changed(chunk: Chunk) -> Iterator[tuple[Sense, Chunk]]:
    if chunk.kind == VERB:
        for sense in table().get(chunk.base, ()):
            if sense.pos == "v":
                written = vocabulary.inflected(sense.new, chunk.form)
                yield sense, dataclasses.replace(chunk, words=tuple(written.split()))
    if chunk.kind != NOUN:
        return
    for place, word in enumerate(chunk.words):
        lower = word.lower()
        base = vocabulary.singular(lower)
        for sense in table().get(base, table().get(lower, ())):
            last = place == len(chunk.words) - 1
            if sense.pos == "n" and not (last or " " not in sense.new):
                continue  # A phrase stands at the end of a group alone.
            if sense.pos == "a" and last:
                continue
            if sense.pos not in ("n", "a"):
                continue
            new = sense.new
            if sense.pos == "n" and base != lower:
                new = _plural_phrase(new)
            if not _keeps_compound(chunk.words, place):
                continue
            words = (*chunk.words[:place], *new.split(), *chunk.words[place + 1 :])
            det = chunk.det
            yield sense, dataclasses.replace(chunk, words=words, det=det)


def _plural_phrase(words: str) -> str:
    """The plural of a noun that words may follow: "place to stay"."""
    first, *rest = words.split(" ")
    if rest and rest[0] in vocabulary.PREPOSITIONS:
        return " ".join([vocabulary.plural(first), *rest])
    return vocabulary.plural(words)


def _keeps_compound(words: Sequence[str], place: int) -> bool:
    """Whether a word is not the head of a fixed group: "number" in "phone number"."""
    lower = [word.lower().removesuffix("'s") for word in words]
    for start in range(place + 1):
        for end in range(place + 1, len(words) + 1):
            if (
                end - start > 1
                and " ".join(
                    [*lower[start : end - 1], vocabulary.singular(lower[end - 1])]
                )
                in vocabulary.nouns()
            ):
                return False
    return True
