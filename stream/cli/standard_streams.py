"""The standard streams of a command: opens those that the parent closed, and says whether someone reads the output."""

import os
import stat
import sys
from pathlib import Path
from typing import TextIO

_INPUT, _OUTPUT, _ERROR = range(3)


def fill_closed_streams() -> None:
    """Replace each closed standard stream (`>&-`): otherwise a file of the state would get its descriptor.

    Reading the new standard input fails, standard output is a pipe without a reader, and standard error is discarded.
    """
    for number in (_INPUT, _OUTPUT, _ERROR):
        try:
            os.fstat(number)
        except OSError:
            _fill(number)


def has_reader(stream: TextIO) -> bool:
    """Whether a file or a program gets the bytes of a stream: it is neither a terminal nor the null device."""
    if stream.isatty():
        return False
    try:
        found = os.fstat(stream.fileno())
    except OSError:
        return True  # A stream in memory, which a Python program reads.
    return not (stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev)


def _fill(number: int) -> None:
    """Open the descriptor `number`: the lowest free one, because all lower ones are open."""
    if number == _OUTPUT:
        _, writer = os.pipe()
        os.dup2(writer, number)  # This closes the reader, which has this number.
        os.close(writer)
        sys.stdout = open(number, "w", closefd=False)  # noqa: SIM115  open as long as the process
        return
    os.open(os.devnull, os.O_WRONLY)
    os.set_inheritable(number, True)
    if number == _INPUT:
        sys.stdin = open(number, closefd=False)  # noqa: SIM115  open as long as the process
    else:
        sys.stderr = open(number, "w", closefd=False)  # noqa: SIM115  open as long as the process
