"""Bounds what a server has in hand: so much of something at a time, and a refusal beyond it."""

from collections.abc import Iterator
from contextlib import contextmanager


class BusyError(Exception):
    """There is no room now: ask again later."""


class Capacity:
    """Holds up to `most` of something, such as bytes or pages. For one event loop. what: what the refusal says"""

    def __init__(self, most: int, what: str) -> None:
        self.most = most
        self.used = 0
        self._what = what

    @contextmanager
    def held(self, amount: int) -> Iterator[None]:
        """Hold so much while the block runs. Raises BusyError if that is too much; what exceeds all of it goes alone."""
        self.check(amount)
        self.used += amount
        try:
            yield
        finally:
            self.used -= amount

    def check(self, amount: int) -> None:
        """Raises BusyError if so much more has no room."""
        if self.used and self.used + amount > self.most:
            raise BusyError(f"too much is in hand: {self.used:,} of {self.most:,} {self._what}; ask again in a second")
