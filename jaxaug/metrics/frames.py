"""Scores of every frame under every wording, used to compute intervals.

A robustness report `NAME.json` holds means. The scores behind these means are stored
next to it in `NAME.frames.npz`, compressed.
"""

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from etils import epath
from jaxtyping import Float, Int, Shaped

from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_bytes, write_bytes
from jaxaug.metrics.sensitivity import GROUPS, ORIGINAL, VARIANTS, GroupScores

WORDINGS = (ORIGINAL, *VARIANTS)
_SUFFIX = ".frames.npz"
_FIX = "Evaluate the run again."
_DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError)


@dataclass(frozen=True, eq=False)
class FrameTable:
    """Joint goal accuracy of each frame of a split under each wording.

    Attributes:
        dialogue: index into `dialogues` of each frame, ascending.
        turn: index of each frame's turn in its dialogue.
        services: original names, sorted; "" if turns were scored instead of frames.
        service: index into `services` of each frame.
        scores: scores by `sensitivity.GROUPS` and `WORDINGS`, from 0 to 1. NaN if a
            frame is not in the group, was not evaluated, or has a service without
            slots.
    """

    split: str
    dialogues: Shaped[np.ndarray, " dialogues"]
    dialogue: Int[np.ndarray, " frames"]
    turn: Int[np.ndarray, " frames"]
    services: Shaped[np.ndarray, " services"]
    service: Int[np.ndarray, " frames"]
    scores: Float[np.ndarray, "groups wordings frames"]

    @staticmethod
    def of_scores(split: str, scores: Mapping[str, GroupScores]) -> "FrameTable":
        """Returns the table of the input of `sensitivity.robustness`, one entry per
        wording.

        A wording that was not evaluated is NaN.
        """
        none: GroupScores = {group: {} for group in GROUPS}
        scores = {name: scores.get(name, none) for name in WORDINGS}
        frames = sorted({key for name in WORDINGS for key in scores[name][GROUPS[0]]})
        dialogues, dialogue = np.unique([key[0] for key in frames], return_inverse=True)
        services, service = np.unique([key[2] for key in frames], return_inverse=True)
        values = [
            [
                [scores[name][group].get(key, np.nan) for key in frames]
                for name in WORDINGS
            ]
            for group in GROUPS
        ]
        return FrameTable(
            split,
            dialogues.astype(str),
            dialogue.astype(np.int32),
            np.array([key[1] for key in frames], np.int32),
            services.astype(str),
            service.astype(np.int32),
            np.array(values, np.float64),
        )

    @property
    def wordings(self) -> tuple[str, ...]:
        """Names of the wordings with at least one scored frame."""
        measured = ~np.isnan(self.scores[0]).all(axis=-1)
        return tuple(
            name for name, is_there in zip(WORDINGS, measured, strict=True) if is_there
        )

    def difference(self, other: "FrameTable") -> str | None:
        """Returns why two tables cannot be compared frame by frame, or None."""
        if self.split != other.split:
            return f"split {self.split!r} and split {other.split!r}"
        if self.wordings != other.wordings:
            return (
                f"wordings {', '.join(self.wordings)} and {', '.join(other.wordings)}"
            )
        mine, yours = set(self.dialogues.tolist()), set(other.dialogues.tolist())
        if mine != yours:
            odd = min(mine ^ yours)
            sizes = f"{len(mine)} and {len(yours)} dialogues"
            return f"{sizes}; only one has {odd!r}"
        pairs = (
            (self.dialogue, other.dialogue),
            (self.turn, other.turn),
            (self.services[self.service], other.services[other.service]),
        )
        if not all(np.array_equal(left, right) for left, right in pairs):
            sizes = f"{len(self.turn)} and {len(other.turn)} frames"
            return f"{sizes} of the same dialogues, which differ in turns or services"
        return self._other_scores(other)

    def _other_scores(self, other: "FrameTable") -> str | None:
        mine, yours = ~np.isnan(self.scores), ~np.isnan(other.scores)
        for wording, one, two in zip(WORDINGS, mine[0], yours[0], strict=True):
            if not np.array_equal(one, two):
                sizes = f"{one.sum()} and {two.sum()} frames"
                return f"{sizes} scored under {wording}, not the same ones"
        if not np.array_equal(mine, yours):
            sizes = " and ".join(
                str(part[1].any(axis=0).sum()) for part in (mine, yours)
            )
            return (
                f"{sizes} frames of seen services: other services in the train schema"
            )
        return None


def frames_file(report: PathLike) -> epath.Path:
    """Returns the path of the frames of a robustness report (a JSON file)."""
    path = epath.Path(report)
    return path.with_name(f"{path.name.removesuffix('.json')}{_SUFFIX}")


def write_frames(report: PathLike, table: FrameTable) -> None:
    """Writes a table next to its report; equal tables give equal bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        split=np.array(table.split),
        dialogues=table.dialogues,
        dialogue=table.dialogue,
        turn=table.turn,
        services=table.services,
        service=table.service,
        scores=table.scores,
    )
    write_bytes(frames_file(report), buffer.getvalue())


def read_frames(report: PathLike) -> FrameTable | None:
    """Reads the table next to a report; returns None if there is no such file.

    Raises:
        UserError: the file is damaged or not written by jaxaug.
    """
    path = frames_file(report)
    if not path.exists():
        return None
    data = read_bytes(path, _FIX)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            table = FrameTable(
                split=str(stored["split"][()]),
                dialogues=stored["dialogues"],
                dialogue=stored["dialogue"],
                turn=stored["turn"],
                services=stored["services"],
                service=stored["service"],
                scores=stored["scores"],
            )
        _check(table)
    except _DAMAGE as error:
        raise UserError(
            f"{path}: no scores of frames ({type(error).__name__}: {error}). {_FIX}"
        ) from None
    return table


def _check(table: FrameTable) -> None:
    for name in ("dialogues", "services"):
        column = getattr(table, name)
        if column.ndim != 1 or column.dtype.kind != "U":
            raise ValueError(
                f"{name} are {column.dtype} {column.shape}, expected names"
            )
        if (column[:-1] >= column[1:]).any():
            raise ValueError(f"the {name} are not in order")
    if not table.dialogue.shape:
        raise ValueError("dialogue is a single number")
    frames = len(table.dialogue)
    shape = len(GROUPS), len(WORDINGS), frames
    if table.scores.shape != shape or table.scores.dtype != np.float64:
        raise ValueError(
            f"scores are {table.scores.dtype} {table.scores.shape}, expected float64 "
            f"{shape}"
        )
    for name in ("dialogue", "turn", "service"):
        column = getattr(table, name)
        if column.shape != (frames,) or column.dtype.kind != "i":
            raise ValueError(f"{name} is {column.dtype} {column.shape}")
    for column, names in (
        (table.dialogue, table.dialogues),
        (table.service, table.services),
    ):
        if frames and not 0 <= column.min() <= column.max() < len(names):
            raise ValueError(f"an index from 0 to {column.max()} of {len(names)} names")
    if (np.diff(table.dialogue) < 0).any():
        raise ValueError("the dialogues are not in order")
    if not ((table.scores >= 0) & (table.scores <= 1) | np.isnan(table.scores)).all():
        raise ValueError("a score is not from 0 to 1")
