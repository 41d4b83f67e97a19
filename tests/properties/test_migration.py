"""A migrated state is what judging from scratch would have made, wherever the migration was killed on its way."""

import contextlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from spotsieve.state.format.meta import NO_LOG
from spotsieve.state.log.bodies import origin_of
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, encode_configuration, is_handover
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.progress import ignore_progress
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS
from spotsieve.stream.base.signature import page_of_id
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.cli import main
from spotsieve.stream.engine import open_engine
from spotsieve.stream.insight.migrate.journal import Journal
from spotsieve.stream.insight.migrate.local import migrate_state
from spotsieve.stream.insight.migrate.record_move import Migration
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.sign.schemes.registry import scheme_in_scope, scheme_of
from tests.fixtures.migrations import PAGES, FromScratch, Judgment, filtered, opened, records_of, remembered
from tests.fixtures.pages.scheme_settings import settings_named
from tests.fixtures.pages.small_crawl import CRAWL
from tests.fixtures.states.comparison import first_difference
from tests.reference.signatures import assert_same

CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a stricter threshold": ({}, {"scheme": {"min_containment": 0.99}}),
    "a looser threshold and smaller caps": (
        {"scheme": {"min_containment": 0.99}},
        {"index": {"bucket_cap": 2, "candidate_limit": 1}, "scheme": {"minima_cap": 2}},
    ),
    "a horizon": ({}, {"index": {"horizon_hours": 4.0}}),
    "another horizon": ({"index": {"horizon_hours": 8.0}}, {"index": {"horizon_hours": 2.0}}),
    "the longest kept": ({}, {"policy": {"keep": "longest", "longer_by": 1.0}}),
    "a scheme without hosts, within the scope of a host": (
        {"scheme": {"name": "onebit"}, "index": {"scope": "host"}},
        {"scheme": {"name": "onebit", "r": 0.7}, "index": {"scope": "host"}},
    ),
}
changes = pytest.mark.parametrize("change", CHANGES)


def settings_of(given: dict[str, Any]) -> Settings:
    return Settings.model_validate(given)


@pytest.mark.guarantee(
    "a migrated state equals one that judged the pages in the order of the log", fault="none: every kind of change"
)
@changes
def test_a_migrated_state_equals_one_judged_from_scratch_and_reports_the_differences(
    tmp_path: Path, change: str
) -> None:
    old, new = map(settings_of, CHANGES[change])
    filtered(tmp_path / "old", old)
    report = migrate_state(tmp_path / "old", tmp_path / "new", new, ignore_progress)
    log = records_of(tmp_path / "old")
    was, becomes = FromScratch(old), FromScratch(new)
    before, after = was.judge(log), becomes.judge(log)
    expected = differing(before, after)
    assert [(line["page"], line["old"]["verdict"], line["new"]["verdict"]) for line in lines_of(tmp_path / "new")] == (
        expected
    )
    assert report.differ == len(expected) > 0
    assert report.counts["pages"] == len(PAGES)
    kinds = {(page, old_kind): (page, kind) for (page, old_kind, _), (_, kind, _) in zip(before, after, strict=True)}
    unsent = [page for (page, was), (_, now) in kinds.items() if was == Kind.DUPLICATE != now]
    becomes.forget([found for page in unsent if (found := page_of_id(page)) is not None])
    with opened(tmp_path / "new", new) as state:
        assert remembered(state) == remembered(becomes.state)
        # And it is the function of its log that every worker's is.
        engine = open_engine(
            new.model_copy(update={"index": new.index.model_copy(update={"directory": tmp_path / "fresh"})}), "local"
        )
        for offset, value in records_of(tmp_path / "new"):
            engine.apply(value, offset)
        assert first_difference(state, engine.state) is None
        engine.state.close()
    with LocalEngine(tmp_path / "new", new, scheme_in_scope(new)) as local:
        judged = [verdicts for _, verdicts in local.judge(PAGES[-9:])]
        assert all(len(verdicts) for verdicts in judged), "it goes on from there"


def differing(old: Sequence[Judgment], new: Sequence[Judgment]) -> list[tuple[str, str, str]]:
    """(page, old verdict, new verdict) of every page whose verdicts or originals differ."""
    assert [page for page, *_ in old] == [page for page, *_ in new]
    return [(was[0], was[1].name.lower(), now[1].name.lower()) for was, now in zip(old, new, strict=True) if was != now]


def lines_of(directory: Path) -> list[dict[str, Any]]:
    text = (directory / "migration" / "differences.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def without_reasons(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A novel page that is judged once more says first_attempt, as everywhere."""
    for line in lines:
        line["old"].pop("reason")
        line["new"].pop("reason")
    return lines


def without_id(records: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The records, the first one without the identity of its log, which is random."""
    (offset, value), *others = records
    first = decode(value)
    assert first.configuration
    return [(offset, encode_configuration(first.configuration, first.writer, NO_LOG)), *others]


class Killed(Exception):
    """In place of a SIGKILL: nothing after it is done."""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an old local log, and what a migration of it made that nobody killed."""
    folder = tmp_path_factory.mktemp("unbroken")
    old, new = map(settings_of, CHANGES["a stricter threshold"])
    filtered(folder / "old", old)
    migrate_state(folder / "old", folder / "new", new, ignore_progress)
    return folder


@pytest.mark.guarantee("a killed migration continues where it stopped", fault="killed at any of its steps")
@pytest.mark.parametrize(
    ("step", "lost"),
    [
        ("append", "nothing"),
        ("applied", "index"),
        ("lines written", "nothing"),
        ("lines written", "migration/old/index"),
        ("noted", "nothing"),
    ],
)
def test_a_migration_killed_at_any_step_ends_like_an_uninterrupted_one(
    tmp_path: Path, unbroken: Path, monkeypatch: pytest.MonkeyPatch, step: str, lost: str
) -> None:
    new = settings_of(CHANGES["a stricter threshold"][1])
    steps: dict[str, tuple[Any, str]] = {
        "append": (LocalLog, "append"),
        "applied": (Migration, "note"),
        "lines written": (Journal, "_save"),
        "noted": (Journal, "note"),
    }
    owner, name = steps[step]
    act, left = getattr(owner, name), 0

    def killing(*given: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and step in ("applied", "lines written"):
            raise Killed
        done = act(*given)
        if left == 0:
            raise Killed
        return done

    monkeypatch.setattr(owner, name, killing)
    kills = 0
    for after in (1, 3, 4, 2, 5, 0):
        left = after
        try:
            migrate_state(unbroken / "old", tmp_path / "new", new, ignore_progress)
        except Killed:
            kills += 1
            if lost != "nothing" and kills == 2:
                shutil.rmtree(tmp_path / "new" / lost)
            if kills == 1:
                with pytest.raises(StateError, match="spotsieve migrate is filling it"):
                    LocalEngine(tmp_path / "new", new, scheme_in_scope(new))
            continue
        break
    assert kills >= 3
    # The record that opens the log is the last one, and has a random writer.
    assert without_id(records_of(tmp_path / "new")[:-1]) == without_id(records_of(unbroken / "new")[:-1])
    folders = [folder / "new" / "migration" for folder in (tmp_path, unbroken)]
    assert without_reasons(lines_of(tmp_path / "new")) == without_reasons(lines_of(unbroken / "new"))
    assert (folders[0] / "unsent.jsonl").read_bytes() == (folders[1] / "unsent.jsonl").read_bytes()
    counts = [json.loads((folder / "journal.json").read_bytes())["counts"] for folder in folders]
    assert counts[0] == counts[1]
    with opened(tmp_path / "new", new) as state, opened(unbroken / "new", new) as whole:
        assert remembered(state) == remembered(whole)


@pytest.mark.guarantee("a killed migration continues where it stopped", fault="killed after its end")
@pytest.mark.parametrize("step", ["opened", "applied", "removed"])
def test_a_migration_killed_after_its_end_is_complete(
    tmp_path: Path, unbroken: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    new, act = settings_of(CHANGES["a stricter threshold"][1]), LocalLog.append

    def killing(*given: Any) -> Any:
        done = act(*given)
        if is_handover(given[1]):
            raise Killed
        return done

    def ending(journal: Journal) -> None:
        if step == "removed":
            shutil.rmtree(journal.old_directory)
        raise Killed

    monkeypatch.setattr(*((LocalLog, "append", killing) if step == "opened" else (Journal, "end", ending)))
    with pytest.raises(Killed):
        migrate_state(unbroken / "old", tmp_path / "new", new, ignore_progress)
    monkeypatch.undo()
    report = migrate_state(unbroken / "old", tmp_path / "new", new, ignore_progress)
    assert report.open
    counts = json.loads((unbroken / "new" / "migration" / "journal.json").read_bytes())["counts"]
    assert report.counts == counts
    assert not (tmp_path / "new" / "migration" / "old").exists()
    with LocalEngine(tmp_path / "new", new, scheme_in_scope(new)):
        pass
    with opened(tmp_path / "new", new) as state, opened(unbroken / "new", new) as whole:
        assert remembered(state) == remembered(whole)


def test_a_migration_killed_near_its_end_is_refused_once_the_old_log_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, act = tmp_path / "old", settings_of(CHANGES["a stricter threshold"][1]), LocalLog.append
    filtered(old, Settings())
    end = len(records_of(old))

    def killing(log: LocalLog, value: bytes) -> int:
        record = decode(value)
        if record.forgotten and origin_of(record.sequence).offset == end:
            act(log, value)
            raise Killed
        return act(log, value)

    monkeypatch.setattr(LocalLog, "append", killing)
    with pytest.raises(Killed):
        migrate_state(old, tmp_path / "new", new, ignore_progress)
    monkeypatch.undo()
    with LocalEngine(old, Settings(), scheme_in_scope(Settings())) as local:
        list(local.judge(PAGES[:5]))
    with pytest.raises(StateError, match=r"ends the migration of .* has more records now"):
        migrate_state(old, tmp_path / "new", new, ignore_progress)


@pytest.mark.parametrize("name", SCHEME_SETTINGS)
def test_settings_that_do_not_affect_signing_leave_signatures_unchanged(name: str) -> None:
    given = settings_named(name)
    signed, tried = scheme_of(given).sign(CRAWL), set[str]()
    for field, about in type(given).model_fields.items():
        extra = about.json_schema_extra
        assert isinstance(extra, dict)
        if not extra["verdicts"] or extra["signs"]:
            continue
        for value in (getattr(given, field) * factor for factor in (0.5, 2, 0.8, 1.1)):
            with contextlib.suppress(SettingError, ValidationError):
                other = type(given).model_validate(given.model_dump() | {field: type(getattr(given, field))(value)})
                assert_same(scheme_of(other).sign(CRAWL), signed)
                tried.add(field)
    judged = {field for field, about in type(given).model_fields.items() if judged_by(about.json_schema_extra)}
    assert tried == judged
    assert judged or name in ("imatch", "imatch-s")


def judged_by(extra: Any) -> bool:
    return bool(extra["verdicts"]) and not extra["signs"]


def test_a_change_of_signing_settings_is_rejected_for_a_local_log_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with LocalEngine(old, Settings(), scheme_in_scope(Settings())) as local:
        list(local.judge(PAGES[:5]))
    run = ["migrate", "--from-state", str(old), "--state"]
    assert main([*run, str(new), "--set", "scheme.shingle_words=4"]) == 2
    printed = capsys.readouterr().err
    assert "scheme.shingle_words is 3 in the log and 4 in the configuration" in printed
    assert "add the files of the pages: --from-pages FILE..." in printed
    assert main([*run, str(old)]) == 2
    assert main([*run, str(new), "--set", "scheme.min_containment=0.9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pages"], found["open"], found["signed_again"]) == (5, True, False)
    assert main([*run, str(new), "--set", "scheme.min_containment=0.9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found | {
        "notices": ["the migration was already complete"],
        "seconds": 0.0,
    }
    with LocalEngine(old, Settings(), scheme_in_scope(Settings())) as local:
        list(local.judge(PAGES[5:6]))
    assert main([*run, str(new), "--set", "scheme.min_containment=0.9"]) == 4, "later pages are not moved"
    assert "has a completed migration of 2 records, and the old log has 3 records now" in capsys.readouterr().err
    with LocalEngine(tmp_path / "other", Settings(), scheme_in_scope(Settings())) as local:
        list(local.judge(PAGES[:5]))
    assert main([*run, str(tmp_path / "other")]) == 4
    assert "must be empty, or from an earlier run of the migration" in capsys.readouterr().err
    assert main(["migrate", "--from-state", str(tmp_path / "none"), "--state", str(new)]) == 4
