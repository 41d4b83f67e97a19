"""Simhash by the letter of the paper (Manku et al. 2007, sec. 2): the reference implementation of the fold."""


def fingerprint_of(features: list[int]) -> int:
    """The sign of each bit's sum of +1 (bit set) and -1; a zero sum gives 0."""
    fingerprint = 0
    for bit in range(64):
        total = sum(1 if feature >> bit & 1 else -1 for feature in features)
        if total > 0:
            fingerprint |= 1 << bit
    return fingerprint
