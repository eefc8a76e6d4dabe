"""Options that make a tracker robust against the wording of a schema."""

from dataclasses import dataclass

from jaxaug.core.errors import UserError
from jaxaug.core.suggestion import one_of

GRAMMAR = "grammar"
AUTO = "auto"
VOTE, LIKELIHOOD = "vote", "likelihood"
KEEP, MARK, DROP = "keep", "mark", "drop"
EARLY = 3
"""Number of wordings that must agree before `early` skips the others."""
MOST = 64
"""Maximum number of further wordings."""


@dataclass(frozen=True, slots=True)
class Robust:
    """Options of a tracker; by default it uses one wording and checks nothing.

    Attributes:
        wordings: number of further wordings of the schema, 0 to 64.
        source: `grammar`, or a folder with `v1/<split>/schema.json`, `v2/...`.
        combine: `vote` takes the most frequent value of each slot; `likelihood` takes
          the answer with the greatest sum of log-likelihoods under all wordings.
        early: whether a frame is settled once the given wording and the first two
          others agree.
        min_confidence: slots with a lower agreement, from 0 to 1, are uncertain.
        uncertain: `mark` lists uncertain slots, `drop` also empties them.
        unsaid: treatment of non-categorical values that occur in no turn: `keep` keeps
          them, `mark` lists them, `drop` also empties their slots.
        familiar: data folder of the training; `auto` takes `folders.resolve_data_dir`.
          The grammar rewords the schema in words of the training schemas where it can.
          Empty: the schema stays as it is.
        constrained: whether answers are restricted to the language of their format, so
          that categorical slots have one of their options.
    """

    wordings: int = 0
    source: str = GRAMMAR
    combine: str = VOTE
    early: bool = False
    min_confidence: float = 0.0
    uncertain: str = MARK
    unsaid: str = KEEP
    familiar: str = ""
    constrained: bool = False

    def __post_init__(self) -> None:
        """Raises `UserError` if an option is out of range or would have no effect."""
        if not 0 <= self.wordings <= MOST:
            raise UserError(
                f"wordings={self.wordings}: give a number from 0 to {MOST}."
            )
        if not 0 <= self.min_confidence <= 1:
            raise UserError(
                f"min_confidence={self.min_confidence}: give a share from 0 to 1."
            )
        for name, known in (
            ("combine", (VOTE, LIKELIHOOD)),
            ("uncertain", (MARK, DROP)),
            ("unsaid", (KEEP, MARK, DROP)),
        ):
            if getattr(self, name) not in known:
                value = getattr(self, name)
                raise UserError(f"{name}={value!r}: {one_of(value, known)}")
        if self.early and self.wordings < EARLY:
            raise UserError(
                f"early with wordings={self.wordings}: {EARLY} answers are compared "
                f"before any is left out. Give at least {EARLY} wordings."
            )
        if self.uncertain == DROP and not self.min_confidence:
            raise UserError(
                "uncertain='drop' with min_confidence=0: no slot is uncertain. Set "
                "min_confidence to a share from 0 to 1."
            )
        if not self.wordings and (
            self.min_confidence or self.source != GRAMMAR
            or self.combine != VOTE
        ):  # fmt: skip
            raise UserError(
                "min_confidence, source, and combine need several wordings: "
                "the agreement between them is the confidence. Set wordings."
            )
