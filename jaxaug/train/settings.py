"""What the settings of networks have in common."""

from collections.abc import Sequence
from typing import Any

from jaxaug.core.errors import UserError


def check(settings: Any, whole: Sequence[str]) -> None:
    """Checks `dropout_rate`, `learning_rate` and some counts.

    Args:
      settings: a dataclass.
      whole: names of its fields that are 1 at least.

    Raises:
      UserError: a number cannot be.
    """
    for name in whole:
        if getattr(settings, name) < 1:
            raise UserError(f"{name}={getattr(settings, name)}: give at least 1.")
    if not 0 <= settings.dropout_rate < 1:
        raise UserError(
            f"dropout_rate={settings.dropout_rate}: give a number from 0 to below 1."
        )
    if settings.learning_rate <= 0:
        raise UserError(
            f"learning_rate={settings.learning_rate}: give a number above 0."
        )
