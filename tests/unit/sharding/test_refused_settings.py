"""Shards take the settings that they keep to, and refuse the others in one line."""

from typing import Any

import pytest

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import IndexSettings, PolicySettings, Rule, Settings
from spotsieve.stream.base.settings.schemes import OnebitSettings, SpotsigsSettings
from spotsieve.stream.judge import KEEP_FIRST
from spotsieve.stream.judge.rules import Limits
from spotsieve.stream.sharding.rounds import limits_in_shards
from spotsieve.stream.sign.schemes.registry import scheme_in_scope


def limits_of(given: dict[str, Any]) -> Limits:
    settings = Settings(**given)
    # One that needs a model of terms cannot be opened here, and the limits ask nothing else of it.
    modelled = isinstance(settings.scheme, SpotsigsSettings)
    return limits_in_shards(settings, scheme_in_scope(Settings() if modelled else settings))


@pytest.mark.parametrize(
    ("given", "name", "then"),
    [
        ({"policy": PolicySettings(recrawl="identical")}, "policy.recrawl", "leave it out"),
        ({"policy": PolicySettings(recrawl="pass")}, "policy.recrawl", "leave it out"),
        ({"index": IndexSettings(scope="domain")}, "index.scope", "choose one of these"),
        (
            {"rules": (Rule(host="a.example", exempt=True), Rule(host="b.example", threshold=0.8))},
            'threshold of rule 2 (host = "b.example")',
            "leave it out",
        ),
        ({"rules": (Rule(host="b.example", scope="host"),)}, 'scope of rule 1 (host = "b.example")', "leave it out"),
        ({"scheme": OnebitSettings(c=2)}, "scheme.c", "set scheme.c = 1"),
        ({"scheme": OnebitSettings(r=0.5)}, "scheme.c", "set scheme.c = 1 or raise scheme.r"),
        ({"scheme": SpotsigsSettings()}, "scheme.c", "set scheme.c = 1 or raise scheme.tau"),
    ],
)
def test_what_shards_do_not_keep_to_is_refused(given: dict[str, Any], name: str, then: str) -> None:
    with pytest.raises(SettingError) as refused:
        limits_of(given)
    assert refused.value.name == name
    assert refused.value.next_step.startswith(then)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"index": IndexSettings(scope="host"), "rules": (Rule(host="a.example", exempt=True),)},
        {"scheme": OnebitSettings(c=1)},
        {"policy": PolicySettings(variants="keep")},
    ],
)
def test_what_shards_keep_to_is_taken(given: dict[str, Any]) -> None:
    scheme = scheme_in_scope(Settings(**given))
    assert limits_of(given) == Limits(IndexSettings().bucket_cap, scheme.candidate_limit, KEEP_FIRST)


def test_limits_are_those_of_the_settings() -> None:
    index, policy = IndexSettings(bucket_cap=100, candidate_limit=9), PolicySettings(keep="longest", longer_by=1.5)
    assert limits_of({"index": index, "policy": policy}) == Limits(100, 9, 1.5)
