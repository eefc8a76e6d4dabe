"""The verbs `jaxaug evaluate sgd` and `jaxaug evaluate sgdx`."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, check_writable, reach, write_text
from jaxaug.core.garbage import paused
from jaxaug.data import folders
from jaxaug.data.folders import resolve_data_dir
from jaxaug.metrics import dst, sensitivity
from jaxaug.metrics.arguments import SGD, SGDX
from jaxaug.metrics.benchmark import FrameKey, group_scores, open_split
from jaxaug.metrics.frames import FrameTable, write_frames
from jaxaug.metrics.predictions import Block, Summary, stream, warn
from jaxaug.metrics.report import ABOUT, ABSENT, Run, sgd_table, text_table
from jaxaug.metrics.sensitivity import ORIGINAL, VARIANTS, GroupScores


@paused()
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
    found = _Scored(data_dir, split, folder, variant, exact)
    report, counts = found.report(joint_across_turn)
    frames = group_scores(found.wording, found.keys, found.scores, joint_across_turn)
    return report, frames, counts


class _Scored:
    """The scores of one folder of predictions; see `evaluate_folder`.

    Dialogues are read as a stream. `keys` are the scored frames, or empty.
    """

    def __init__(
        self,
        data_dir: PathLike,
        split: str,
        folder: PathLike,
        variant: str | None,
        exact: bool,
        has_keys: bool = True,
    ):
        variants, _ = folders.evaluated_variants(data_dir, split)
        self.wording, dialogues = open_split(data_dir, split, variant, variants)
        self.keys: list[FrameKey] = []
        self._folder, self._summary = str(folder), Summary()
        blocks = stream(folder, self.wording, dialogues, self._summary)
        self.scores = dst.joined(self._scored(blocks, exact, has_keys))

    def _scored(
        self, blocks: Iterable[Block], exact: bool, has_keys: bool
    ) -> Iterator[dst.FrameScores]:
        for block in blocks:
            yield dst.frame_scores(
                block.references, block.states, self.wording.schema, exact, block.spans
            )
            if has_keys:
                references = block.references
                self.keys += [(r.dialogue_id, r.turn, r.service) for r in references]

    def report(
        self, joint_across_turn: bool
    ) -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
        """Returns the official evaluator's report, and counts."""
        summary, scores = self._summary, self.scores
        counts = {
            "dialogues": summary.dialogues,
            "dialogues_without_prediction": len(summary.unpredicted),
            "frames": len(scores),
            "ignored": warn(summary, scores.unknown_slots, self._folder),
            "seen_services": sorted(self.wording.seen),
        }
        seen = self.wording.seen_services
        return dst.aggregate(scores, seen, joint_across_turn), counts


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


def run_sgd(arguments: SGD) -> int:
    """Runs `jaxaug evaluate sgd`: writes the official evaluator's keys."""
    data_dir = resolve_data_dir(arguments.data_dir)
    check_writable(arguments.output, "--output")
    with paused():
        report, counts = _Scored(
            data_dir,
            arguments.split,
            arguments.predictions,
            arguments.variant,
            arguments.exact,
            has_keys=False,
        ).report(arguments.joint_across_turn)
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


def run_sgdx(arguments: SGDX) -> int:
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
