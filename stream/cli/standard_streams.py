"""Fills the standard streams that our parent closed, as `>&-` does: a file of the state would take their numbers."""

import os
import sys

_INPUT, _OUTPUT, _ERROR = range(3)


def fill_closed_streams() -> None:
    """Put something where a standard stream is closed; Python has None there.

    Standard input then cannot be read, standard output is one that nobody reads any more, and errors go nowhere.
    """
    for number in (_INPUT, _OUTPUT, _ERROR):
        try:
            os.fstat(number)
        except OSError:
            _fill(number)


def _fill(number: int) -> None:
    """All lower numbers are open, so this one is the next that the system gives."""
    if number == _OUTPUT:
        _, writer = os.pipe()
        os.dup2(writer, number)  # It takes the place of the other end, which is closed by that.
        os.close(writer)
        sys.stdout = open(number, "w", closefd=False)  # noqa: SIM115  it lasts as long as the process
        return
    os.open(os.devnull, os.O_WRONLY)
    os.set_inheritable(number, True)
    if number == _INPUT:
        sys.stdin = open(number, closefd=False)  # noqa: SIM115  it lasts as long as the process
    else:
        sys.stderr = open(number, "w", closefd=False)  # noqa: SIM115  it lasts as long as the process
