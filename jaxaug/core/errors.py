"""The exception for mistakes that the user can mend; the T5X programs and jaxaug share it."""

from jaxaug_base.errors import UserError

__all__ = ["UserError"]
