"""Scans plain text to token hashes and blocks: a blank line ends a block."""

import numpy as np

from spotsieve.stream.jit import part
from spotsieve.stream.text.html.elements import LEAD_PLAIN
from spotsieve.stream.text.html.skips import find_byte
from spotsieve.stream.text.machine import slots
from spotsieve.stream.text.machine.memory import byte_at, put_int
from spotsieve.stream.text.words import close_word, end_block, spell


@part
def scan_plain(state, start, end):  # int64, int64, int64 -> None
    """Plain text: a blank line (nothing but blanks and control characters) parts blocks."""
    put_int(state + slots.LEAD, np.int64(LEAD_PLAIN))
    line = start
    while line < end:
        line_end = find_byte(line, end, np.uint8(10))
        blank = True
        for position in range(line, line_end):
            if byte_at(position) > 32:
                blank = False
                break
        if blank:
            end_block(state)
        else:
            spell(state, line, line_end, slots.RAW)
            close_word(state)
        line = line_end + 1
    end_block(state)
