"""The exception for mistakes of users; the T5X programs and jaxaug share it."""

from jaxaug_base.errors import UserError

__all__ = ["UserError"]
