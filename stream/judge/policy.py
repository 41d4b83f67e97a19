"""What the settings ask of the judge beside its scheme: which copy is kept, and what a page fetched again is."""

import math
from typing import NamedTuple

from spotsieve.stream.judge.worth import Preference
from spotsieve.stream.schemes.by_address.rules import PageRules, page_rules
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.verdict import KeyKind

KEEP_FIRST = math.inf
"""The `longer_by` with which no page replaces another: the first is kept."""
ANY_BETTER = 1.0
"""The `longer_by` with which a page replaces any that is worth less."""
ANY_KIND = 255
"""All kinds of keys (KeyKind), and those to come."""
_WORTH = {"newest": Preference.TIME, "highest": Preference.RANK, "lowest": Preference.LOW_RANK}
_SAME_ADDRESS = {"drop": ANY_KIND, "identical": int(KeyKind.BODY | KeyKind.ADDRESS), "pass": 0}


class Policy(NamedTuple):
    """longer_by: a copy that is worth more than so many times what it is a copy of replaces it
    same_url: the kinds of decisive keys (KeyKind) under which a page is a copy of one of its own address; ANY_KIND:
    an address makes no difference
    rules: what the settings say of pages by their addresses; None: nothing
    preference: what pages are worth (Worth): their features, unless the settings keep pages by something else
    """

    longer_by: float = KEEP_FIRST
    same_url: int = ANY_KIND
    rules: PageRules | None = None
    preference: int = int(Preference.LENGTH)


PLAIN = Policy()
"""The first copy is kept, and addresses make no difference."""


def policy_of(settings: Settings) -> Policy:
    """What [policy] and [[rules]] ask of the judge. Raises SettingError for rules that contradict."""
    policy = settings.policy
    preference = _WORTH.get(policy.keep, Preference.LENGTH)
    longer_by = {"first": KEEP_FIRST, "longest": policy.longer_by}.get(policy.keep, ANY_BETTER)
    return Policy(longer_by, _SAME_ADDRESS[policy.recrawl], page_rules(settings), int(preference))
