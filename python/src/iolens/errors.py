"""The exception of this package."""


class IolensError(Exception):
    """The problem, the place and the remedy, in one line."""
