"""Options that make a tracker robust against the wording of a schema."""

from typing import Annotated, Literal

from jaxaug.core.arguments import Arg, Range, Settings
from jaxaug.core.errors import UserError

GRAMMAR = "grammar"
AUTO = "auto"
VOTE, LIKELIHOOD = "vote", "likelihood"
KEEP, MARK, DROP = "keep", "mark", "drop"
EARLY = 3
"""Number of wordings that must agree before `early` skips the others."""
MOST = 64
"""Maximum number of further wordings."""


class Robust(Settings):
    """Wordings and checks (docs/robustness.md).

    By default a tracker uses one wording and checks nothing.

    Attributes:
        wordings: predict under N further wordings of the schema and combine the answers
        source: variants folder with the wordings v1 to vN (default: the rewording
            grammar)
        combine: per slot the most frequent value, or the answer with the greatest sum
            of log-likelihoods under all wordings
        early: leave out further wordings where the given wording and the first two
            others agree on a frame
        min_confidence: slots on which fewer wordings agree are uncertain (0 to 1)
        uncertain: list uncertain slots, or empty them too
        unsaid: free values that occur in no turn: keep them, list them, or empty their
            slots too
        familiar: reword the schema in words of the schemas that the run was trained on;
            DIR: data folder of the training (default: $JAXAUG_DATA_DIR, else MiniSGD)
        constrained: restrict answers to the format: categorical slots have one of their
            options
    """

    wordings: Annotated[int, Range(0, MOST)] = 0
    source: Annotated[str, Arg("--wordings_from", metavar="DIR")] = GRAMMAR
    combine: Literal["vote", "likelihood"] = "vote"
    early: bool = False
    min_confidence: Annotated[float, Range(0, 1), Arg(metavar="SHARE")] = 0.0
    uncertain: Literal["mark", "drop"] = "mark"
    unsaid: Literal["keep", "mark", "drop"] = "keep"
    familiar: Annotated[str, Arg(metavar="DIR", nargs="?", const=AUTO)] = ""
    constrained: bool = False

    def __post_init__(self) -> None:
        """Raises `UserError` if an option is out of range or would have no effect."""
        super().__post_init__()
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
