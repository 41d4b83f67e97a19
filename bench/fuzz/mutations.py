"""Mutates a valid input: cut it, duplicate it, splice it, or insert pieces of its grammar."""

import random
from collections.abc import Sequence

MOST_STEPS = 6
MOST_BYTES = 12_000


def mutated(chosen: random.Random, seeds: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    """One of the seeds, or a sequence of pieces, after a few mutations; at most MOST_BYTES."""
    data = bytearray(chosen.choice(seeds) if chosen.random() < 0.8 else b"".join(chosen.choices(pieces, k=12)))
    for _ in range(chosen.randint(1, MOST_STEPS)):
        start = chosen.randint(0, len(data))
        end = chosen.randint(start, min(len(data), start + 200))
        match chosen.randint(0, 6):
            case 0:
                del data[start:end]
            case 1:
                data[start:start] = chosen.choice(pieces)
            case 2:
                data[start:end] = chosen.choice(pieces)
            case 3:
                data[start:start] = data[start:end] * chosen.randint(1, 4)
            case 4 if data:
                data[min(start, len(data) - 1)] ^= 1 << chosen.randint(0, 7)
            case 5:
                other = chosen.choice(seeds)
                place = chosen.randint(0, len(other))
                data[start:end] = other[place : place + 400]
            case _:
                data[start:start] = chosen.randbytes(chosen.randint(1, 8))
    return bytes(data[:MOST_BYTES])
