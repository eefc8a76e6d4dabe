"""The exception for mistakes that the user of a T5X program can mend."""


class UserError(ValueError):
    """Bad input: the message names the value, the rule it breaks and the fix.

    `python -m t5x.train` and its siblings print the message alone and exit with
    status 1; every other exception keeps its traceback. Programs look at the
    attribute `user_error`, so that packages which do not import t5x can mark
    their own exceptions in the same way.
    """

    user_error = True
