"""Collects what a walk over a state finds: damaged places, notices, and how much was looked at."""

from collections import Counter
from dataclasses import dataclass, field

from spotsieve.stream.errors import SpotsieveError


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged place. place: store and key in hex, or file and offset  rule: what must hold there"""

    place: str
    rule: str


@dataclass(slots=True)
class Findings:
    """What a walk found. shown: how many damages are kept in words; all are counted

    notices: what is no damage, but a person should know  checked: how much was looked at, by kind
    log_damaged: how many of the damages are of the local log
    part: which shard the state is of, "" where it is of one process
    """

    shown: int
    damages: list[Damage] = field(default_factory=list)
    damaged: int = 0
    log_damaged: int = 0
    notices: list[str] = field(default_factory=list)
    log: str = ""
    part: str = ""
    log_position: int = 0
    checked: Counter[str] = field(default_factory=Counter)

    def add(self, place: str, rule: str) -> None:
        """Count a damage, and keep it if it is one of the first."""
        self.damaged += 1
        if len(self.damages) < self.shown:
            self.damages.append(Damage(place, rule))

    def add_error(self, error: SpotsieveError) -> None:
        """Count a damage that reading has found."""
        self.add(error.name, error.rule)
