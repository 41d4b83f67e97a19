"""Roles that do not fit the settings are refused in one line, before anything is opened."""

import pytest

from spotsieve.stream.base.errors import EXIT_SETTING, SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli.run import opener_of


def of(**more: object) -> Settings:
    return Settings.model_validate({"cluster": {"shards": 3}, **more})


@pytest.mark.parametrize(
    ("role", "shard", "settings", "message"),
    [
        ("worker", None, Settings(), "--role needs cluster.shards, which is not set, got 'worker'; set"),
        ("", None, of(), "--role is missing, but cluster.shards is 3; give worker, shard or resolver"),
        ("shard", 3, of(), "--shard must be 0 to 2 with --role shard, and must be omitted for other roles, got 3"),
        ("shard", -1, of(), "--shard must be 0 to 2"),
        ("shard", None, of(), "--shard must be 0 to 2"),
        ("resolver", 0, of(), "--shard must be 0 to 2"),
        ("worker", None, of(policy={"recrawl": "pass"}), "policy.recrawl must be drop in shards"),
    ],
)
def test_a_role_that_does_not_fit_is_refused(role: str, shard: int | None, settings: Settings, message: str) -> None:
    with pytest.raises(SettingError) as refused:
        opener_of(role, shard, settings)
    assert str(refused.value).startswith(message)
    assert refused.value.exit_code == EXIT_SETTING


def test_roles_are_opened_by_what_opens_them() -> None:
    openers = [opener_of(role, shard, of()) for role, shard in (("worker", None), ("resolver", None), ("shard", 0))]
    assert len({*openers, opener_of("", None, Settings())}) == 4
