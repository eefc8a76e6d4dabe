"""The one exception type for mistakes that the user can mend."""


class UserError(ValueError):
    """Bad input: the message names the value, the rule it breaks and the fix.

    Programs print the message alone and exit with a non-zero status. Every other
    exception is a defect of ours and keeps its traceback.
    """
