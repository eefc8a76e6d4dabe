"""The exception for mistakes of users; the error of the T5X programs is a subclass."""

from jaxaug_base.errors import UserError

__all__ = ["UserError"]
