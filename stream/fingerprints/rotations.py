"""Makes the keys of rotated fingerprints (Roul et al., fig. 1, step 5).

The paper rotates all fingerprints of a batch by one bit, sorts them and compares neighbours, 64 times. Here a
fingerprint is filed under the b leading bits of each of its 64 rotations: two fingerprints meet if they agree on a run
of b bits somewhere around the circle. Each form finds pairs that the other does not; bench/papers/rotations.py
has the paper's form and says how the two relate.
"""

import numpy as np
from numpy.typing import NDArray

BITS = 64
_ALL = np.arange(BITS, dtype=np.uint64)


def rotations(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64[n] -> uint64[n, 64]: column r is the fingerprint turned left by r bits."""
    one = fingerprints[:, None]
    return one << _ALL | one >> (np.uint64(BITS) - _ALL) % np.uint64(BITS)


def rotation_keys(fingerprints: NDArray[np.uint64], leading_bits: int) -> NDArray[np.uint64]:
    """uint64[n] -> uint64[n, 64]: the leading bits, 1 to 64, of each rotation."""
    return rotations(fingerprints) >> np.uint64(BITS - leading_bits)
