"""What a page is worth, one page at a time, with ranks read by struct. Reference for stream/judge/policy.py."""

import math
import struct

from spotsieve.stream.base.signature import Signatures, SignatureStatus
from spotsieve.stream.judge.policy import Preference


def preference_of(signatures: Signatures, index: int, by: int) -> float:
    """What a page is worth; -inf where it has no rank."""
    if by == Preference.LENGTH:
        return float(signatures.feature_count[index])
    if by == Preference.TIME:
        return float(signatures.event_time_ms[index])
    rank = rank_of(int(signatures.rank[index]))
    if rank is None:
        return -math.inf
    return rank if by == Preference.RANK else -rank


def is_better(page: float, other: float, status: SignatureStatus, by: int, longer_by: float) -> bool:
    """Whether a page is worth so much more than another that it is a copy of that it replaces it."""
    if longer_by == math.inf or (by != Preference.LENGTH and status is not SignatureStatus.FINGERPRINTED):
        return False
    return page > longer_by * other


def rank_of(word: int) -> float | None:
    """The rank that a word stands for."""
    if word == 0:
        return None
    bits = word - 2**63 if word >= 2**63 else 2**64 - 1 - word
    (rank,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    return float(rank)
