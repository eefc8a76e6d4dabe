"""The result for a description: its judged candidates and its variants."""

from collections.abc import Mapping
from dataclasses import dataclass

from jaxaug.augment import tree
from jaxaug.augment.descriptions import Description
from jaxaug.paraphrase.candidates import Candidate


@dataclass(frozen=True)
class Judged:
    """A candidate with its metrics and reasons.

    Attributes:
        candidate: text, count, settings.
        values: metric -> value; empty if not measured.
        dropped: reasons; empty if the candidate may be selected.
    """

    candidate: Candidate
    values: Mapping[str, float]
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """The result for one description.

    Attributes:
        description: the description in the schema.
        judged: its candidates, the most common first.
        selected: texts of its variants, v1 first. With too few candidates, the first
            ones are the original text.
        kept: number of variants that keep the original because there are too few
            candidates.
        ranking: ranking by a tree.
    """

    description: Description
    judged: tuple[Judged, ...]
    selected: tuple[str, ...]
    kept: int
    ranking: tree.Ranking | None = None
