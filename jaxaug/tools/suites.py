"""Suites: published cases whose tools are worded anew, in grades.

The cases come from their own package, which is fetched at the first use. jaxaug ships
the wordings alone: for the digest of a text, five faithful rewordings, from the nearest
(g1) to the farthest (g5). docs/sensitivity.md is the data card.
"""

import hashlib
import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxaug.data import rewordings
from jaxaug.models.named import packages
from jaxaug.tools import cases
from jaxaug.tools.cases import Case, Source
from jaxaug.tools.wordings import CONTROL, ORIGINAL, Wordings

GRADES = ("g1", "g2", "g3", "g4", "g5")


@dataclass(frozen=True, slots=True)
class Suite:
    """Published cases.

    Attributes:
        package: name of the package with the cases.
        files: its files of cases, in the format of BFCL.
        wordings: name of the file with the wordings.
    """

    package: str
    files: Sequence[str]
    wordings: str


SUITES: Mapping[str, Suite] = {
    "bfcl-live": Suite(
        "bfcl", ("simple.json", "parallel.json"), "bfcl_live_wordings.jsonl.xz"
    )
}


def digest(text: str) -> str:
    """Returns the key of a text in a file of wordings, 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def wordings_of(suite: Suite) -> dict[str, Sequence[str]]:
    """Returns a mapping from the digest of a text to its five rewordings."""
    path = Path(rewordings.__file__).with_name(suite.wordings)
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        found = map(json.loads, lines)
        return {one["digest"]: one["good"] for one in found}


def read(name: str, limit: int | None = None) -> tuple[list[Source], Wordings]:
    """Returns the cases of a suite, and these cases under all wordings.

    Args:
        name: key of `SUITES`.
        limit: number of cases; None means all.

    Raises:
        UserError: the package of the cases cannot be fetched.
    """
    suite = SUITES[name]
    folder = packages.at_first_use(suite.package)
    known = wordings_of(suite)

    def sources(grade: int | None) -> list[Source]:
        def reworded(text: str) -> str:
            found = known.get(digest(text))
            return text if found is None or grade is None else found[grade]

        paths = [folder / file for file in suite.files]
        found = [
            one for path in paths for one in cases.read(path, None, None, reworded)
        ]
        return found[:limit]

    given = sources(None)
    found: dict[str, list[Case]] = dict.fromkeys((ORIGINAL, CONTROL), _cases(given))
    for number, grade in enumerate(GRADES):
        found[grade] = _cases(sources(number))
    return given, found


def _cases(sources: Sequence[Source]) -> list[Case]:
    return [case for source in sources for case in source.cases]
