"""The exception type for mistakes that the user can correct."""


class UserError(ValueError):
    """Bad input: the message names the value, the rule it breaks, and the fix.

    Programs print the message without a traceback and exit with a non-zero status.
    Every other exception is a defect of the project and keeps its traceback.
    """
