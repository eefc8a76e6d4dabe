"""Predictions of a run's evaluations, for `jaxaug errors`.

`tasks.report_logger.RobustnessLogger` writes them below `RUN/inference_eval`:

    predictions/<family>-<step>/<wording>/*.json   of the tasks of `<family>_eval`
    predictions/<task>-<step>/*.json               of other tasks
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from etils import epath

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, reach, read_json
from jaxaug.core.suggestion import suggestion
from jaxaug.data import folders
from jaxaug.feed import recipes, run_choices
from jaxaug.feed.parallel import Corpus, Options
from jaxaug.metrics.dst import ALL_SERVICES, JGA
from jaxaug.metrics.report import ABOUT, REPORT_FOLDER, evaluation_folders

_FOLDER = "predictions"
_NAME = re.compile(r"(?P<name>.+)-(?P<step>-?\d+)")
_OUTPUTS = re.compile(r"(?P<name>.+)-(?:\d+|metrics)\.jsonl")


@dataclass(frozen=True, slots=True)
class Wording:
    """Folder of the predictions under one wording of the schema, and their data."""

    folder: epath.Path
    corpus: Corpus


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The answers of a run in one format at one step.

    Attributes:
        family: first word of the tasks' names: "d3st", "d3st2a", "sdt" or "t5dst".
        wordings: name -> predictions. The names are `original`, `v1`, ... for the
            family's evaluation, then suffixes of other tasks' names, such as `aug_v1`.
        reported: wording -> (number of frames, joint goal accuracy from 0 to 1) in the
            run's report; empty without a report.
    """

    run: epath.Path
    family: str
    step: int
    split: str
    options: Options
    wordings: Mapping[str, Wording]
    reported: Mapping[str, tuple[int, float]]


def find(
    run: PathLike,
    task: str | None = None,
    data_dir: PathLike | None = None,
    split: str | None = None,
) -> Evaluation:
    """Returns the newest evaluation of a run.

    Args:
        task: a task, such as "d3st_sgdx_v1", a mixture `*_eval`, or a format, such as
            "t5dst". None means all tasks, which must have the same format.
        data_dir: folder with the dialogues. None means `$JAXAUG_DATA_DIR`, else the
            folder that the run recorded, else MiniSGD.
        split: split of the data folder; None means the split of the run's report, else
            "test".

    Raises:
        UserError: the folder of the run does not exist, it has no evaluation of the
            task, or the data folder lacks the evaluated data.
    """
    folder = reach(run, "Name the folder of a run.")
    if not folder.is_dir():
        raise UserError(f"run {folder} does not exist. Name the folder of a run.")
    if not data_dir and not os.environ.get(folders.DATA_DIR_VARIABLE):
        data_dir = run_choices.read(folder).get(folders.DATA_DIR_VARIABLE)
    data = folders.resolve_data_dir(data_dir)
    table = recipes.table(data)
    written = _written(folder)
    family, only = _chosen(folder, task, written, table)
    step = max(s for name, s in written if name.partition("_")[0] == family)
    noted, reported = _report(folder, family, step)
    split = split or noted
    places = {name: path for (name, s), path in written.items() if s == step}
    found = _of_family(places.get(family), family, split, table)
    found |= _of_tasks(places, family, split, table, only)
    if only:
        label = table.wordings(family, split).get(only) or only.removeprefix(
            f"{family}_"
        )
        found = {name: wording for name, wording in found.items() if name == label}
    if not found:
        raise UserError(
            f"run {folder} has no predictions of {task or family} on split {split!r} "
            f"of {data} at step {step}; its evaluation has written "
            f"{', '.join(map(str, places.values()))}. Check --task, --split and "
            "--data_dir."
        )
    options = recipes.FORMATS[family]
    if split != noted:
        reported = {}
    return Evaluation(folder, family, step, split, options, found, reported)


def _written(run: epath.Path) -> dict[tuple[str, int], epath.Path]:
    """Returns (family or task, step) -> folder of predicted dialogue states."""
    found: dict[tuple[str, int], epath.Path] = {}
    for place in evaluation_folders(run):
        if not (place / _FOLDER).is_dir():
            continue
        for path in sorted((place / _FOLDER).iterdir(), key=lambda path: path.name):
            match = _NAME.fullmatch(path.name)
            if match and match["name"].partition("_")[0] in recipes.FORMATS:
                found.setdefault((match["name"], int(match["step"])), path)
    if not found:
        raise _not_evaluated(run)
    return found


def _not_evaluated(run: epath.Path) -> UserError:
    others = {
        match["name"]
        for place in evaluation_folders(run)
        if place.is_dir()
        for path in place.glob("*.jsonl")
        if (match := _OUTPUTS.fullmatch(path.name))
    }
    dialogues = {name for name in others if name.partition("_")[0] in recipes.FORMATS}
    known = ", ".join(recipes.FORMATS)
    if dialogues:
        problem = (
            f"evaluations of {', '.join(sorted(dialogues))}, but no predictions in "
            f"{run / 'inference_eval' / _FOLDER}: they were run without the logger "
            "tasks.report_logger.RobustnessLogger"
        )
    elif others:
        problem = (
            f"evaluations of {', '.join(sorted(others))} only, which are no dialogue "
            f"states: `jaxaug errors` reads those of {known}"
        )
    else:
        problem = f"no evaluation: {run / 'inference_eval' / _FOLDER} is missing"
    return UserError(
        f"run {run} has {problem}. Evaluate it: python -m t5x.eval "
        "--gin_file=configs/runs/robustness.gin (see docs/report.md)."
    )


def _chosen(
    run: epath.Path,
    task: str | None,
    written: Mapping[tuple[str, int], epath.Path],
    table: recipes.Table,
) -> tuple[str, str | None]:
    """Returns the family, and the task if a single one is requested, else None."""
    families = sorted({name.partition("_")[0] for name, _ in written})
    if task is None:
        if len(families) > 1:
            raise UserError(
                f"run {run} was evaluated on {' and '.join(families)}. Choose one with "
                "--task."
            )
        return families[0], None
    family = task.removesuffix("_eval")
    only = None
    if family not in recipes.FORMATS:
        if task not in table.recipes:
            known = [*recipes.FORMATS, *table.recipes]
            raise UserError(f"--task {task}: no such task; {suggestion(task, known)}")
        family, only = task.partition("_")[0], task
    if family not in families:
        raise UserError(
            f"--task {task}: run {run} was evaluated on {' and '.join(families)}, not "
            f"on {family}. Leave --task out, or evaluate the run on {family}."
        )
    return family, only


def _report(
    run: epath.Path, family: str, step: int
) -> tuple[str, dict[str, tuple[int, float]]]:
    """Returns the split and the figures of the run's report.

    The figures map a wording to (number of frames, joint goal accuracy). Without a
    report they are empty, and the split is "test".
    """
    for place in evaluation_folders(run):
        path = place / REPORT_FOLDER / f"{family}-{step:06}.json"
        if not path.exists():
            continue
        report = read_json(path, "Evaluate the run again.")
        try:
            about = report[ABOUT]
            return about["split"], {
                name: (about["counts"][name]["frames"], groups[ALL_SERVICES][JGA])
                for name, groups in report["per_variant"].items()
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path}: no robustness report ({type(error).__name__}: {error}). "
                "Evaluate the run again."
            ) from None
    return "test", {}


def _of_family(
    folder: epath.Path | None, family: str, split: str, table: recipes.Table
) -> dict[str, Wording]:
    if folder is None:
        return {}
    wordings = table.wordings(family, split)
    found = {
        wording: Wording(folder / wording, _corpus(table, task, split))
        for task, wording in wordings.items()
        if (folder / wording).is_dir()
    }
    lost = sorted({p.name for p in folder.iterdir() if p.is_dir()} - found.keys())
    if lost:
        raise UserError(
            f"{folder} has predictions under {', '.join(lost)}, and the data folder "
            f"has no such wording of split {split!r}: {table.evaluation} Name the data "
            f"that the run was evaluated on with --data_dir, "
            f"${folders.VARIANTS_DIR_VARIABLE} and --split."
        )
    return found


def _of_tasks(
    places: Mapping[str, epath.Path],
    family: str,
    split: str,
    table: recipes.Table,
    only: str | None,
) -> dict[str, Wording]:
    """Returns the predictions of tasks outside the mixture `*_eval`."""
    found = {}
    for name, path in places.items():
        if name == family or name.partition("_")[0] != family:
            continue
        splits = table.recipes.get(name, {})
        if any(recipe.corpus.split == split for recipe in splits.values()):
            corpus = _corpus(table, name, split)
            found[name.removeprefix(f"{family}_")] = Wording(path, corpus)
        elif name == only:
            raise UserError(f"task {name} has no split {split!r}. Check --split.")
    return found


def _corpus(table: recipes.Table, task: str, split: str) -> Corpus:
    splits = table.recipes[task].values()
    return next(r.corpus for r in splits if r.corpus.split == split)
