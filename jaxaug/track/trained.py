"""Reads the settings of a tracker from the configuration of its training run."""

import functools
from collections.abc import Mapping
from typing import Any

from etils import epath
from jaxaug_base.files import absolute

from jaxaug.augment import descriptions, rewording
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike
from jaxaug.data import sgd
from jaxaug.data.schema import Schema
from jaxaug.feed import parallel, recipes
from jaxaug.models.text import run_config

_CONFIG = "config.gin"
_TRAINED = "MIXTURE_OR_TASK_NAME"
_SETS = ("EVAL_MIXTURE", _TRAINED)
_FIX = (
    "Name the folder of a training run of a tracker, such as that of configs/d3st.gin."
)


def of_run(run: PathLike) -> tuple[epath.Path, str, Mapping[str, int]]:
    """Returns the folder, the format, and the lengths (in tokens) of a run.

    Args:
        run: folder of the run, or one of its checkpoints.

    Raises:
        UserError: there is no such run, or it trained no tracker.
    """
    folder = absolute(run)
    root = folder if (folder / _CONFIG).exists() else folder.parent
    if not (root / _CONFIG).exists():
        raise UserError(f"{folder / _CONFIG}: no such file. {_FIX}")
    return folder, _family(root), _of_config(root, "TASK_FEATURE_LENGTHS")


@functools.lru_cache(8)
def frequent_words(run: str, data_dir: str | None) -> frozenset[str]:
    """Returns the words that occur at least twice in the training schemas of a run.

    Args:
        run: folder of the run, or one of its checkpoints.
        data_dir: data folder of the training; None takes `folders.resolve_data_dir`.

    Raises:
        UserError: the data folder lacks a data set of the run.
    """
    folder = absolute(run)
    root = folder if (folder / _CONFIG).exists() else folder.parent
    table = recipes.table(data_dir)
    schemas = {
        recipe.corpus
        for name in _trained_sets(root)
        for task in table.tasks_of(name)
        for split, recipe in table.recipes[task].items()
        if split == "train"
    }
    texts = [
        one.text
        for corpus in sorted(schemas, key=str)
        for one in descriptions.descriptions(_schema(corpus), corpus.split)
    ]
    return rewording.frequent_words(texts)


def _trained_sets(root: epath.Path) -> list[str]:
    """Returns the tasks or mixtures of a run; a curriculum names them by level."""
    levels = run_config.bound(root / _CONFIG, "level_mixture", "levels")
    if levels is None:
        return [str(_of_config(root, _TRAINED))]
    return [
        name
        for level in levels
        for name in ([level] if isinstance(level, str) else level)
    ]


def _schema(corpus: parallel.Corpus) -> Schema:
    place = corpus.data_dir, corpus.split, corpus.variant, corpus.variants_dir
    return sgd.read_schema_of(*place)


def _family(root: epath.Path) -> str:
    for name in _SETS:
        try:
            found = _of_config(root, name)
        except UserError:
            continue
        if isinstance(found, str) and found.partition("_")[0] in recipes.FORMATS:
            return found.partition("_")[0]
    raise UserError(
        f"{root / _CONFIG}: neither {' nor '.join(_SETS)} is a set of a tracker "
        f"({', '.join(recipes.FORMATS)}). {_FIX}"
    )


def _of_config(root: epath.Path, name: str) -> Any:
    return run_config.build(root / _CONFIG, name)
