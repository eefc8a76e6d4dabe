"""`jaxaug augment explain`: the tree of one description of a finished run."""

import dataclasses

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, selection
from jaxaug.augment.arguments import Explain
from jaxaug.augment.grammar import engine as grammar
from jaxaug.augment.output import explain as trees
from jaxaug.augment.output import records
from jaxaug.augment.result import Result
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike


def run(arguments: Explain) -> int:
    """Runs the verb; see `jaxaug augment explain --help`."""
    print(explain(arguments.out, arguments.id, arguments.image))
    return 0


def _derivations(result: Result) -> list[str]:
    """Returns the origins of the selected texts; the grammar's are rule by rule."""
    written = {
        one.candidate.text
        for one in result.judged
        if "grammar" in one.candidate.settings
    }
    settings = {j.candidate.text: j.candidate.settings for j in result.judged}
    lines = []
    source, kind = result.description.text, result.description.kind
    for text in dict.fromkeys(result.selected):
        steps = grammar.derivation(source, kind, text) if text in written else ()
        if steps:
            lines.append(f"{text}: from {source!r}")
            lines += [f"  by {name}: {after}" for name, after in steps]
        elif text in settings and text != source:
            lines.append(f"{text}: by {', '.join(settings[text])}")
    return lines


def explain(out: PathLike, key: str, image: PathLike | None = None) -> str:
    """Returns the tree of one description as text; draws it if a file is named.

    Args:
        out: folder of a run.
        key: id of a description, such as `train/3/slot/5`.
        image: `.svg` or `.png` to write.

    Raises:
        UserError: the run or the id does not exist, the run has no trees, or matplotlib
            is missing.
    """
    manifest = records.read_manifest(out)
    config = configs.of(manifest["config"], f"{out}")
    if config.select != "tree":
        raise UserError(
            f"{out}: was made with select={config.select!r} and has no trees. Name the "
            "folder of a run that ranks by a tree."
        )
    description, judged = records.read_candidates(out, key)
    # The selection adds its own reasons again.
    again = selection.REASONS
    own = [
        dataclasses.replace(
            one, dropped=tuple(r for r in one.dropped if not r.startswith(again))
        )
        for one in judged
    ]
    decided = records.decided(manifest).get(key, decisions.NOTHING)
    result = selection.select(config, description, own, decided)
    ranking = result.ranking
    assert ranking is not None
    title = f"{description.id}: {description.text}"
    lines = [trees.as_text(ranking, title)]
    lines += [
        f"dropped ({', '.join(one.dropped)}): {one.candidate.text} "
        f"x{one.candidate.count}"
        for one in result.judged
        if any(not r.startswith(selection.CONSTRAINT) for r in one.dropped)
    ]
    lines += _derivations(result)
    if image:
        trees.draw(image, ranking, title)
        lines.append(f"wrote {image}")
    return "\n".join(lines)
