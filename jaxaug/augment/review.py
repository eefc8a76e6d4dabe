"""`jaxaug augment review`: a page to accept, reject, or retype the variants."""

import html
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from etils import epath

from jaxaug.augment import config as configs
from jaxaug.augment import decisions
from jaxaug.augment.arguments import Review
from jaxaug.augment.decisions import NOTHING, Decided
from jaxaug.augment.descriptions import Description
from jaxaug.augment.output import records
from jaxaug.core import page
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, write_text

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


# Metrics in words, for people who decide about texts.
_MEASURES = {
    "similarity": "likeness of meaning to a small model (MiniLM): 1 is equal; texts "
    "below 0.6 often say something else",
    "entailment": "probability that the variant follows from the original, from 0 to 1",
    "mutual_implication": "probability that original and variant follow from each "
    "other, from 0 to 1",
    "bleurt": "how well the variant conveys the original, by a model trained on "
    "judgments of people: usually 0 to 1",
    "faithful": "probability that the variant is correct and keeps the meaning",
    "string_similarity": "letters that stay in their places: 1 is equal, 0 is all new",
    "jaccard": "words that only one of the two texts has: 0 is the same words, 1 is no "
    "common word",
    "length": "words of the variant per word of the original: 1 is as long",
    "bleu": "share of the variant's phrases that occur in the original, 0 to 1",
    "self_bleu": "share of phrases that occur in other variants of the text, 0 to 1",
}
# The metrics that say most about meaning, the best first. A low value is a risk.
_FAITHFUL = (
    "faithful",
    "mutual_implication",
    "entailment",
    "similarity",
    "bleurt",
    "string_similarity",
)


def _page(
    title: str, after: str, data: Mapping[str, Any], measured: Collection[str]
) -> str:
    """Returns the page, which needs no network and no other file.

    Args:
        title: title of the page.
        after: instructions for the saved file.
        data: input of `review.js`.
        measured: names of the metrics of the variants.
    """
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
        "</select></label>",
        *_order(measured),
        '<progress id="progress"></progress><span id="count"></span>',
        '<button type="button" id="all">Accept all shown</button>',
        '<button type="button" id="save">Save decisions.jsonl</button>',
        '<span id="status" role="status"></span></div>',
        f"<p>{_keys()}</p>",
        f"<p>{html.escape(after)}</p>",
        *_legend(measured),
        "</header>",
        '<main id="texts"></main>',
        f'<script type="application/json" id="data">{packed}</script>',
        "<script>",
        (_PARTS / "review.js").read_text(encoding="utf-8"),
        "</script>",
        page.END,
    ]
    return "\n".join(parts) + "\n"


def _order(measured: Collection[str]) -> list[str]:
    """Returns the choice of an order, if a metric says which variants are risky."""
    by = next((name for name in _FAITHFUL if name in measured), None)
    if by is None:
        return []
    return [
        '<label>Sort <select id="order"><option value="">as in the schema</option>',
        f'<option value="risk">by risk: lowest {by} first</option></select></label>',
    ]


def _legend(measured: Collection[str]) -> list[str]:
    """Returns the metrics of the page in words."""
    if not measured:
        return []
    lines = (f"{name}: {_MEASURES.get(name, 'of the config')}" for name in measured)
    return page.details("What the numbers mean", page.items(lines))


def _keys() -> str:
    """Returns the keys as HTML."""
    return ", ".join(
        " ".join(f"<kbd>{key}</kbd>" for key in keys) + f" {html.escape(what)}"
        for *keys, what in _KEYS
    )


_MORE = 8  # candidates that are offered when somebody types


def run(arguments: Review) -> int:
    """Runs the verb; see `jaxaug augment review --help`."""
    print(review(arguments.out, arguments.decisions))
    return 0


def review(out: PathLike, taken: PathLike | None = None) -> str:
    """Writes the page of a finished run into its folder; returns a summary.

    Args:
        taken: a saved `decisions.jsonl`, which is checked and copied into `out`.

    Raises:
        UserError: `out` is not a finished run, or is a run of given variants; the
            decisions do not fit; or `out` holds a page that is not ours.
    """
    folder = epath.Path(out)
    manifest = records.read_manifest(folder)
    config = configs.of(manifest["config"], f"{out}")
    if not manifest["digest"]:
        raise UserError(f"{out}: the run has not finished. Run its command again.")
    if config.is_given:
        raise UserError(
            f"{out}: is a run of given variants, with nothing to decide. Name the "
            "folder of a run that makes its variants."
        )
    records.check_target(folder)
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records.read_records(folder):
        found.setdefault(record["id"], []).append(record)
    known = [records.description_of(of_one[0]) for of_one in found.values()]
    path = folder / decisions.FILE
    if taken is not None:
        given = decisions.parse(taken, known, config.variants)
        if not (given.decisions or given.elsewhere) and path.exists():
            raise UserError(
                f"{taken}: holds no decision, and would replace those in {path}. Name "
                f"a file that the page saved, or remove {path} to withdraw all "
                "decisions."
            )
        write_text(path, read_text(taken, "Name a file that the page saved."))
    made = decisions.read(folder, known, config.variants)
    texts = _shown(found, known, records.decided(manifest), config.variants)
    measured = dict.fromkeys(
        name for one in texts for _, values in one["variants"] for name in values
    )
    data = {
        # A browser stores unsaved decisions under the key.
        "key": f"jaxaug review {digest_of([str(folder.expanduser().resolve())])}",
        "base": digest_of([manifest["digest"], made.key(), found]),
        "decisions": [one.key() for one in (*made.decisions, *made.elsewhere)],
        "texts": [
            one | {"variants": [_variant(*pair) for pair in one["variants"]]}
            for one in texts
        ],
    }
    records.claim(folder, config, [FILE])
    title = f"Variants of {config.name}: {', '.join(config.splits)}"
    after = (
        f"Copy the saved file into the folder of the run, {folder}, or run `jaxaug "
        f"augment review {folder} --decisions FILE`; the next `jaxaug augment` into "
        "the folder honours it."
    )
    write_text(folder / FILE, _page(title, after, data, measured))
    lines = [f"wrote {folder / FILE}: {len(texts)} texts; open it in a browser"]
    if made.decisions:
        done = made.of(known) == records.decided(manifest)
        what = "applied" if done else "run `jaxaug augment` again to apply them"
        lines.append(f"{made}; {what}")
    return "\n".join(lines)


def _shown(
    found: Mapping[str, Sequence[Mapping[str, Any]]],
    known: Sequence[Description],
    decided: Mapping[str, Decided],
    variants: int,
) -> list[dict[str, Any]]:
    """Returns the texts of the page, with (text, metrics) pairs as variants.

    Texts that splits share come once.
    """
    groups: dict[tuple[str, ...], list[Description]] = {}
    for one in known:
        groups.setdefault(decisions.same(one), []).append(one)
    shown = []
    for members in groups.values():
        one = members[0]
        own = [record for record in found[one.id] if record["candidate"] is not None]
        chosen = {record["variant"]: record["candidate"] for record in own}
        chosen |= decided.get(one.id, NOTHING).pinned
        texts = [chosen.get(number, one.text) for number in range(1, variants + 1)]
        metrics = {record["candidate"]: record["metrics"] for record in own}
        more = [r["candidate"] for r in own if not r["dropped"] and not r["variant"]]
        what = one.kind.replace("_", " ")
        what += "" if one.kind.startswith("service") else f" {one.name}"
        shown.append(
            {
                "ids": [member.id for member in members],
                "where": f"{one.service}: {what} ({one.id})",
                "source": one.text,
                "variants": [(text, metrics.get(text, {})) for text in texts],
                "more": more[:_MORE],
            }
        )
    return shown


def _variant(text: str, metrics: Mapping[str, float]) -> dict[str, Any]:
    """Returns a text, a note, and the value to sort by (None without one)."""
    note = ", ".join(f"{name} {value:.2f}" for name, value in metrics.items())
    faith = next((metrics[name] for name in _FAITHFUL if name in metrics), None)
    return {"text": text, "note": note, "faith": faith}
