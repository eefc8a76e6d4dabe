"""The verbs `jaxaug evaluate sgd` and `jaxaug evaluate sgdx`."""

import argparse
import json
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable, reach, write_text
from jaxaug.data import folders
from jaxaug.data.folders import resolve_data_dir
from jaxaug.metrics import dst, sensitivity
from jaxaug.metrics.benchmark import group_scores, load
from jaxaug.metrics.collector import collector_paused
from jaxaug.metrics.frames import FrameTable, write_frames
from jaxaug.metrics.predictions import read_predictions, warn
from jaxaug.metrics.report import ABOUT, ABSENT, Run, sgd_table, text_table
from jaxaug.metrics.sensitivity import ORIGINAL, VARIANTS, GroupScores


@collector_paused()
def evaluate_folder(
    data_dir: PathLike,
    split: str,
    folder: PathLike,
    variant: str | None = None,
    exact: bool = False,
    joint_across_turn: bool = False,
) -> tuple[dict[str, dict[str, float]], GroupScores, dict[str, Any]]:
    """Scores one folder of predictions.

    Returns:
        The official evaluator's report, the joint goal accuracy of every frame, and
        counts (numbers of dialogues and frames, ignored items, and seen services).

    Raises:
        UserError: data or predictions cannot be read.
    """
    variants, _ = folders.evaluated_variants(data_dir, split)
    benchmark = load(data_dir, split, variant, variants)
    predictions = read_predictions(folder, benchmark)
    scores = dst.frame_scores(
        predictions.references,
        predictions.states,
        benchmark.schema,
        exact,
        predictions.spans,
    )
    report = dst.aggregate(scores, benchmark.seen_services, joint_across_turn)
    counts = {
        "dialogues": len(benchmark.dialogues) - len(predictions.unpredicted),
        "dialogues_without_prediction": len(predictions.unpredicted),
        "frames": len(scores),
        "ignored": warn(predictions, scores.unknown_slots, str(folder)),
        "seen_services": sorted(benchmark.seen),
    }
    frames = group_scores(benchmark, predictions.references, scores, joint_across_turn)
    return report, frames, counts


def score_variants(
    data_dir: PathLike,
    split: str,
    folder: PathLike,
    exact: bool,
    joint_across_turn: bool,
) -> tuple[dict[str, Any], FrameTable]:
    """Scores `folder/{original,v1..v5}`, for the variants of `evaluated_variants`.

    Returns:
        The report of `jaxaug evaluate sgdx`, and the frame scores behind its means.

    Raises:
        UserError: one of these folders is missing or cannot be scored.
    """
    _, known = folders.evaluated_variants(data_dir, split)
    names = (ORIGINAL, *(name for name in VARIANTS if name in known))
    place = reach(folder, "Name the folder of predictions with --predictions.")
    missing = [name for name in names if not (place / name).is_dir()]
    if missing:
        raise UserError(
            f"prediction folder {folder} lacks {', '.join(missing)}: SGD-X needs the "
            f"folders {', '.join(names)}, each with predictions for that wording."
        )
    reports, frames, counts = {}, {}, {}
    for name in names:
        reports[name], frames[name], counts[name] = evaluate_folder(
            data_dir,
            split,
            place / name,
            None if name == ORIGINAL else name,
            exact,
            joint_across_turn,
        )
    result: dict[str, Any] = dict(sensitivity.robustness(frames))
    result["per_variant"] = reports
    result[ABOUT] = {
        "definitions": dst.DEFINITIONS | sensitivity.DEFINITIONS,
        "split": split,
        "exact": exact,
        "joint_across_turn": joint_across_turn,
        "counts": counts,
        ABSENT: [name for name in VARIANTS if name not in names],
    }
    return result, FrameTable.of_scores(split, frames)


def run_sgd(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug evaluate sgd`: writes the official evaluator's keys."""
    data_dir = resolve_data_dir(arguments.data_dir)
    check_writable(arguments.output, "--output")
    report, _, counts = evaluate_folder(
        data_dir,
        arguments.split,
        arguments.predictions,
        arguments.variant,
        arguments.exact,
        arguments.joint_across_turn,
    )
    about = {
        "definitions": dst.DEFINITIONS,
        "split": arguments.split,
        "variant": arguments.variant or ORIGINAL,
        "exact": arguments.exact,
        "joint_across_turn": arguments.joint_across_turn,
        "counts": counts,
    }
    write_json(arguments.output, {**report, ABOUT: about})
    print(sgd_table(report))
    print(f"{counts['frames']} frames of {counts['dialogues']} dialogues scored")
    print(f"written: {arguments.output}")
    return 0


def run_sgdx(arguments: argparse.Namespace) -> int:
    """Runs `jaxaug evaluate sgdx`: JGA per wording and schema sensitivity."""
    data_dir = resolve_data_dir(arguments.data_dir)
    check_writable(arguments.output, "--output")
    report, frames = score_variants(
        data_dir,
        arguments.split,
        arguments.predictions,
        arguments.exact,
        arguments.joint_across_turn,
    )
    write_frames(arguments.output, frames)
    write_json(arguments.output, report)
    print(text_table([Run.of_report(str(arguments.predictions), report)]))
    unit = "turns" if arguments.joint_across_turn else "frames"
    print(f"{report['frames']} {unit} scored under every wording")
    print(f"written: {arguments.output}")
    return 0


def write_json(path: PathLike, value: Any) -> None:
    """Writes JSON under a temporary name, then renames it."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")
