"""Reports targets that a measurement misses, and makes the measuring command fail."""

import sys

UNMET = "NOT MET"
EXIT_UNMET = 1


def met(good: bool) -> str:
    """The cell of a table for a target."""
    return "met" if good else UNMET


def exit_code(text: str) -> int:
    """EXIT_UNMET if the tables of the text contain a missed target, else 0. Names each one on standard error."""
    missed = [line.strip("| ") for line in text.splitlines() if UNMET in line]
    for line in missed:
        print(f"a target is missed: {line}", file=sys.stderr)
    return EXIT_UNMET if missed else 0
