"""The table of supported versions in docs/operations.md is what pip, the driver, the lock and our brokers say."""

import re
import tomllib
from typing import Any

import pytest

from spotsieve.stream.demo.localkafka.jars import CLASSIC_VERSION, KAFKA_VERSION, RELEASES
from spotsieve.stream.kafka.driver.patches import TESTED
from tests.conftest import REPOSITORY

PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


def section() -> str:
    text = (REPOSITORY / "docs" / "operations.md").read_text("utf-8")
    return text.partition("\n## Versions and compatibility\n")[2]


def row(part: str) -> tuple[str, str]:
    """What is supported, and what was tested."""
    (found,) = re.findall(rf"^\| {part} \| (.*?) \| (.*?) \|", section(), re.MULTILINE)
    supported, tested = found
    return supported, tested


def versions(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)+", text)


def test_python_versions_are_those_of_the_package() -> None:
    supported, tested = row("Python")
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert versions(supported) == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert set(versions(tested)) <= set(named)
    assert (REPOSITORY / "uv.lock").read_text("utf-8").count(f'requires-python = ">={named[0]}"') == 1


def test_aiokafka_versions_are_those_of_the_package_the_driver_and_the_lock() -> None:
    supported, tested = row("aiokafka")
    (needed,) = [one.removeprefix("aiokafka") for one in PROJECT["dependencies"] if one.startswith("aiokafka")]
    assert supported == needed == TESTED
    (locked,) = re.findall(r'name = "aiokafka"\nversion = "(.*?)"', (REPOSITORY / "uv.lock").read_text("utf-8"))
    assert versions(tested) == [locked]


def test_kafka_versions_are_those_of_the_brokers_in_our_tests() -> None:
    supported, tested = row("Kafka brokers")
    assert set(versions(re.sub(r"\[.*?\]", "", tested))) == set(RELEASES)
    assert versions(tested)[:2] == [KAFKA_VERSION, CLASSIC_VERSION], "the newest has all tests"
    measured = (REPOSITORY / "docs" / "measured" / "kafka39.md").read_text("utf-8")
    assert f"Kafka {CLASSIC_VERSION}" in measured
    assert [version for version in RELEASES if not _is_of(version, supported)] == []


def _is_of(version: str, supported: str) -> bool:
    major, minor, *_ = version.split(".")
    return f"{major}.{minor}" in supported or f"{major}.x" in supported


@pytest.mark.parametrize(
    "what", ["verdicts", "stored formats", "settings, commands, exit codes", "metrics", "public names"]
)
def test_the_policy_says_what_a_patch_and_a_minor_release_may_change(what: str) -> None:
    (line,) = [line for line in section().splitlines() if line.startswith(f"| {what}")]
    _, _, patch, minor, _ = (cell.strip() for cell in line.split("|"))
    assert re.match(r"unchanged|additions only", patch)
    assert "may change" in minor or "as for settings" in minor or "only after one minor release" in minor
