"""Paths of data: the data folder, its schema variants, the cache folder.

A data folder has the layout of the SGD repository. `train`, `dev`, and `test` contain
`schema.json` and `dialogues_*.json`. SGD-X variants are in
`sgd_x/data/v1..v5/<split>/schema.json`, generated variants in
`variants/<name>/v1..vK/<split>/schema.json`.
"""

import os
import re

from etils import epath

from jaxaug.core import hub
from jaxaug.core.cache_folder import cache_dir, fix_for
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, is_remote, reached, unreachable
from jaxaug.core.suggestion import one_of

SPLITS = ("train", "dev", "test")
DATA_DIR_VARIABLE = "JAXAUG_DATA_DIR"
VARIANTS_DIR_VARIABLE = "JAXAUG_VARIANTS_DIR"
TEXT_DIR_VARIABLE = "JAXAUG_TEXT_DIR"

_VARIANT = re.compile(r"v([1-9][0-9]*)")
_TASK_WORD = re.compile(r"[A-Za-z0-9_]+")


def resolve_data_dir(data_dir: PathLike | None = None) -> epath.Path:
    """Returns the data folder: the argument, else `$JAXAUG_DATA_DIR`, else MiniSGD.

    MiniSGD is unpacked into the cache folder at its first use, and `hf:OWNER/NAME` is
    downloaded there.

    Raises:
        UserError: the name is empty, the folder is missing or unreachable, or no split
            has a schema. The message gives the folder, a missing file, and the command
            that fetches it.
    """
    if data_dir is not None and not os.fspath(data_dir):
        raise UserError(
            "the name of the data folder is empty: name a folder, or leave --data_dir "
            f"out to use ${DATA_DIR_VARIABLE} or the embedded MiniSGD."
        )
    chosen = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    if not chosen:
        from jaxaug.data import minisgd

        return epath.Path(minisgd.materialise(cache_dir()))
    source = "" if data_dir else f" (from ${DATA_DIR_VARIABLE})"
    if os.fspath(chosen).startswith(hub.PREFIX):
        from jaxaug.data import fetch

        name, folder = chosen, fetch.of_hub(os.fspath(chosen))
        if not _has_schema(folder):
            raise UserError(
                f"data set {name}{source} is not in the layout of SGD: its copy "
                f"{folder} has no {SPLITS[0]}/schema.json. Convert chat messages with "
                f"`jaxaug data import {name} --split train --out DIR`."
            )
        return folder
    problem = unreachable(chosen)
    if problem:
        raise _no_data(f"{chosen}{source}: {problem}", f"{chosen}".rstrip("/"))
    folder = epath.Path(chosen).expanduser()
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise _no_data(f"{folder}{source} {problem}", folder)
    if not _has_schema(folder):
        if (folder / "schema.json").exists():
            raise UserError(
                f"data folder {folder}{source} has one schema.json for all splits, as "
                "MultiWOZ 2.2 is published. Convert it: `jaxaug data convert "
                f"multiwoz22 --source {folder} --out data/multiwoz22`."
            )
        raise _no_data(f"{folder}{source} holds no data", folder)
    return folder


def _has_schema(folder: epath.Path) -> bool:
    return any((folder / split / "schema.json").exists() for split in SPLITS)


def _no_data(problem: str, folder: PathLike) -> UserError:
    return UserError(
        f"data folder {problem}: {os.fspath(folder)}/{SPLITS[0]}/schema.json is "
        f"missing. {fetch_fix(folder)}"
    )


def fetch_fix(data_dir: PathLike) -> str:
    """Returns a sentence on how to obtain a missing part of a data folder."""
    # Downloads need a local folder.
    out = "data/sgd" if is_remote(data_dir) else os.fspath(data_dir)
    return fix_for(
        data_dir,
        f"Get it with `jaxaug data fetch sgd --out {out}`, or name another folder "
        f"with --data_dir or ${DATA_DIR_VARIABLE} (neither: the embedded MiniSGD).",
    )


def schema_path(data_dir: PathLike, split: str) -> epath.Path:
    """Returns the path of a split's schema; raises `UserError` if it is missing."""
    folder = epath.Path(data_dir)
    if split not in SPLITS:
        raise UserError(f"unknown split {split!r}: {one_of(split, SPLITS)}")
    path = folder / split / "schema.json"
    if not path.exists():
        raise UserError(
            f"data folder {folder} is incomplete: {path} is missing. "
            f"{fetch_fix(folder)}"
        )
    return path


def dialogue_paths(data_dir: PathLike, split: str) -> list[epath.Path]:
    """Returns the `dialogues_*.json` of a split, sorted by name.

    Raises:
        UserError: the split has no schema or no dialogue file.
    """
    folder = schema_path(data_dir, split).parent
    paths = sorted(folder.glob("dialogues_*.json"), key=lambda path: path.name)
    if not paths:
        raise UserError(
            f"data folder {data_dir} is incomplete: {folder / 'dialogues_001.json'} "
            f"and all further dialogue files are missing. {fetch_fix(data_dir)}"
        )
    return paths


def sgdx_folder(data_dir: PathLike) -> epath.Path:
    """Returns the folder of the SGD-X variants of a data folder."""
    return epath.Path(data_dir) / "sgd_x" / "data"


def variant_names(variants_dir: PathLike) -> tuple[str, ...]:
    """Returns `v1`, `v2`, ... in numeric order: the subfolders of a variants folder."""
    folder = epath.Path(variants_dir)
    if not folder.is_dir():
        return ()
    names = [path.name for path in folder.iterdir() if _VARIANT.fullmatch(path.name)]
    return tuple(sorted(names, key=lambda name: int(name[1:])))


def variant_splits(variants_dir: PathLike, variant: str) -> tuple[str, ...]:
    """Returns the splits that have a schema in a variant."""
    folder = epath.Path(variants_dir) / variant
    return tuple(s for s in SPLITS if (folder / s / "schema.json").exists())


def variant_schema_path(variants_dir: PathLike, variant: str, split: str) -> epath.Path:
    """Returns the schema of one variant of a split.

    Raises:
        UserError: the folder, the variant, or its schema of the split is missing.
    """
    folder = epath.Path(variants_dir)
    known = variant_names(folder)
    if not known:
        raise UserError(
            f"no schema variants in {folder}: {folder / 'v1' / split / 'schema.json'} "
            "is missing. `jaxaug data fetch sgd` gets those of SGD-X."
        )
    if variant not in known:
        raise UserError(
            f"unknown variant {variant!r}: {folder} has {', '.join(known)}. "
            "Choose one of them."
        )
    path = folder / variant / split / "schema.json"
    if not path.exists():
        splits = ", ".join(variant_splits(folder, variant)) or "none"
        raise UserError(
            f"variant {variant!r} has no schema for split {split!r}: {path} is missing "
            f"(splits there: {splits}). Choose another split, or add the file."
        )
    return path


def variant_folders(data_dir: PathLike) -> dict[str, epath.Path]:
    """Returns the variants folders by name.

    Each folder contains `v1..vK/<split>/schema.json`. `sgdx` is `data_dir/sgd_x/data`,
    which need not exist. The folders `data_dir/variants/<name>` follow, then the
    folders in `$JAXAUG_VARIANTS_DIR` (separated as in `$PATH`), named by their base
    names.

    Raises:
        UserError: a folder of the variable does not exist, a name occurs twice, or a
            name cannot be part of a task name.
    """
    folders = {"sgdx": sgdx_folder(data_dir)}
    generated = epath.Path(data_dir) / "variants"
    found = (
        sorted((p for p in generated.iterdir() if p.is_dir()), key=lambda p: p.name)
        if generated.is_dir()
        else []
    )
    found = [path for path in found if not path.name.startswith(".")]
    for path in found + _folders_of_variable():
        check_variants_name(path)
        if path.name in folders:
            raise UserError(
                f"two variants folders are called {path.name!r}: {folders[path.name]} "
                f"and {path}. Rename one of them."
            )
        folders[path.name] = path
    return folders


def evaluated_variants(
    data_dir: PathLike, split: str
) -> tuple[epath.Path, tuple[str, ...]]:
    """Returns the variants folder that scores a split, and its variants of the split.

    The folder is the first of `variant_folders` with such variants, as in training;
    without any, it is the folder of SGD-X.

    Raises:
        UserError: see `variant_folders`.
    """
    for folder in variant_folders(data_dir).values():
        names = variant_names(folder)
        if found := tuple(n for n in names if split in variant_splits(folder, n)):
            return folder, found
    return sgdx_folder(data_dir), ()


def check_variants_name(path: epath.Path) -> None:
    """Raises `UserError` if the name of a variants folder cannot be in a task name."""
    if not _TASK_WORD.fullmatch(path.name):
        raise UserError(
            f"variants folder {path}: its name becomes part of task names and may "
            "hold letters, digits and underscores only. Rename the folder."
        )


def text_dir(reader: str) -> epath.Path:
    """Returns the folder `$JAXAUG_TEXT_DIR`, which contains `quora/` and `pcc/`.

    Args:
        reader: subject of the error message, such as "The task of Quora's questions".

    Raises:
        UserError: the variable is not set.
    """
    named = os.environ.get(TEXT_DIR_VARIABLE)
    if not named:
        raise UserError(
            f"{reader} reads the folder ${TEXT_DIR_VARIABLE}, which is not set: name "
            "the folder with quora/ and pcc/."
        )
    return epath.Path(named)


def paths_of_variable(name: str) -> list[epath.Path]:
    """Returns the paths in an environment variable, separated as in `$PATH`.

    The colon of `gs://` does not separate paths.
    """
    separator = re.escape(os.pathsep) + (r"(?!//)" if os.pathsep == ":" else "")
    found = filter(None, re.split(separator, os.environ.get(name, "")))
    return [epath.Path(item.rstrip("/") or item).expanduser() for item in found]


def _folders_of_variable() -> list[epath.Path]:
    folders = []
    for folder in paths_of_variable(VARIANTS_DIR_VARIABLE):
        fix = f"Correct ${VARIANTS_DIR_VARIABLE}, or mend the cause."
        with reached(folder, fix):
            is_there = folder.is_dir()
        if not is_there:
            raise UserError(
                f"variants folder {folder} (from ${VARIANTS_DIR_VARIABLE}) does not "
                "exist. Correct the variable or create the folder."
            )
        folders.append(folder)
    return folders
