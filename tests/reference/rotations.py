"""Rotates fingerprints by the letter of Roul et al., fig. 1, step 5. Reference for bench.papers.rotations."""

from collections.abc import Sequence

MASK = 2**64 - 1


def pairs_of_neighbours(fingerprints: Sequence[int], window: int, leading_bits: int) -> set[tuple[int, int]]:
    """Rotate all by one bit, sort, take neighbours: 64 times. Only those that agree on the leading bits."""
    textual, found = list(fingerprints), set()
    for _ in range(64):
        textual = [(one << 1 | one >> 63) & MASK for one in textual]
        order = sorted(range(len(textual)), key=lambda page: (textual[page], page))
        for place, page in enumerate(order):
            for other in order[place + 1 : place + 1 + window]:
                if (textual[page] ^ textual[other]) >> 64 - leading_bits == 0:
                    found.add((min(page, other), max(page, other)))
    return found


def pairs_that_meet(fingerprints: Sequence[int], bits: int) -> set[tuple[int, int]]:
    """Pairs that agree on this many bits in a row, around the circle."""
    found = set()
    for later, one in enumerate(fingerprints):
        for earlier, other in enumerate(fingerprints[:later]):
            agreed = f"{(one ^ other) ^ MASK:064b}"
            if "1" * bits in agreed + agreed[: bits - 1]:
                found.add((earlier, later))
    return found
