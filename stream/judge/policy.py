"""What the settings ask of the judge beside its scheme: which copy is kept, and what a page fetched again is."""

import math
from typing import NamedTuple

from spotsieve.stream.settings.model import PolicySettings
from spotsieve.stream.verdict import FoundBy

KEEP_FIRST = math.inf
"""The `longer_by` with which no page replaces another: the first is kept."""
ANY_KIND = 255
"""All kinds of keys (FoundBy), and those to come."""
_SAME_ADDRESS = {"drop": ANY_KIND, "identical": int(FoundBy.BODY | FoundBy.ADDRESS), "pass": 0}


class Policy(NamedTuple):
    """longer_by: a copy with more than so many times the features of what it copies replaces it
    same_address: the kinds of decisive keys (FoundBy) under which a page is a copy of one of its own address; ANY_KIND:
    an address makes no difference
    """

    longer_by: float = KEEP_FIRST
    same_address: int = ANY_KIND


PLAIN = Policy()
"""The first copy is kept, and addresses make no difference."""


def policy_of(settings: PolicySettings) -> Policy:
    """What [policy] asks of the judge."""
    return Policy(settings.longer_by if settings.keep == "longest" else KEEP_FIRST, _SAME_ADDRESS[settings.recrawl])
