"""Opens the standard streams that the parent closed (`>&-`): otherwise a file of the state gets their descriptors."""

import os
import sys

_INPUT, _OUTPUT, _ERROR = range(3)


def fill_closed_streams() -> None:
    """Replace each closed standard stream, for which Python has None.

    Reading the new standard input fails, standard output is a pipe without a reader, and standard error is discarded.
    """
    for number in (_INPUT, _OUTPUT, _ERROR):
        try:
            os.fstat(number)
        except OSError:
            _fill(number)


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
