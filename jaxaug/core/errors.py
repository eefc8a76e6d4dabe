"""The one exception type for mistakes that the user can mend."""


class UserError(ValueError):
    """Bad input: the message names the value, the rule it breaks and the fix.

    Programs print the message alone and exit with a non-zero status; every other
    exception is a defect of ours and keeps its traceback. The attribute
    `user_error` marks it for programs (`python -m t5x.train`) that cannot import
    this class.
    """

    user_error = True
