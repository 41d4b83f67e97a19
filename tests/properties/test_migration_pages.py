"""Pages are signed again from files where a log has signatures alone: which are found there, and which are not."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, encode, encode_configuration
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.digest import VERDICTS_REVISION, settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import page_id_text, page_of_id
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.cli import main
from spotsieve.stream.insight.migrate.archive import PAGES_FILE
from spotsieve.stream.insight.migrate.record_move import Migration
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.fixtures.migrations import (
    PAGES,
    FromScratch,
    Judgment,
    filtered,
    opened,
    records_of,
    remembered,
)

OTHER = Settings.model_validate({"scheme": {"shingle_words": 4}})
SIGNING = ("--set", "scheme.shingle_words=4")


def archived(path: Path, pages: Sequence[Page]) -> Path:
    """The pages as JSON Lines, with the times of their fetching."""
    lines = [
        {"url": one.url, "body": one.body.decode(), "content_type": "text/html", "fetched_at": _time(one)}
        for one in pages
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _time(page: Page) -> str:
    return datetime.fromtimestamp(page.event_time_ms / 1000, UTC).isoformat()


def unsent(before: Sequence[Judgment], after: Sequence[Judgment]) -> list[str]:
    return [page for (page, was, _), (_, now, _) in zip(before, after, strict=True) if was == Kind.DUPLICATE != now]


def test_a_log_is_signed_again_from_files_as_if_it_was_judged_from_scratch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    filtered(old, Settings())
    # The order of the files is not that of the log, and the log has other ids for the pages.
    files = [archived(tmp_path / "b.jsonl", PAGES[60:]), archived(tmp_path / "a.jsonl", PAGES[:60])]
    run = ["migrate", "--from-state", str(old), "--state", str(new), *SIGNING, "--json"]
    capsys.readouterr()
    assert main([*run, "--from-pages", *map(str, files)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["signed_again"], report["compared"], report["open"]) == (True, True, True)
    assert (report["pages"], report["pages_gone"], report["pages_unlike"]) == (len(PAGES), 0, 0)
    assert report["pages_from_files"] == len(PAGES)
    log, was, becomes = records_of(old), FromScratch(Settings()), FromScratch(OTHER)
    dropped = unsent(was.judge(log), becomes.judge(log))
    becomes.forget([found for page in dropped if (found := page_of_id(page)) is not None])
    with opened(new, OTHER) as state:
        assert remembered(state) == remembered(becomes.state)
    assert (new / "migration" / PAGES_FILE).stat().st_mode & 0o777 == 0o600


def test_missing_pages_are_reported_and_pages_with_other_content_are_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with LocalEngine(old, Settings(), scheme_in_scope(Settings())) as local:
        list(local.judge(PAGES[:40]))
    changed = [
        Page(one.source, one.partition, one.offset, one.url, one.body + b"<p>More.</p>", True, one.event_time_ms)
        for one in PAGES[30:35]
    ]
    run = ["migrate", "--from-state", str(old), "--state", str(new), *SIGNING]
    assert main([*run, "--from-pages", str(tmp_path / "none.jsonl")]) == 3
    file = archived(tmp_path / "most.jsonl", [*PAGES[:30], *changed])
    capsys.readouterr()
    assert main([*run, "--from-pages", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "files      30 pages were found in files" in printed
    assert "gone       10 pages could not be signed again, because their content is not available" in printed
    assert "unlike     5 of these pages have their URL in the files, but with other content" in printed
    with opened(new, OTHER) as state:
        assert 0 < state.entry_count <= 30
    # Where the settings sign as before, files are not needed, and it says so.
    to = str(tmp_path / "alike")
    alike = ["migrate", "--from-state", str(old), "--state", to, "--set", "scheme.min_containment=0.9"]
    assert main([*alike, "--from-pages", str(file)]) == 0
    assert "the files of --from-pages were not needed" in capsys.readouterr().out


def test_an_interrupted_migration_reads_the_same_files_in_the_same_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    filtered(old, Settings())
    file, other = archived(tmp_path / "all.jsonl", PAGES), archived(tmp_path / "some.jsonl", PAGES[:60])
    run = ["migrate", "--from-state", str(old), "--state", str(new), *SIGNING, "--from-pages"]

    def killed(*_: object) -> None:
        raise StateError("test", "is killed")

    with monkeypatch.context() as patched:
        patched.setattr(Migration, "note", killed)
        assert main([*run, str(file)]) == 4
    capsys.readouterr()
    for command, rule in (
        ([*run, str(other)], "has a migration with other files in --from-pages"),
        (
            [*run, str(file), "--set", "input.fields.body=title"],
            'has a migration with other input settings: input.fields.body was "body"',
        ),
        (["migrate", "--from-state", str(old), "--state", str(new)], "has a migration with other input settings"),
    ):
        assert main(command) == 2
        assert rule in capsys.readouterr().err
    assert main([*run, str(file)]) == 0


def test_a_log_of_an_earlier_revision_is_signed_again_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    log = earlier_log(tmp_path / "now", old)
    run = ["migrate", "--from-state", str(old), "--state", str(new)]
    assert main(run) == 2
    assert "revision" in capsys.readouterr().err
    file = archived(tmp_path / "pages.jsonl", PAGES)
    assert main([*run, "--json", "--from-pages", str(file)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["compared"], report["pages"], report["pages_gone"]) == (False, len(PAGES), 0)
    assert "the old verdicts are unknown" in report["notices"][-1]
    becomes = FromScratch(Settings())
    becomes.judge([(at, value) for at, value in log if not decode(value).forgotten])
    with opened(new, Settings()) as state:
        assert state.entry_count == becomes.state.entry_count > 0
        assert remembered(state).keys() == remembered(becomes.state).keys()


def test_no_dropped_page_of_an_earlier_log_becomes_an_original_if_files_are_novel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    log = [(at, value) for at, value in earlier_log(tmp_path / "now", old) if not decode(value).forgotten]
    judgments = FromScratch(Settings()).judge(log)
    dropped = {page for page, kind, _ in judgments if kind == Kind.DUPLICATE}
    sent = [one for one in PAGES if page_id_text(one.source, one.partition, one.offset) not in dropped]
    file = archived(tmp_path / "novel.jsonl", sent)
    # Stricter: without the files' word a dropped page would be an original.
    run = ["migrate", "--from-state", str(old), "--state", str(new), "--set", "scheme.min_containment=0.95", "--json"]
    capsys.readouterr()
    assert main([*run, "--from-pages", str(file)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["pages_gone"] == len(PAGES) - len(sent) > 0
    assert "have only the novel pages" in report["notices"][-1]
    with opened(new, Settings.model_validate({"scheme": {"min_containment": 0.95}})) as state:
        named = state.page_ids(np.arange(state.entry_count, dtype=np.uint64))
    indexed = {page_id_text(*one) for one in named if one is not None}
    assert len(indexed) > 0
    assert not indexed & dropped


def earlier_log(now: Path, old: Path) -> list[tuple[int, bytes]]:
    """Filter pages in one directory, and write its log into another, as a release with the revision before wrote it.

    -> the records of the first
    """
    filtered(now, Settings())
    log, text = records_of(now), verdict_settings_text(Settings())
    earlier = text.replace(f'"revision":{VERDICTS_REVISION}', f'"revision":{VERDICTS_REVISION - 1}')
    assert earlier != text
    with LocalLog(old) as written:
        # The identity of the log is the same, so both are signed with one salt.
        written.append(encode_configuration(earlier, bytes(16), decode(log[0][1]).log))
        for _, value in log:
            record = decode(value)
            if len(record.signatures):
                written.append(encode(record.signatures, bytes(16), record.sequence, settings_digest(earlier)))
    return log
