"""Settings of an adapter: rank, scale, dropout, and targets."""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Annotated

from jaxaug.core.errors import UserError
from jaxaug.core.ranges import Range
from jaxaug.core.typed import check

ALL_LINEAR = "all-linear"

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

    rank: Annotated[int, Range(1, 4096)] = 8
    alpha: Annotated[float, Range(0, above=True)] = 16.0
    targets: Targets = None
    dropout: Annotated[float, Range(0, 0.999)] = 0.0
    rank_stabilized: bool = False

    def __post_init__(self) -> None:
        check(vars(self), Settings, "adapter")
        targets = self.targets
        if targets is not None and not isinstance(targets, str):
            if not targets or not all(targets):
                raise UserError(
                    f"adapter: targets={targets!r}: give names of linear maps such as "
                    f"['q_proj', 'v_proj'], or {ALL_LINEAR!r}."
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
