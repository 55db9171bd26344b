"""The error that traffic raises for a person to read."""


class TrafficError(ValueError):
    """A sentence: what was wrong, where, and what would be accepted."""
