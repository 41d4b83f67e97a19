"""Says by which limits a round is judged, and refuses settings that shards and a resolver do not keep to.

Addresses decide nothing here: of a page that another shard holds, an answer does not tell the address in time. And a
shard that sees some of a page's keys cannot count how many of all a candidate shares.
"""

from spotsieve.stream.errors import SettingError
from spotsieve.stream.judge.policy import policy_of
from spotsieve.stream.judge.rules import Limits
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.schemes.by_address.rules import rule_name
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.schemes import OnebitSettings, SpotsigsSettings

_ONE_PROCESS = "or judge in one process (cluster.shards = 0; spotsieve filter), which has no such limit"


def limits_in_shards(settings: Settings, scheme: Scheme) -> Limits:
    """The limits of a round, with the scheme's own candidate limit where index.candidate_limit is 0.

    scheme: as of scheme_in_scope(settings). Raises SettingError for what only one process keeps to: policy.recrawl,
    policy.keep by time or rank, index.scope = domain, rules with a threshold or a scope, and a scheme whose candidates
    must share several keys.
    """
    index, policy = settings.index, settings.policy
    if policy.recrawl != "drop":
        raise SettingError("policy.recrawl", "must be drop in shards", policy.recrawl, f"leave it out, {_ONE_PROCESS}")
    if index.scope == "domain":
        raise SettingError(
            "index.scope", "must be global or host in shards", index.scope, f"choose one of these, {_ONE_PROCESS}"
        )
    if policy.keep not in ("first", "longest"):
        then = f"choose one of these, {_ONE_PROCESS}"
        raise SettingError("policy.keep", "must be first or longest in shards", policy.keep, then)
    for number, rule in enumerate(settings.rules):
        for name, value in (("threshold", rule.threshold), ("scope", rule.scope or None)):
            if value is not None:
                named = f"{name} of {rule_name(number, rule)}"
                then = f"leave it out (exempt alone is kept to), {_ONE_PROCESS}"
                raise SettingError(named, "must not be given in shards", value, then)
    if isinstance(settings.scheme, OnebitSettings | SpotsigsSettings) and settings.scheme.least_shared > 1:
        least = settings.scheme.least_shared
        then = f"set scheme.c = 1 or raise scheme.{settings.scheme.threshold.setting}, {_ONE_PROCESS}"
        raise SettingError("scheme.c", "must stand for 1 in shards", least, then)
    return Limits(index.bucket_cap, index.candidate_limit or scheme.candidate_limit, policy_of(settings).longer_by)
