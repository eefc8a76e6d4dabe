"""White space and letter case of texts."""


def clean(text: str, lowercase: bool) -> str:
    """Single spaces for every run of white space, lower case where asked."""
    # Of white space only the single space is printable: most texts are clean already.
    if not text.isprintable() or "  " in text or text[:1] == " " or text[-1:] == " ":
        text = " ".join(text.split())
    return text.lower() if lowercase else text
