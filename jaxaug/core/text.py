"""White space and letter case of texts."""


def clean(text: str, lowercase: bool) -> str:
    """Single spaces for every run of white space, lower case where asked."""
    text = " ".join(text.split())
    return text.lower() if lowercase else text
