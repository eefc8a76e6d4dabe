"""`jaxaug tasks`: names of the tasks and mixtures, for gin files.

D3ST, SDT, and T5DST are listed from `jaxaug.feed.recipes`. Other tasks exist only after
their registration (`--all`).
"""

import fnmatch
import importlib
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from etils import epath

from jaxaug.core import bundled, columns, libraries
from jaxaug.core.errors import UserError
from jaxaug.core.progress import progress
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders, sgd
from jaxaug.feed import parallel, recipes
from jaxaug.feed.cache import Recipe
from jaxaug.feed.parallel import Corpus
from jaxaug.formats.d3st import D3STOptions
from jaxaug.formats.records import FromData, user_frames
from jaxaug.look.arguments import Tasks

_CHEAP = 32 * 2**20  # bytes of dialogues that are read in well under a second
_OTHERS = "general_paraphraser, paraphrase_*, personachat_*, rewording_paraphraser"

Rates = Mapping[str, float]


def run(arguments: Tasks) -> int:
    """Runs the verb; see `jaxaug tasks --help`.

    Raises:
        UserError: the data folder is wrong, or no task or mixture matches the name.
    """
    folder = folders.resolve_data_dir(arguments.data_dir)
    table = recipes.table(folder)
    mixtures: dict[str, Rates] = {
        name: dict.fromkeys(tasks, 1.0) for name, tasks in table.mixtures.items()
    }
    others: dict[str, Sequence[str]] = {}
    if arguments.all:
        os.environ[folders.DATA_DIR_VARIABLE] = str(folder)
        with libraries.noted():
            importlib.import_module(bundled.tasks_module())
            others, further = _others(table)
        mixtures |= further
    known = [*table.recipes, *others, *mixtures]
    names = {name for name in known if fnmatch.fnmatchcase(name, arguments.name)}
    if not names:
        raise UserError(
            f"{arguments.name!r} fits no task and no mixture of {folder}; "
            f"{suggestion(arguments.name, known)}"
            + ("" if arguments.all else f" --all knows {_OTHERS} too.")
        )
    sizes = _Sizes(arguments.count)
    rows = [
        _task_row(name, splits, sizes)
        for name, splits in table.recipes.items()
        if name in names
    ]
    rows += [
        [name, *("?" if split in splits else "-" for split in recipes.SPLITS), "other"]
        for name, splits in others.items()
        if name in names
    ]
    parts = [f"data folder {folder}"]
    if rows:
        heading = ["task", *recipes.SPLITS, "of"]
        right = [False, *(True for _ in recipes.SPLITS), False]
        parts.append(columns.aligned([heading, *rows], right))
    chosen = [(name, rates) for name, rates in mixtures.items() if name in names]
    if chosen:
        lines = [["mixture", "share of each task"], *map(_mixture_row, chosen)]
        parts.append(columns.aligned(lines, [False, False]))
    parts += sizes.notes()
    if names & others.keys():
        parts.append("other tasks are not counted: a split is made when it is read")
    if not arguments.all:
        parts.append(f"--all lists {_OTHERS} too")
    print("\n\n".join(parts))
    return 0


def _others(table: recipes.Table) -> tuple[dict[str, Sequence[str]], dict[str, Rates]]:
    """Returns tasks with splits, and mixtures with rates, that a table lacks."""
    # Imported here, because the base installation has no SentencePiece.
    from jaxaug.feed import sets

    found: dict[str, Sequence[str]] = {}
    mixtures: dict[str, Rates] = {}
    for name, one in sorted(sets.known().items()):
        if isinstance(one, sets.Mixture) and name not in table.mixtures:
            mixtures[name] = dict(sorted(one.rates.items()))
        elif isinstance(one, sets.Task) and name not in table.recipes:
            found[name] = one.splits
    if seqio := sys.modules.get("seqio"):  # A package has registered tasks with SeqIO.
        for name in sorted({*seqio.TaskRegistry.names()} - {*sets.known()}):
            found[name] = tuple(seqio.TaskRegistry.get(name).source.splits or ())
    return found, mixtures


def _task_row(name: str, splits: Mapping[str, Recipe], sizes: "_Sizes") -> list[str]:
    cells = [sizes.of(splits[s]) if s in splits else "-" for s in recipes.SPLITS]
    return [name, *cells, _content(name, splits)]


def _content(name: str, splits: Mapping[str, Recipe]) -> str:
    """Returns the content of a task in a few words."""
    recipe = next(iter(splits.values()))
    corpus, options = recipe.corpus, recipe.options
    words = options.family.upper()
    if isinstance(options, D3STOptions):
        words += f", options as {options.categorical})"
        if options.max_items:
            words += f", {options.max_items[0]} to {options.max_items[1]} slots"
    place = "original schemas"
    if corpus.variant:
        folder = str(corpus.variants_dir).removeprefix(f"{corpus.data_dir}/")
        place = f"{folder}/{corpus.variant}"
    if corpus.selection:
        words_of = {"others": "without", "strict": "strictly without", "alone": "only"}
        place += f", {words_of[corpus.selection.kept]} {corpus.selection.domain}"
    words += f": {place}"
    renderings = splits["train"].renderings if "train" in splits else 1
    if renderings > 1:
        words += f", train in {renderings} orders"
    return words


def _mixture_row(mixture: tuple[str, Rates]) -> list[str]:
    """Returns the row of a mixture; tasks of equal rates are listed together."""
    name, rates = mixture
    groups: dict[float, list[str]] = {}
    for task, rate in rates.items():
        groups.setdefault(rate, []).append(task)
    total = sum(rates.values())
    shares = [f"{rate / total:.1%} {', '.join(g)}" for rate, g in groups.items()]
    return [name, "; ".join(shares)]


class _Sizes:
    """Counts the examples of tasks; reads each split once."""

    def __init__(self, read_all: bool):
        self._read_all = read_all
        self._frames: dict[Corpus, dict[str, Counter[str]]] = {}
        self._unread: dict[Corpus, int] = {}

    def of(self, recipe: Recipe) -> str:
        """Returns the number of examples, or "?" if the data are too large to read."""
        dialogues = self._count(recipe.corpus)
        if dialogues is None:
            return "?"
        bound = parallel.bound(recipe.options, recipe.corpus)
        left_out = bound.left_out if isinstance(bound, FromData) else ()
        frames: Counter[str] = Counter()
        for name, found in dialogues.items():
            if name not in left_out:
                frames.update(found)
        count = frames.total()
        if recipe.options.per_slot:
            schema = sgd.read_schema_of(recipe.corpus.data_dir, recipe.corpus.split)
            count = sum(len(schema.service(s).slots) * n for s, n in frames.items())
        return f"{count * recipe.renderings:,}"

    def _count(self, corpus: Corpus) -> dict[str, Counter[str]] | None:
        """Returns dialogue id -> service -> number of frames; None for unread data."""
        key = replace(corpus, variant=None, variants_dir=None)
        if key in self._unread:
            return None
        if key not in self._frames:
            files = key.files()
            size = sum(epath.Path(file).stat().length for file in files)
            if size > _CHEAP and not self._read_all:
                self._unread[key] = size
                return None
            read = parallel.reader(key)
            self._frames[key] = {
                dialogue.dialogue_id: Counter(
                    frame.service for *_, frame in user_frames(dialogue, False)
                )
                for file in progress(
                    files, desc=corpus.split, unit="files", leave=False
                )
                for dialogue in read(file)
            }
        return self._frames[key]

    def notes(self) -> list[str]:
        """Returns a note on uncounted splits and the option that counts them."""
        if not self._unread:
            return []
        sizes = {corpus.split: size for corpus, size in self._unread.items()}
        splits = ", ".join(
            f"{split} ({size / 2**20:.0f} MiB)" for split, size in sizes.items()
        )
        return [
            f"?: not counted, as the dialogues are not read; --count reads {splits}"
        ]
