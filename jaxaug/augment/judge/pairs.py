"""`jaxaug augment judge`: a verdict on each pair of a file."""

import json
from collections.abc import Sequence

from jaxaug_base.files import absolute

from jaxaug.augment.arguments import Judge
from jaxaug.augment.judge import verdicts
from jaxaug.augment.judge.features import Pair
from jaxaug.augment.judge.verdicts import Verdict
from jaxaug.core.errors import UserError
from jaxaug.core.files import PathLike, read_text, shown, write_text
from jaxaug.core.progress import progress
from jaxaug.core.suggestion import suggestion

HEADER = ("kind", "original", "candidate")
KINDS = ("slot", "intent", "service", "name", "sentence")

_FIX = (
    "Write a UTF-8 file with a header line and three columns with tabs between: "
    f"{', '.join(HEADER)}."
)
# Pairs that are judged together: a step of the progress bar.
_BLOCK = 256


def run(arguments: Judge) -> int:
    """Runs the verb; see `jaxaug augment judge --help`."""
    if absolute(arguments.input) == absolute(arguments.out):
        raise UserError(f"--out {arguments.out}: is the input. Name another file.")
    pairs = read(arguments.input)
    found = judged(pairs, arguments.least)
    write_text(arguments.out, written(pairs, found))
    kept = sum(one.keep for one in found)
    trivial = sum(verdicts.TRIVIAL in one.reasons for one in found)
    print(
        f"{kept:,} of {len(pairs):,} candidates kept ({trivial:,} dropped as trivial); "
        f"wrote {arguments.out}"
    )
    return 0


def read(path: PathLike) -> list[Pair]:
    """Returns the pairs of a file.

    Fields are separated by tabs and are not quoted.

    Raises:
        UserError: the file is missing or not UTF-8, the header is not `HEADER`, or a
            line has another number of columns, an unknown kind, or an empty text; names
            the line.
    """
    text = read_text(path, _FIX)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if tuple(lines[0].split("\t")) != HEADER:
        raise UserError(
            f"{path}: line 1 is {shown(lines[0])}, expected the header "
            f"{shown(chr(9).join(HEADER))}. {_FIX}"
        )
    return [_pair(line, f"{path}: line {n}") for n, line in enumerate(lines[1:], 2)]


def _pair(line: str, where: str) -> Pair:
    fields = line.split("\t")
    if len(fields) != len(HEADER):
        raise UserError(
            f"{where}: {len(fields)} columns, expected {len(HEADER)}. {_FIX}"
        )
    kind, *texts = fields
    if kind not in KINDS:
        raise UserError(f"{where}: kind {kind!r}; {suggestion(kind, KINDS)}")
    for name, text in zip(HEADER[1:], texts, strict=True):
        if not text.strip():
            raise UserError(f"{where}: the {name} is empty. Leave the line out.")
    return Pair(kind, *texts)


def judged(pairs: Sequence[Pair], least: float) -> list[Verdict]:
    """Returns the verdicts on many pairs, with a progress bar."""
    starts = range(0, len(pairs), _BLOCK)
    return [
        verdict
        for start in progress(starts, desc="judging", unit="block")
        for verdict in verdicts.verdicts(pairs[start : start + _BLOCK], least)
    ]


def written(pairs: Sequence[Pair], found: Sequence[Verdict]) -> str:
    """Returns the verdicts as JSON lines, in the order of the pairs."""
    lines = [
        json.dumps(
            {
                "kind": pair.kind,
                "original": pair.original,
                "candidate": pair.candidate,
                "keep": verdict.keep,
                "reasons": verdict.reasons,
                "faithful": verdict.faithful,
            },
            ensure_ascii=False,
        )
        for pair, verdict in zip(pairs, found, strict=True)
    ]
    return "".join(f"{line}\n" for line in lines)
