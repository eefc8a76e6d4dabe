"""Reads paraphrases from a chat model: a JSON object or a numbered list."""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from jaxaug.core.text import clean, unmarked

FIELD = "paraphrases"
_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"```[a-zA-Z]*\n?")
_ITEM = re.compile(
    r"^[^\S\n]*+(?:\(?\d{1,3}[.):]|[-*\u2022])[^\S\n]++(.+)$", re.MULTILINE
)
# A string, with its closing mark and the end of a list item if it has them. A match
# never begins inside another one, so that the search takes linear time.
_STRING = re.compile(r'("(?:[^"\\]++|\\.)*+"?)(\s*+[,\]])?', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_LETTER = re.compile(r"[^\W\d_]")
# Small models repeat words of the prompt before a paraphrase.
_LABEL = re.compile(
    r"^\W{0,2}(?:each )?paraphrase\W{0,2}\d*\W{0,2}:\W{0,2}\s+", re.IGNORECASE
)
_BOLD = re.compile(r"\A(\*\*|__)(.+)\1\Z")


def schema(count: int) -> dict[str, Any]:
    """Returns the `response_format` of a request for `count` paraphrases."""
    texts = {
        "type": "array",
        "items": {"type": "string"},
        "minItems": count,
        "maxItems": count,
    }
    return {
        "type": "json_schema",
        "json_schema": {
            "name": FIELD,
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {FIELD: texts},
                "required": [FIELD],
                "additionalProperties": False,
            },
        },
    }


def instruction(count: int, as_json: bool) -> str:
    """Returns the sentence of a prompt that states the form of the reply."""
    if as_json:
        return (
            f'Answer with a JSON object {{"{FIELD}": [...]}} that holds {count} '
            "strings, and nothing else."
        )
    return (
        f"Answer with a numbered list of {count} lines, one paraphrase a line, and "
        "nothing else."
    )


def is_json(content: str) -> bool:
    """Returns whether a reply begins like JSON."""
    return bare(content)[:1] in ("{", "[")


def paraphrases(content: str) -> list[str]:
    """Returns the cleaned paraphrases of a reply; a cut-off last one is dropped.

    Prose yields none: a line counts only if it begins with a number or a bullet. Texts
    without a letter are dropped.
    """
    content = bare(content)
    found = _of_json(content) if content[:1] in ("{", "[") else None
    if found is None:
        found = [match[1] for match in _ITEM.finditer(content)]
    texts = [_LABEL.sub("", _BOLD.sub(r"\2", clean(text, False))) for text in found]
    texts = [unmarked(text) for text in texts]
    # UTF-8 cannot encode half of a surrogate pair.
    return [t for t in texts if _LETTER.search(t) and not _SURROGATE.search(t)]


def bare(content: str) -> str:
    """Returns a reply without the thoughts of the model and without code fences."""
    return _FENCE.sub("", _THOUGHTS.sub("", content)).strip()


def _of_json(content: str) -> list[str] | None:
    try:
        value, _ = json.JSONDecoder().raw_decode(content)
    except (ValueError, RecursionError):
        return list(_whole_strings(content.partition("[")[2]))
    if isinstance(value, dict):
        lists = [one for one in value.values() if isinstance(one, list)]
        value = value.get(FIELD, lists[0] if lists else [])
    if not isinstance(value, list):
        return []
    return [text for one in value if (text := _text(one)) is not None]


def _whole_strings(text: str) -> Iterator[str]:
    """Yields the complete strings of a list that may be cut off."""
    for match in _STRING.finditer(text):
        if match[2]:
            with contextlib.suppress(ValueError):
                yield json.loads(match[1], strict=False)


def _text(item: Any) -> str | None:
    """Returns the text of an item: itself, or the first text of an object."""
    if isinstance(item, dict):
        item = next((v for v in item.values() if isinstance(v, str)), None)
    return item if isinstance(item, str) else None
