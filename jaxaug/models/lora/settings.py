"""Settings of an adapter: rank, scale, dropout, and targets."""

import dataclasses
import math
import re
from collections.abc import Sequence

from jaxaug.core.errors import UserError

ALL_LINEAR = "all-linear"
_HIGHEST_RANK = 4096

Targets = str | Sequence[str] | None


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of an adapter, with the same meaning as in `peft`.

    Attributes:
        alpha: the product of A and B is multiplied by `alpha / rank`.
        targets: linear maps by their names in the published model. Either the last
            parts of their names ("q_proj"), one regular expression for full names, or
            "all-linear": all but the output layer. None means the defaults of `peft`
            for the family.
        rank_stabilized: whether the factor is `alpha / sqrt(rank)` instead
            (Kalajdzievski, 2023).

    Raises:
        UserError: a value is invalid.
    """

    rank: int = 8
    alpha: float = 16.0
    targets: Targets = None
    dropout: float = 0.0
    rank_stabilized: bool = False

    def __post_init__(self) -> None:
        rank, alpha, dropout = self.rank, self.alpha, self.dropout
        whole = isinstance(rank, int) and not isinstance(rank, bool)
        if not whole or not 1 <= rank <= _HIGHEST_RANK:
            raise UserError(
                f"the rank of an adapter is {rank!r}: give a whole number from 1 to "
                f"{_HIGHEST_RANK}, such as 8."
            )
        if type(alpha) not in (int, float) or not 0 < alpha < math.inf:
            raise UserError(
                f"alpha of an adapter is {alpha!r}: give a number above 0, such as "
                f"{2 * rank}."
            )
        if type(dropout) not in (int, float) or not 0 <= dropout < 1:
            raise UserError(
                f"dropout of an adapter is {dropout!r}: give a share from 0 to below 1."
            )
        if not isinstance(self.rank_stabilized, bool):
            raise UserError(
                "rank_stabilized (use_rslora) of an adapter is "
                f"{self.rank_stabilized!r}: give True or False."
            )
        targets = self.targets
        if targets is not None and not isinstance(targets, str):
            named = all(isinstance(target, str) and target for target in targets)
            if not targets or not named:
                raise UserError(
                    f"targets of an adapter are {targets!r}: give names of linear maps "
                    f"such as ['q_proj', 'v_proj'], or {ALL_LINEAR!r}."
                )
            object.__setattr__(self, "targets", tuple(targets))

    @property
    def scale(self) -> float:
        """Factor of the product of A and B."""
        root = math.sqrt(self.rank) if self.rank_stabilized else self.rank
        return self.alpha / root

    def takes(self, name: str) -> bool:
        """Returns whether the adapter changes the linear map with this full name."""
        targets = self.targets
        if targets == ALL_LINEAR:
            return True
        if isinstance(targets, str):
            return re.fullmatch(targets, name) is not None
        return any(name == t or name.endswith(f".{t}") for t in targets or ())
