"""Everyday changes of ARCHITECTURE.md: a place that such a change forgets is named by a test.

Other tests name the rest: tests/unit/judge/test_reasons.py, tests/properties/test_file_formats.py,
tests/unit/deploy/test_deploy_monitoring.py and those in the table of ARCHITECTURE.md.
"""

import importlib
import pkgutil
import re
from functools import cache
from typing import Any, Literal, get_args, get_origin

import pytest

from spotsieve.stream import cli, files
from spotsieve.stream.base.errors import REJECTIONS, RejectReason
from spotsieve.stream.base.settings import schemes
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.section import Section, leaf_settings
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.cli import COMMANDS, state
from spotsieve.stream.files.file_format import FileFormat, InputFormat
from spotsieve.stream.files.formats import FORMATS
from spotsieve.stream.judge import policy_of
from spotsieve.stream.judge.by_host import criteria
from spotsieve.stream.judge.by_host.containment import PARTS
from tests.conftest import REPOSITORY
from tests.fixtures.source_tree import tracked

GUIDE = REPOSITORY / "docs" / "guide.md"
PAIRS = REPOSITORY / "stream" / "judge" / "by_host" / "pairs.py"
SETTINGS = "stream/base/settings/"
METRICS = "stream/observe/metrics.py"
READ_FROM_THE_STATE = {"index.domain_list"}
"""Settings that exist only to bind a state to a value: the digest reads them, and no other code does."""
CLIENT_VALUES = {"SASL_PLAINTEXT", "SASL_SSL", "SCRAM-SHA-256", "SCRAM-SHA-512"}
"""Values that the Kafka client handles."""
OF_TESTS = ("tests.", "bench.")


@cache
def product_code() -> dict[str, str]:
    """The product's files, by their paths."""
    return {
        path.relative_to(REPOSITORY).as_posix(): path.read_text("utf-8")
        for path in tracked("stream/*.py", "state/*.py")
    }


def code_outside(*prefixes: str) -> str:
    return "\n".join(text for name, text in product_code().items() if not name.startswith(prefixes))


def named_thresholds() -> dict[int, str]:
    """The names of the thresholds by their numbers: the group at the top of stream/judge/by_host/criteria.py."""
    text = product_code()["stream/judge/by_host/criteria.py"]
    groups = re.findall(r"^([A-Z_, ]+) = range\((\d+)\)$", text, re.MULTILINE)
    names = [name.strip() for group, _ in groups for name in group.split(",")]
    return {getattr(criteria, name): name for name in names}


def test_every_threshold_has_a_number_of_its_own_below_their_count() -> None:
    wrong = "set PART_FIRST and CRITERIA in stream/judge/by_host/criteria.py to the counts of thresholds"
    assert sorted(named_thresholds()) == list(range(criteria.PART_FIRST)), wrong
    assert criteria.PART_FIRST + 2 * PARTS == criteria.CRITERIA, wrong


def test_every_threshold_is_described_for_explanations() -> None:
    missing = sorted({*range(criteria.CRITERIA)} - {*criteria.ABOUT})
    assert missing == [], "describe it in ABOUT of stream/judge/by_host/criteria.py"
    assert len(criteria.PART_NAMES) == PARTS, "name the part in PART_NAMES of stream/judge/by_host/criteria.py"
    names = [info.name for info in criteria.ABOUT.values()]
    assert len({*names}) == len(names)


def test_every_threshold_is_tested_by_the_rule_for_two_pages() -> None:
    tested = set(re.findall(r"result\.values\[criteria\.(\w+), 1\]", PAIRS.read_text("utf-8")))
    missing = sorted(set(named_thresholds().values()) - tested)
    assert missing == [], "record it in stream/judge/by_host/pairs.py"


def test_every_verdict_reason_is_given_by_code() -> None:
    text = code_outside("stream/base/verdict.py")
    sources = ("Reason", "SignatureStatus", "FilterReason")  # The judge copies the last two.
    missing = [reason.name for reason in Reason if not any(f"{source}.{reason.name}" in text for source in sources)]
    assert missing == [], "no code gives this reason: name it in stream/judge or stream/sign"


def test_every_reject_reason_is_explained() -> None:
    missing = [reason.name for reason in RejectReason if reason not in REJECTIONS]
    assert missing == [], "explain it in REJECTIONS of stream/base/errors.py"


def test_the_guide_has_the_table_of_reject_reasons() -> None:
    rows = [f"| `{reason.value}` | {row.meaning} |" for reason, row in REJECTIONS.items()]
    missing = [row for row in rows if row not in GUIDE.read_text("utf-8").splitlines()]
    assert missing == [], "add the row to docs/guide.md"


def test_every_reject_reason_is_raised_by_code() -> None:
    text = code_outside("stream/base/errors.py")
    missing = [reason.name for reason in RejectReason if f"RejectReason.{reason.name}" not in text]
    assert missing == [], "no code raises this reason: name it in stream/sign/intake, stream/files or stream/local"


def test_every_settings_class_of_a_scheme_is_in_the_union() -> None:
    for module in pkgutil.iter_modules(schemes.__path__):
        importlib.import_module(f"{schemes.__name__}.{module.name}")
    named = {
        one for one in subclasses(Section) if one.__module__.startswith(schemes.__name__) and "name" in one.model_fields
    }
    missing = {one.__name__ for one in named} - {one.__name__ for one in schemes.SCHEME_SETTINGS.values()}
    assert missing == set(), "add it to SchemeSettings in stream/base/settings/schemes/__init__.py"


def test_every_metric_is_counted_by_code() -> None:
    text = product_code()[METRICS]
    names = re.findall(r"self\.([a-z]\w*) = (?:self\._counter|self\._gauge|Histogram|ArrayHistogram|Info)\(", text)
    others = code_outside(METRICS)
    missing = [
        name
        for name in names
        if not re.search(rf"\.{name}\b", others) and len(re.findall(rf"self\.{name}\b", text)) < 2
    ]
    assert names
    assert missing == [], "no code counts this metric: count it where the event happens"


def format_classes() -> set[type[Any]]:
    """The formats that modules of stream/files define, by their public classes."""
    for module in pkgutil.walk_packages(files.__path__, f"{files.__name__}."):
        importlib.import_module(module.name)
    return {one for one in subclasses(InputFormat) if one is not FileFormat and not one.__module__.startswith(OF_TESTS)}


def subclasses(parent: type[Any]) -> set[type[Any]]:
    return {found for child in parent.__subclasses__() for found in (child, *subclasses(child))}


def test_every_file_format_is_registered() -> None:
    missing = {one.__name__ for one in format_classes()} - {type(one).__name__ for one in FORMATS}
    assert missing == set(), "put the format into FORMATS of stream/files/formats.py"


def test_every_module_of_a_command_is_in_the_table_of_commands() -> None:
    found = []
    for module in pkgutil.iter_modules(cli.__path__):
        name = f"{module.name}/__init__.py" if module.ispkg else f"{module.name}.py"
        code = (REPOSITORY / "stream" / "cli" / name).read_text("utf-8")
        if re.search(r"^def run\(", code, re.MULTILINE) and re.search(r"^def add_arguments\(", code, re.MULTILINE):
            found.append(module.name)
    known = {*COMMANDS, *state.COMMANDS}
    assert sorted(set(found) - known) == [], "put the command into COMMANDS of stream/cli/__init__.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_module_with_its_arguments(command: str) -> None:
    module = importlib.import_module(f"spotsieve.stream.cli.{command}")
    missing = [name for name in ("add_arguments", "run") if not hasattr(module, name)]
    assert missing == [], f"stream/cli/{command}.py lacks them"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_a_document(command: str) -> None:
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
    named = re.compile(rf"spotsieve {command}\b")
    assert any(named.search(page.read_text("utf-8")) for page in pages), "add the command to a page of docs/"


def settings_of_all() -> dict[str, Any]:
    return {".".join(path): field for path, field in leaf_settings(Settings)}


def test_every_setting_is_read_by_code() -> None:
    text = code_outside(SETTINGS)
    missing = [name for name in settings_of_all() if not re.search(rf'[."]{name.rpartition(".")[2]}\b', text)]
    assert sorted(set(missing) - READ_FROM_THE_STATE) == [], "no code outside stream/base/settings reads this setting"


def test_every_value_of_a_setting_is_handled_by_code() -> None:
    text = code_outside(SETTINGS)
    values = [
        (name, value, field.default)
        for name, field in settings_of_all().items()
        if get_origin(field.annotation) is Literal
        for value in get_args(field.annotation)
    ]
    missing = [f"{name} = {value}" for name, value, default in values if value != default and f'"{value}"' not in text]
    assert [one for one in missing if one.rpartition(" ")[2] not in CLIENT_VALUES] == [], (
        "no code outside stream/base/settings handles this value"
    )


@pytest.mark.parametrize("keep", get_args(settings_of_all()["policy.keep"].annotation))
def test_every_preference_of_copies_reaches_the_judge(keep: str) -> None:
    settings = Settings()
    policy = settings.policy.model_copy(update={"keep": keep})
    policy_of(
        settings.model_copy(update={"policy": policy})
    )  # A KeyError names the value that stream/judge/policy.py lacks.
