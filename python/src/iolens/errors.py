"""The package's one kind of error."""


class IolensError(Exception):
    """What is wrong, where, and what to do, in one line."""
