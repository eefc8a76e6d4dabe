"""Names and contents of the training and evaluation sets.

The tasks (`tasks/dialogues.py`) and `jaxaug tasks` share this table:

- `d3st_sgd`: the original schemas; `d3st_<folder>_vN`: variant N of a variants folder
  (`sgdx` is SGD-X, `aug` is MiniSGD's folder).
- `..._short2`, `..._short5`: the train split with only 1 to 2, or 1 to 5, randomly
  chosen slots in prompt and answer.
- mixtures `d3st_<folder>_{2,4,6}x`: the originals and 1, 3, or 5 variants at equal
  rates; a folder with K > 5 variants has a mixture of all, `d3st_<folder>_{K+1}x`.
- `d3st_eval`: the originals and all variants with a dev or test split. The variants are
  from SGD-X if present, otherwise from the first other folder that has such variants.
- `d3st_without_hotel`, `d3st_without_hotel_strict`, and `d3st_only_hotel` for each
  domain or service in `$JAXAUG_LEAVE_OUT` (`hotel,taxi`). A zero-shot tracker trains on
  the first two and is tested on the last (`jaxaug.data.leave_out`).
- the same, without short prompts, for other formats: `d3st2a` (options as in figure 2a
  of Coca et al., 2023), `json` (function calls), `sdt`, `sdtids` (slots as numbers),
  `sdtind` (one slot at a time), and `t5dst`.
"""

import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import cast

from absl import logging
from etils import epath

from jaxaug.core import extensions
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders, leave_out, sgd
from jaxaug.feed.cache import Recipe
from jaxaug.feed.parallel import Corpus, Options
from jaxaug.formats.d3st import D3STOptions
from jaxaug.formats.json_tools import JSONOptions
from jaxaug.formats.sdt import SDTIndOptions, SDTOptions
from jaxaug.formats.t5dst import T5DSTOptions
from jaxaug.metrics.sensitivity import ORIGINAL, VARIANTS

# Names of the splits in SeqIO and in the data folder.
SPLITS = {"train": "train", "validation": "dev", "test": "test"}
RENDERINGS_VARIABLE = "JAXAUG_RENDERINGS"
LEAVE_OUT_VARIABLE = "JAXAUG_LEAVE_OUT"


def _registered(name: str, found: object) -> Options:
    """Checks and returns the format of another package."""
    lacking = [n for n in _OF_OPTIONS if not hasattr(found, n)]
    if lacking or not is_dataclass(found) or isinstance(found, type):
        what = f"lacks {', '.join(lacking)}" if lacking else "is no dataclass"
        raise TypeError(f"{what}: expected a FormatOptions of jaxaug.formats.records")
    if not name.isalnum():
        raise TypeError(
            f"is called {name!r}: names of formats have letters and digits only, as "
            f"the names of sets begin with them"
        )
    return cast(Options, found)


_OF_OPTIONS = (
    *("family", "version", "per_slot", "order", "seed", "answers_intents"),
    *("formatter", "parse"),
)
FORMATS = extensions.Table[Options](
    {
        "d3st": D3STOptions(),
        # Options as in figure 2a of Coca et al. (2023).
        "d3st2a": D3STOptions(categorical="a", digit_options=True),
        "json": JSONOptions(),
        "sdt": SDTOptions(),
        "sdtids": SDTOptions(names="ids"),
        "sdtind": SDTIndOptions(),
        "t5dst": T5DSTOptions(),
    },
    "formats",
    made=_registered,
)
"""Maps the first word of a set's name to the format of its examples."""

_SHORT = {"short2": (1, 2), "short5": (1, 5)}
_COPIES = (2, 4, 6)


@dataclass(frozen=True, slots=True)
class Table:
    """All sets of a data folder.

    Attributes:
        recipes: task -> SeqIO split -> recipe.
        mixtures: mixture -> its tasks, drawn at equal rates.
        evaluation: a sentence on what the mixtures `*_eval` contain and lack.
        is_sgdx: whether the variants are v1..v5 of SGD-X, as in the benchmark.
    """

    recipes: Mapping[str, Mapping[str, Recipe]]
    mixtures: Mapping[str, tuple[str, ...]]
    evaluation: str = ""
    is_sgdx: bool = True

    def tasks_of(self, name: str) -> tuple[str, ...]:
        """Returns the tasks of a mixture, or the task itself.

        Raises:
            UserError: there is neither a task nor a mixture with that name.
        """
        if name in self.recipes:
            return (name,)
        if name in self.mixtures:
            return self.mixtures[name]
        if (word := name.partition("_")[0]) in FORMATS:
            FORMATS[word]  # Raises the error of a format that could not be loaded.
        known = [*self.mixtures, *self.recipes]
        raise UserError(
            f"{name!r} is no task and no mixture; {suggestion(name, known)} Names of "
            "your own variants need their data folder ($JAXAUG_DATA_DIR) or their "
            "folder ($JAXAUG_VARIANTS_DIR)."
        )

    def wordings(self, family: str, split: str) -> dict[str, str]:
        """Returns task -> wording (`original`, `v1`, ...) for evaluation of a family.

        Args:
            family: first word of the tasks' names, such as "d3st".
            split: split of the data folder, such as "dev".
        """
        found = {}
        for task in self.mixtures.get(f"{family}_eval", ()):
            for recipe in self.recipes[task].values():
                if recipe.corpus.split == split:
                    found[task] = recipe.corpus.variant or ORIGINAL
        return found


def table(data_dir: PathLike | None = None) -> Table:
    """Returns the sets of a data folder; reads only folder names, no data.

    Training splits shuffle slots, intents, and options differently for each task; other
    splits keep the order of the schema. The training split of the original schema comes
    in several shuffled renderings if the data is small. Their number is
    `$JAXAUG_RENDERINGS`, else 4 for MiniSGD and 1 for other data. Variants come in one
    rendering, because each adds a copy of the data.

    Args:
        data_dir: as for `folders.resolve_data_dir`.

    Raises:
        UserError: the data folder or a variants folder is wrong.
    """
    folder = folders.resolve_data_dir(data_dir)
    renderings = _renderings(folder)
    corpora = _corpora(folder)
    recipes: dict[str, dict[str, Recipe]] = {}
    formats = _formats()
    for name, options in formats.items():
        for suffix, splits in corpora.items():
            count = 1 if next(iter(splits.values())).variant else renderings
            task = f"{name}_{suffix}"
            recipes[task] = _recipes(task, splits, options, count)
            selected = any(corpus.selection for corpus in splits.values())
            if isinstance(options, D3STOptions) and "train" in splits and not selected:
                train = {"train": splits["train"]}
                for word, limits in _SHORT.items():
                    short = replace(options, max_items=limits)
                    shorter = f"{task}_{word}"
                    recipes[shorter] = _recipes(shorter, train, short, count)
    word, scored = _scored(folder, corpora)
    return Table(
        recipes,
        _mixtures(folder, formats, recipes, word, scored),
        _evaluation(folder, formats, word, scored),
        word == "sgdx" and {*scored} >= {*VARIANTS},
    )


def _scored(
    folder: epath.Path, corpora: Mapping[str, Mapping[str, Corpus]]
) -> tuple[str, list[str]]:
    """Returns the variants folder used in evaluation, and its evaluated variants."""
    for word, variants in folders.variant_folders(folder).items():
        found = [
            variant
            for variant in folders.variant_names(variants)
            if set(corpora.get(f"{word}_{variant}", ())) - {"train"}
        ]
        if found:
            return word, found
    return "", []


def _formats() -> dict[str, Options]:
    """Returns all formats, without broken formats of other packages."""
    found = {}
    for name in FORMATS:
        try:
            found[name] = FORMATS[name]
        except UserError as error:
            if name in FORMATS.data:
                raise
            logging.warning("%s Its sets are left out.", error)
    return found


def _evaluation(
    folder: epath.Path, formats: Iterable[str], word: str, scored: Sequence[str]
) -> str:
    names = ", ".join(f"{name}_eval" for name in formats)
    fix = (
        "`jaxaug data fetch sgd` gets SGD and the variants of SGD-X, `jaxaug augment "
        "--splits train,test` makes some for any data"
    )
    if not scored:
        return (
            f"{names}: the original schemas only, as {folder} has no variants of dev "
            f"or test: there will be no schema sensitivity. {fix}."
        )
    found = f"{names}: the original schemas and {word} {', '.join(scored)}"
    missing = [variant for variant in VARIANTS if variant not in scored]
    if not missing:
        return f"{found}."
    return (
        f"{found}. {folders.variant_folders(folder)[word]} has no {', '.join(missing)} "
        f"of dev or test. {fix}."
    )


def _renderings(folder: epath.Path) -> int:
    value = os.environ.get(RENDERINGS_VARIABLE)
    if not value:
        from jaxaug.data import minisgd

        return 4 if (folder / minisgd.COMPLETE).exists() else 1
    if not re.fullmatch("[1-9][0-9]{0,3}", value):
        raise UserError(
            f"${RENDERINGS_VARIABLE}={value}: set it to the number of shuffled "
            "renderings of each training example, 1 to 9999, or unset it."
        )
    return int(value)


def _corpora(folder: epath.Path) -> dict[str, dict[str, Corpus]]:
    """Returns end of the task's name -> SeqIO split -> corpus."""
    base = str(folder)
    present = {
        name: split
        for name, split in SPLITS.items()
        if (folder / split / "schema.json").exists()
    }
    corpora = {"sgd": {name: Corpus(base, s) for name, s in present.items()}}
    for word, variants in folders.variant_folders(folder).items():
        for variant in folders.variant_names(variants):
            found = folders.variant_splits(variants, variant)
            splits = {
                name: Corpus(base, split, variant, str(variants))
                for name, split in present.items()
                if split in found
            }
            if splits:
                corpora[f"{word}_{variant}"] = splits
    for domain in _domains(folder, present.values()):
        for suffix, kept, names in (
            (f"without_{domain}", "others", ("train", "validation")),
            (f"without_{domain}_strict", "strict", ("train", "validation")),
            (f"only_{domain}", "alone", tuple(SPLITS)),
        ):
            selection = leave_out.Selection(domain, kept)
            splits = {
                name: replace(corpora["sgd"][name], selection=selection)
                for name in names
                if name in present
            }
            if splits:
                corpora[suffix] = splits
    return corpora


def _domains(folder: epath.Path, splits: Iterable[str]) -> list[str]:
    """Returns the domains of `$JAXAUG_LEAVE_OUT`; reads schemas only if needed."""
    given = os.environ.get(LEAVE_OUT_VARIABLE, "").split(",")
    domains = list(dict.fromkeys(filter(None, map(str.strip, given))))
    schemas = [sgd.read_schema_of(folder, split) for split in splits] if domains else []
    for domain in domains:
        leave_out.check(domain, schemas, f"${LEAVE_OUT_VARIABLE}")
        if not re.fullmatch(r"\w+", domain, re.ASCII):
            raise UserError(
                f"${LEAVE_OUT_VARIABLE}: {domain!r} becomes part of names of tasks, "
                f"which have letters, digits and underscores only. Rename the service."
            )
    return domains


def aligned(found: Sequence[Recipe]) -> list[Recipe]:
    """Returns recipes whose examples correspond: same frame, same order of slots.

    All have the seed and the number of renderings that the others have, so example i of
    each differs in the wording of the schema only.
    """
    most = max(recipe.renderings for recipe in found)
    return [
        replace(recipe, options=replace(recipe.options, seed=0), renderings=most)
        for recipe in found
    ]


def with_variant(
    recipe: Recipe, task: str, variant: str, variants_dir: PathLike
) -> Recipe:
    """Returns the training recipe of a task with the wording of another variant.

    `recipe` has the original schema. The name `task` determines the order of the slots.
    """
    corpus = replace(recipe.corpus, variant=variant, variants_dir=str(variants_dir))
    return _recipes(task, {"train": corpus}, recipe.options, 1)["train"]


def _recipes(
    task: str, splits: Mapping[str, Corpus], options: Options, renderings: int
) -> dict[str, Recipe]:
    # Each task has its own seed. Otherwise a mixture would show all wordings of a frame
    # at the same time with the same slot order, and the model would memorize frames.
    seed = zlib.crc32(task.encode())
    shuffled = replace(options, order="shuffled", seed=seed)
    return {
        name: Recipe(corpus, shuffled, renderings)
        if name == "train"
        else Recipe(corpus, options)
        for name, corpus in splits.items()
    }


def _mixtures(
    folder: epath.Path,
    formats: Iterable[str],
    recipes: Mapping[str, Mapping[str, Recipe]],
    scored_word: str,
    scored: Sequence[str],
) -> dict[str, tuple[str, ...]]:
    mixtures: dict[str, tuple[str, ...]] = {}
    for name in formats:
        for word, variants in folders.variant_folders(folder).items():
            tasks = [
                f"{name}_{word}_{variant}"
                for variant in folders.variant_names(variants)
            ]
            trainable = [task for task in tasks if "train" in recipes.get(task, ())]
            for copies in sorted({*_COPIES, max(len(trainable) + 1, *_COPIES)}):
                if len(trainable) >= copies - 1:
                    mixtures[f"{name}_{word}_{copies}x"] = (
                        f"{name}_sgd",
                        *trainable[: copies - 1],
                    )
        mixtures[f"{name}_eval"] = (
            f"{name}_sgd",
            *(f"{name}_{scored_word}_{variant}" for variant in scored),
        )
    return mixtures
