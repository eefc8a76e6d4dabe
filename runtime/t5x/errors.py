"""The exception for mistakes of users that the T5X programs find themselves."""

import jaxaug_base.errors


class UserError(jaxaug_base.errors.UserError):
    """Bad input: the message names the value, the rule that it breaks, and the fix.

    A dry run fails at these. Other errors of the base class come from data and models,
    which may be on another machine, so a dry run only names them.
    """
