"""Says whether a target is met, and fails the command that has measured one that is not."""

import sys

UNMET = "NOT MET"
EXIT_UNMET = 1


def met(good: bool) -> str:
    """What a table says of a target."""
    return "met" if good else UNMET


def exit_code(text: str) -> int:
    """EXIT_UNMET where the tables of a text have a target that is not met, and name each on standard error; else 0."""
    missed = [line.strip("| ") for line in text.splitlines() if UNMET in line]
    for line in missed:
        print(f"a target is missed: {line}", file=sys.stderr)
    return EXIT_UNMET if missed else 0
