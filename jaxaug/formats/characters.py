"""UTF-8 characters as parts of byte machines, with exceptions."""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from jaxaug.core.byte_machine import Parts

TAIL = (0x80, 0xBF)
"""Range of the bytes of a character after its first one."""
# Maps first bytes of UTF-8 characters to ranges of the other bytes. It excludes
# surrogates, code points above U+10FFFF, and overlong forms.
_UTF8: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0xC2, 0xDF), TAIL),
    ((0xE0, 0xE0), (0xA0, 0xBF), TAIL),
    ((0xE1, 0xEC), TAIL, TAIL),
    ((0xED, 0xED), (0x80, 0x9F), TAIL),
    ((0xEE, 0xEF), TAIL, TAIL),
    ((0xF0, 0xF0), (0x90, 0xBF), TAIL, TAIL),
    ((0xF1, 0xF3), TAIL, TAIL, TAIL),
    ((0xF4, 0xF4), (0x80, 0x8F), TAIL, TAIL),
)


class Characters(Parts):
    """Parts with moves over whole characters."""

    def tails(self, inside: int) -> list[int]:
        """Returns the states with 0, 1, 2, and 3 bytes left; the first is `inside`."""
        found = [inside, self.state(), self.state(), self.state()]
        for after, before in pairwise(found):
            self.move(before, *TAIL, after)
        return found

    def characters(
        self,
        at: int,
        ascii_ranges: Iterable[tuple[int, int]],
        tails: Sequence[int],
        without: Iterable[bytes] = (),
    ) -> None:
        """Moves over one character from a state.

        Args:
            at: state before the character.
            ascii_ranges: first and last of the permitted bytes below 0x80.
            tails: states after the first byte; see `tails`.
            without: multi-byte characters that are not permitted.
        """
        for low, high in ascii_ranges:
            self.move(at, low, high, tails[0])
        for ranges in _UTF8:
            texts = {text for text in without if len(text) == len(ranges)}
            self._wide(at, ranges, tails, texts)

    def _wide(
        self,
        at: int,
        ranges: Sequence[tuple[int, int]],
        tails: Sequence[int],
        without: Iterable[bytes],
    ) -> None:
        """Moves over multi-byte characters, except for some, to tails[0]."""
        (low, high), rest = ranges[0], ranges[1:]
        held = {text[0] for text in without if low <= text[0] <= high}
        usual = all(one == TAIL for one in rest)
        if gaps := gaps_of(low, high, held):
            after = tails[len(rest)] if usual else self.state()
            for gap in gaps:
                self.move(at, *gap, after)
            if not usual:
                self._wide(after, rest, tails, ())
        for byte in sorted(held) if rest else ():
            after = self.state()
            self.move(at, byte, byte, after)
            shorter = {text[1:] for text in without if text[0] == byte}
            self._wide(after, rest, tails, shorter)


def gaps_of(low: int, high: int, held: Iterable[int]) -> list[tuple[int, int]]:
    """Returns the ranges that remain of a range without some numbers."""
    marks = [low - 1, *sorted(held), high + 1]
    return [(a + 1, b - 1) for a, b in pairwise(marks) if a + 1 <= b - 1]


@cache
def spaces() -> frozenset[bytes]:
    """Returns the multi-byte white space of `str.split`."""
    return frozenset(
        chr(code).encode() for code in range(0x80, 0x10000) if chr(code).isspace()
    )
