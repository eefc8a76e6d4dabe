"""What became of a description: its candidates, judged, and its variants."""

from collections.abc import Mapping
from dataclasses import dataclass

from jaxaug.augment import tree
from jaxaug.augment.descriptions import Description
from jaxaug.paraphrase.candidates import Candidate


@dataclass(frozen=True)
class Judged:
    """A candidate with what was found out about it.

    Attributes:
      candidate: text, count, settings.
      values: metric -> value; empty where it was not measured.
      dropped: reasons, none if it may be selected.
    """

    candidate: Candidate
    values: Mapping[str, float]
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What became of one description.

    Attributes:
      description: of the schema.
      judged: its candidates; the most common first.
      selected: texts of its variants, v1 first. Where there are too few candidates the
        first ones are the original text.
      kept: how many of those are the original for want of a candidate.
      ranking: of a tree.
    """

    description: Description
    judged: tuple[Judged, ...]
    selected: tuple[str, ...]
    kept: int
    ranking: tree.Ranking | None = None
