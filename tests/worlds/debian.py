"""Programs of Debian packages that some tests need, and the report of missing ones at the end of a run."""

import re
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest

REASON = re.compile(r"needs Debian's ([a-z0-9.+-]+), for ")


def needs_debian(package: str, program: str) -> str:
    """The path of a program. Without it the test is skipped, with a reason that names the package."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs Debian's {package}, for {program}")
    return found


def said_of_skipped(reasons: Iterable[str]) -> list[str]:
    """The lines for the end of a run: tests skipped by missing package, and the command that installs all of them."""
    wanted: Counter[str] = Counter()
    for reason in reasons:
        if match := REASON.search(reason):
            wanted[match[1]] += 1
    if not wanted:
        return []
    return [
        *(
            f"{count} test{'s' * (count > 1)} skipped for want of Debian's {package}"
            for package, count in sorted(wanted.items())
        ),
        f"install with: apt-get install --no-install-recommends {' '.join(sorted(wanted))}",
    ]
