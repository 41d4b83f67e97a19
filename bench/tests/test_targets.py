"""A measuring command fails if a target is missed, and names the target."""

import pytest

from bench.targets import EXIT_UNMET, exit_code, met


def test_a_missed_target_is_named_and_fails_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"| shards | {figure} | <= 1.3 | {met(figure <= 1.3)} |" for figure in (1.5, 1.2)]
    assert exit_code("\n".join(["# Title", *rows])) == EXIT_UNMET
    assert capsys.readouterr().err == "a target is missed: shards | 1.5 | <= 1.3 | NOT MET\n"
    assert exit_code(rows[1]) == 0
    assert capsys.readouterr().err == ""
