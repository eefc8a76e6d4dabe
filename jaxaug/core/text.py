"""White space and letter case of texts."""

import re

_AT_MARKS = re.compile(r" (?=[^\w\s])|(?<=[^\w\s]) ")


def spaced(text: str) -> str:
    """Returns a text with single spaces between words, and none next to marks.

    It is equal for two texts that differ in white space alone, such as `Why ?` and
    `Why?`, but not for `pick up` and `pickup`.
    """
    return _AT_MARKS.sub("", " ".join(text.split()))


def is_copy(text: str, source: str) -> bool:
    """Whether two texts differ in case and white space alone, if at all."""
    return spaced(text).casefold() == spaced(source).casefold()


def clean(text: str, lowercase: bool) -> str:
    """Single spaces for every run of white space, lower case where asked."""
    # Of white space only the single space is printable: most texts are clean already.
    if not text.isprintable() or "  " in text or text[:1] == " " or text[-1:] == " ":
        text = " ".join(text.split())
    return text.lower() if lowercase else text
