"""`jaxaug augment explain`: the tree of one description, as text and as a drawing."""

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import Any

from etils import epath

from jaxaug.augment import config as configs
from jaxaug.augment import decisions, selection
from jaxaug.augment.arguments import Explain
from jaxaug.augment.grammar import engine as grammar
from jaxaug.augment.output import records
from jaxaug.augment.selection import Item, Node, Ranking, Result
from jaxaug.core.errors import UserError
from jaxaug.core.figures import new_figure, write_figure
from jaxaug.core.files import PathLike

_SUFFIXES = (".png", ".svg")
_INCHES_PER_LEAF = 0.32
_WRAP = 60


def as_text(ranking: Ranking, title: str, max_leaves: int | None = None) -> str:
    """Returns the tree with one line for each node and candidate.

    Selected candidates are marked `[1]`, `[2]`, ... in the order of selection. `x3` is
    the count of a candidate among the outputs. Dropped candidates come last, with the
    constraints that they break.

    Args:
        title: first line: the id and the text of the description.
        max_leaves: maximum leaves; the leaves with a selected candidate are always
            shown, and the omitted leaves are counted. None shows all.
    """
    marks = _marks(ranking)
    shown, hidden = _shown(ranking, max_leaves)
    counts = (
        f"{_size(ranking.tree)} candidates meet the constraints, "
        f"{len(ranking.selected)} selected, {len(ranking.dropped)} dropped"
    )
    lines = [title, counts]

    def add(node: Node, depth: int) -> None:
        if not any(id(leaf) in shown for leaf in node.leaves()):
            return
        if node.metric is not None:
            lines.append(f"{'  ' * depth}{_label(node)}")
        for child in node.children:
            add(child, depth + 1)
        for item in node.items:
            lines.append(f"{'  ' * (depth + 1)}{_candidate(item, marks)}")

    add(ranking.tree, -1)
    if hidden:
        lines.append(f"... and {hidden} leaves more, without a selected candidate")
    for item, constraints in ranking.dropped:
        lines.append(f"dropped ({', '.join(constraints)}): {_candidate(item, marks)}")
    return "\n".join(lines)


def draw(path: PathLike, ranking: Ranking, title: str, max_leaves: int = 40) -> None:
    """Draws the tree from left to right; selected candidates are bold.

    Args:
        path: ends in `.png` or `.svg`.

    Raises:
        UserError: the path has another ending, or matplotlib is not installed.
    """
    suffix = epath.Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise UserError(f"cannot draw {path}: name a file that ends in .png or .svg.")
    write_figure(path, _figure(ranking, title, max_leaves))


def _figure(ranking: Ranking, title: str, max_leaves: int) -> Any:
    marks = _marks(ranking)
    shown, hidden = _shown(ranking, max_leaves)
    leaves = (leaf for leaf in ranking.tree.leaves() if id(leaf) in shown)
    rows = max(1, sum(len(_rows(leaf, marks)) for leaf in leaves))
    depth = _depth(ranking.tree)
    height = 1.0 + _INCHES_PER_LEAF * rows
    figure = new_figure("the tree", 6.5 + 1.2 * depth, height)
    axes = figure.subplots()
    axes.set_axis_off()
    more = f", {hidden} leaves not shown" if hidden else ""
    axes.set_title(
        f"{textwrap.shorten(title, 110)}\n{_size(ranking.tree)} candidates, "
        f"{len(ranking.selected)} selected, {len(ranking.dropped)} dropped{more}",
        fontsize=9,
        loc="left",
    )
    next_row = 0

    def place(node: Node, level: int) -> float | None:
        """Draws a node and its children; returns its height, or None if hidden."""
        nonlocal next_row
        if not node.children:
            if id(node) not in shown:
                return None
            texts = _rows(node, marks)
            y = next_row + (len(texts) - 1) / 2
            for text, chosen in texts:
                weight = "bold" if chosen else "normal"
                axes.text(
                    level + 0.6, next_row, text, va="center", fontsize=8, weight=weight
                )
                next_row += 1
        else:
            heights = [place(child, level + 1) for child in node.children]
            known = [value for value in heights if value is not None]
            if not known:
                return None
            y = sum(known) / len(known)
            for value in known:
                axes.plot([level, level + 1], [y, value], color="0.7", lw=0.8, zorder=1)
        label = "root" if node.metric is None else _label(node)
        box = {"boxstyle": "round,pad=0.2", "fc": "white", "ec": "0.5", "lw": 0.6}
        axes.text(
            level, y, label, ha="center", va="center", fontsize=7, bbox=box, zorder=2
        )
        return y

    place(ranking.tree, 0)
    axes.set_xlim(-0.5, depth + 5)
    axes.set_ylim(rows - 0.5, -0.5)
    return figure


def _rows(leaf: Node, marks: Mapping[str, int]) -> list[tuple[str, bool]]:
    """Returns the lines of a leaf: most common and selected candidates, and a count."""
    written = [
        item for i, item in enumerate(leaf.items) if i == 0 or item.text in marks
    ]
    rows = [
        (
            textwrap.shorten(_candidate(item, marks), _WRAP + 10),
            item.text in marks,
        )
        for item in written
    ]
    left = len(leaf.items) - len(written)
    return [*rows, (f"and {left} more", False)] if left else rows


def _shown(ranking: Ranking, most: int | None) -> tuple[frozenset[int], int]:
    """Returns identities of the leaves to show, and the number of hidden leaves.

    Leaves with a selected candidate come first, then the others by their outputs.
    """
    marks = _marks(ranking)
    leaves = [leaf for leaf in ranking.tree.leaves() if leaf.items]

    def rank(leaf: Node) -> tuple[bool, int]:
        chosen = any(item.text in marks for item in leaf.items)
        return not chosen, -sum(item.count for item in leaf.items)

    ordered = sorted(leaves, key=rank)
    if most is not None:
        ordered = ordered[: max(most, sum(not rank(leaf)[0] for leaf in leaves))]
    return frozenset(map(id, ordered)), len(leaves) - len(ordered)


def _marks(ranking: Ranking) -> dict[str, int]:
    return {item.text: place for place, item in enumerate(ranking.selected, 1)}


def _size(node: Node) -> int:
    return sum(len(leaf.items) for leaf in node.leaves())


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node.children)) if node.children else 0


def _label(node: Node) -> str:
    return f"{node.metric} {node.value:g}"


def _candidate(item: Item, marks: Mapping[str, int]) -> str:
    mark = f"[{marks[item.text]}] " if item.text in marks else ""
    return f"{mark}{item.text} x{item.count}"


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
    lines = [as_text(ranking, title)]
    lines += [
        f"dropped ({', '.join(one.dropped)}): {one.candidate.text} "
        f"x{one.candidate.count}"
        for one in result.judged
        if any(not r.startswith(selection.CONSTRAINT) for r in one.dropped)
    ]
    lines += _derivations(result)
    if image:
        draw(image, ranking, title)
        lines.append(f"wrote {image}")
    return "\n".join(lines)
