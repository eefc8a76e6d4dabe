"""White space, letter case, and display of texts."""

import re

_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LIST_MARK = re.compile(r"^(?:[-*•]|\(?\d{1,2}[.)])\s+")
_QUOTES = {'"': '"', "'": "'", "“": "”", "`": "`"}
_AT_MARKS = re.compile(r" (?=[^\w\s])|(?<=[^\w\s]) ")


def spaced(text: str) -> str:
    """Returns a text with single spaces between words, and none next to marks.

    It is equal for two texts that differ only in white space, such as `Why ?` and
    `Why?`, but not for `pick up` and `pickup`.
    """
    return _AT_MARKS.sub("", " ".join(text.split()))


def is_copy(text: str, source: str) -> bool:
    """Returns whether two texts are equal up to case and white space."""
    return spaced(text).casefold() == spaced(source).casefold()


def clean(text: str, lowercase: bool) -> str:
    """Replaces runs of white space with single spaces; optionally lower-cases."""
    # The single space is the only printable white space; most texts are already clean.
    if not text.isprintable() or "  " in text or text[:1] == " " or text[-1:] == " ":
        text = " ".join(text.split())
    return text.lower() if lowercase else text


def is_single_spaced(text: str) -> bool:
    """Returns whether a text has no white space but single spaces between words."""
    return text == " ".join(text.split())


def unmarked(text: str) -> str:
    """Returns a text without an initial list mark and enclosing quotes."""
    text = _LIST_MARK.sub("", text)
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    return text


def printable(name: str) -> str:
    """Returns a printable file name, with escapes for control characters and non-UTF-8.

    Python stores such bytes as lone surrogates, which neither a terminal nor a UTF-8
    file accepts.
    """
    return _UNFIT.sub(lambda match: _escaped(ord(match[0])), name)


def _escaped(code: int) -> str:
    # Python represents byte 0xff as U+DCFF.
    code -= 0xDC00 if 0xDC80 <= code <= 0xDCFF else 0
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
