"""Schema sensitivity (Lee et al., 2022, "SGD-X", section 4).

A frame is scored under K wordings of its schema. Its sensitivity is the sample standard
deviation (ddof 1) of its K joint goal accuracies divided by their mean. SS is the
average over the frames for which this is defined, that is, at least one wording scored
above zero. A tracker that is always wrong is therefore left out instead of being called
robust. The `all_frames` form counts such frames as 0, because they never change. Its
value does not depend on a shrinking set of frames.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

ORIGINAL = "original"
VARIANTS = ("v1", "v2", "v3", "v4", "v5")
# Identifies a frame: (dialogue id, index of the turn, original name of the service).
FrameId = tuple[str, int, str]
GROUPS = ("", "_seen", "_unseen")
# Maps group -> frame -> joint goal accuracy.
GroupScores = Mapping[str, Mapping[FrameId, float]]

DEFINITIONS = {
    "jga_orig": "joint goal accuracy on the original schema",
    "jga_v1_5": "mean over v1..v5 of the joint goal accuracy",
    "ss_jga": "mean over the frames where it is defined of the sample standard "
    "deviation (ddof 1) over v1..v5 of the frame's joint goal accuracy, divided by "
    "its mean over v1..v5",
    "ss_jga_all_frames": "the same, frames that are wrong under all of v1..v5 counted "
    "as 0",
    "frames": "the frames that all of v1..v5 have scored; with --joint_across_turn a "
    "turn takes the place of a frame everywhere",
    "units": "fractions, not per cent",
}


def coefficient_of_variation(
    scores: Float[np.ndarray, "variants frames"],
) -> Float[np.ndarray, " frames"]:
    """Returns standard deviation over mean of each frame; NaN if the mean is 0.

    A frame that is NaN under any variant stays NaN.

    Raises:
        ValueError: there are fewer than two variants; ddof 1 needs two.
    """
    if len(scores) < 2:
        raise ValueError(
            f"schema sensitivity compares at least 2 variants, got {len(scores)}"
        )
    mean = scores.mean(axis=0)
    deviation = scores.std(axis=0, ddof=1)
    # Equal scores with a rounded mean would leave a deviation of about 1e-17.
    deviation[(scores == scores[0]).all(axis=0)] = 0.0
    return np.divide(deviation, mean, out=np.full_like(mean, np.nan), where=mean > 0)


def schema_sensitivity(
    scores: Float[np.ndarray, "variants frames"], all_frames: bool = False
) -> float | None:
    """Returns SS over frames, as a fraction; None if no frame defines it.

    Args:
        scores: joint goal accuracy of each frame under each variant, NaN if the frame's
            service has no slots.
        all_frames: whether to count frames that are wrong under every variant as 0.
    """
    variation = coefficient_of_variation(scores)
    if all_frames:
        variation[(scores == 0).all(axis=0)] = 0.0
    return _mean(variation)


def _mean(values: Float[np.ndarray, " values"]) -> float | None:
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else None


def robustness(scores: Mapping[str, GroupScores]) -> dict[str, float | int | None]:
    """Returns the figures of an SGD-X report.

    Args:
        scores: wording ("original", "v1", ...) -> group ("" for all services, "_seen",
            "_unseen") -> frame -> joint goal accuracy. It is NaN if the frame's service
            has no slots. Frames use the original name of their service.

    Returns:
        name -> fraction, None if undefined. `jga_v1_5` is the mean of the per-variant
        means. `*_seen` and `*_unseen` are restricted to such services. SS uses the
        `frames` that every variant has scored, and needs two variants.
    """
    names = sorted(name for name in scores if name != ORIGINAL)
    report: dict[str, float | int | None] = {}
    for group in GROUPS:
        variants = [scores[name][group] for name in names]
        means = [_mean(np.array([*variant.values()], float)) for variant in variants]
        defined = [value for value in means if value is not None]
        measured = variants or [scores[ORIGINAL][group]]
        shared = [
            frame for frame in measured[0] if all(frame in v for v in measured[1:])
        ]
        table = np.array([[variant[frame] for frame in shared] for variant in variants])
        if ORIGINAL in scores:
            original = np.array([*scores[ORIGINAL][group].values()], float)
            report[f"jga_orig{group}"] = _mean(original)
        report[f"jga_v1_5{group}"] = float(np.mean(defined)) if defined else None
        several = len(names) > 1
        report[f"ss_jga{group}"] = schema_sensitivity(table) if several else None
        report[f"ss_jga_all_frames{group}"] = (
            schema_sensitivity(table, True) if several else None
        )
        if not group:
            report["frames"] = len(shared)
    return report
