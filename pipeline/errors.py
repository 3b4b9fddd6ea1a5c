"""The one error that a user is meant to read."""


class AssayError(Exception):
    """A mistake that the user can mend: the value, the place (file, row, key), the fix.

    The command line prints the message alone; every other exception is a defect and keeps
    its traceback.
    """
