"""`jaxaug augment review`: a page to decide about the variants of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from jaxaug.augment import config as configs
from jaxaug.augment import decisions
from jaxaug.augment.arguments import Review
from jaxaug.augment.decisions import NOTHING, Decided
from jaxaug.augment.descriptions import Description
from jaxaug.augment.output import records, review_page
from jaxaug.augment.output.review_page import Shown, Variant
from jaxaug.core.digests import digest_of
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, write_text

_MORE = 8  # candidates that are offered when somebody types


def run(arguments: Review) -> int:
    """Runs the verb; see `jaxaug augment review --help`."""
    print(review(arguments.out, arguments.decisions))
    return 0


def review(out: PathLike, taken: PathLike | None = None) -> str:
    """Writes the page of a finished run into its folder.

    Args:
        out: folder of the run.
        taken: a saved `decisions.jsonl`, which is checked and copied into `out`.

    Returns:
        A summary, to be printed.

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
    records.claim(folder, config, [review_page.FILE])
    base = digest_of([manifest["digest"], made.key(), found])
    review_page.write(
        folder / review_page.FILE,
        f"Variants of {config.name}: {', '.join(config.splits)}",
        texts,
        [one.key() for one in (*made.decisions, *made.elsewhere)],
        f"jaxaug review {digest_of([str(folder.expanduser().resolve())])}",
        base,
        f"Copy the saved file into the folder of the run, {folder}, or run `jaxaug "
        f"augment review {folder} --decisions FILE`; the next `jaxaug augment` into "
        "the folder honours it.",
    )
    lines = [
        f"wrote {folder / review_page.FILE}: {len(texts)} texts; open it in a browser"
    ]
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
) -> list[Shown]:
    """Returns the texts of the page; texts that splits share come once."""
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
            Shown(
                tuple(member.id for member in members),
                f"{one.service}: {what} ({one.id})",
                one.text,
                tuple(Variant(text, metrics.get(text, {})) for text in texts),
                tuple(more[:_MORE]),
            )
        )
    return shown
