"""`review.html`: every variant with its original, to accept, reject, or type anew."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxaug.core import page
from jaxaug.core.files import PathLike, write_text

FILE = "review.html"
_PARTS = Path(__file__).parent / "page"
_KEYS = (
    ("j", "k", "next and previous"),
    ("a", "accept"),
    ("r", "reject"),
    ("t", "type another text"),
    ("u", "undo"),
    ("s", "save"),
)


@dataclass(frozen=True)
class Shown:
    """A text of the schema with its variants.

    Attributes:
        ids: ids of the descriptions with this text; one id, or one per split.
        where: readable name of the described element.
        source: the text.
        variants: (text, note) of v1, v2, ...
        more: further candidates, offered when somebody types.
    """

    ids: tuple[str, ...]
    where: str
    source: str
    variants: tuple[tuple[str, str], ...]
    more: tuple[str, ...]


def write(
    path: PathLike,
    title: str,
    texts: Sequence[Shown],
    decisions: Sequence[Mapping[str, Any]],
    key: str,
    base: str,
    after: str,
) -> None:
    """Writes the page: one file that needs no network and no other file.

    Args:
        path: the HTML file.
        title: title of the page.
        texts: texts in the order of the page.
        decisions: the lines of `decisions.jsonl`.
        key: key under which a browser stores unsaved decisions.
        base: digest of the data behind the page.
        after: instructions for the saved file.
    """
    data = {
        "key": key,
        "base": base,
        "decisions": list(decisions),
        "texts": [
            {
                "ids": one.ids,
                "where": one.where,
                "source": one.source,
                "variants": [{"text": t, "note": note} for t, note in one.variants],
                "more": one.more,
            }
            for one in texts
        ],
    }
    # No text may end the script.
    packed = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    parts = [
        page.head(title, (_PARTS / "review.css").read_text(encoding="utf-8")),
        "<header>",
        f"<h1>{html.escape(title)}</h1>",
        '<div class="bar"><label>Show <select id="filter">',
        *(
            f"<option>{name}</option>"
            for name in ("all", "undecided", "accepted", "rejected", "typed")
        ),
        '</select></label><progress id="progress"></progress><span id="count"></span>',
        '<button type="button" id="save">Save decisions.jsonl</button>',
        '<span id="status" role="status"></span></div>',
        f"<p>{_keys()}</p>",
        f"<p>{html.escape(after)}</p>",
        "</header>",
        '<main id="texts"></main>',
        f'<script type="application/json" id="data">{packed}</script>',
        "<script>",
        (_PARTS / "review.js").read_text(encoding="utf-8"),
        "</script>",
        page.END,
    ]
    write_text(path, "\n".join(parts) + "\n")


def _keys() -> str:
    """Returns the keys as HTML."""
    return ", ".join(
        " ".join(f"<kbd>{key}</kbd>" for key in keys) + f" {html.escape(what)}"
        for *keys, what in _KEYS
    )
