"""`spotsieve state forget` on a state with a local log: what it finds, what it logs, what it tells a person."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE
from spotsieve.state.log.local import LocalLog
from spotsieve.state.snapshot import checkpoints
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.errors import EXIT_NOT_FOUND, EXIT_SETTING, EXIT_STATE
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.cli import main
from spotsieve.stream.files.file_format import content_number
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.filter_crawl import filter_json, lines, page
from tests.fixtures.states.comparison import first_difference

PAGES = 6


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "pages.jsonl").write_bytes(lines([page(seed) for seed in range(PAGES)]))
    assert main(["filter", str(folder / "pages.jsonl"), "--state", str(folder / "state")]) == 0
    return folder


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "state", tmp_path / "state"))


AGREED = ["--yes", "--max-share", "1"]


def forget(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert main(["state", "forget", "--json", *map(str, arguments)]) == code
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def copies(capsys: pytest.CaptureFixture[str], state: Path, *seeds: int) -> dict[str, Any]:
    """Filter another copy of these pages."""
    file = state.parent / f"copies{len(list(state.parent.iterdir()))}.jsonl"
    file.write_bytes(lines([page(seed, f"copy-{seed}-{file.stem}") for seed in seeds]))
    return filter_json(capsys, file, "--state", state)


def open_state(directory: Path) -> State:
    return disk_state(directory, verdict_settings_text(Settings()), LocalLog.name, IndexSettings())


@pytest.mark.guarantee("the next copy of a forgotten page is novel", fault="spotsieve state forget on a filter's state")
def test_a_forgotten_page_is_novel_again_and_a_rebuild_from_the_log_agrees(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert copies(capsys, state, 0, 1)["duplicate"] == 2
    report = forget(capsys, "--state", state, "--url", page(0)["url"])
    (found,) = report["found"]
    assert (found["id"], found["url"], found["entry"]) == ("p0", page(0)["url"], 0)
    assert found["buckets"] > 5
    assert (report["missing"], report["dry_run"], report["log"], len(report["records"])) == ([], False, "local", 1)
    # The record is applied at once, and the address is gone from the state on disk.
    assert verify(state).checked["forgotten entries"] == 1
    with open_state(state) as opened:
        assert opened.position == report["records"][0] + 1
        assert not any(page(0)["url"].encode() in value for _, value in opened.items())
    summary = copies(capsys, state, 0, 1, 0)
    assert (summary["novel"], summary["duplicate"]) == (1, 2)
    shutil.move(state / INDEX_FOLDER, tmp_path / "kept")
    assert filter_json(capsys, "--state", state, "/dev/null")["state_entries"] == PAGES + 1
    kept = tmp_path / "other"
    kept.mkdir()
    shutil.move(tmp_path / "kept", kept / INDEX_FOLDER)
    with open_state(state) as rebuilt, open_state(kept) as before:
        assert first_difference(rebuilt, before) is None


def test_what_a_host_learned_goes_with_the_host_and_stays_where_its_pages_are_named(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def hosts(directory: Path) -> list[bytes]:
        with open_state(directory) as opened:
            return [name for name, _ in opened.items() if name.startswith(b"hosts/")]

    by_prefix = Path(shutil.copytree(state, tmp_path / "by_prefix"))
    (known,) = hosts(state)
    forget(capsys, "--state", by_prefix, "--url-prefix", "https://example.com/", *AGREED)
    assert hosts(by_prefix) == [known]
    forget(capsys, "--state", state, "--host", "example.com", *AGREED)
    assert hosts(state) == []
    assert verify(state).damaged == 0
    shutil.rmtree(state / INDEX_FOLDER)
    assert filter_json(capsys, "--state", state, "/dev/null")["state_entries"] == PAGES
    assert hosts(state) == []


@pytest.mark.parametrize(
    ("arguments", "entries"),
    [
        (["--id", "p1"], [1]),
        (["--id", "{file}/{number}/2"], [2]),
        (["--id", "p1", "--id", "p3", "--url", "https://example.com/4"], [1, 3, 4]),
        (["--url-prefix", "https://example.com/", *AGREED], list(range(PAGES))),
        (["--host", "WWW.example.com", *AGREED], list(range(PAGES))),
    ],
)
def test_pages_are_found_by_name_page_id_beginning_of_the_address_and_host(
    arguments: list[str], entries: list[int], made: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = made / "pages.jsonl"
    named = [
        argument.format(file=file, number=content_number(file.read_bytes().splitlines()[2])) for argument in arguments
    ]
    dry = forget(capsys, "--state", state, "--dry-run", *named)
    assert [found["entry"] for found in dry["found"]] == entries
    assert dry["records"] == []
    report = forget(capsys, "--state", state, *named)
    assert report["found"] == dry["found"]
    assert verify(state).checked["forgotten entries"] == len(entries)
    assert copies(capsys, state, *range(PAGES))["novel"] == len(entries)


def test_a_dry_run_writes_nothing_and_works_while_a_filter_runs(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = (state / LOG_FILE).read_bytes()
    assert main(["state", "forget", "--state", str(state), "--id", "p1", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "would forget" in shown
    assert "https://example.com/1" in shown
    assert "1 page; nothing was written" in shown
    assert (state / LOG_FILE).read_bytes() == log
    assert {path.name for path in (state / checkpoints.FOLDER).iterdir()} == {checkpoints.LOCK}
    with LocalLog(state):
        assert main(["state", "forget", "--state", str(state), "--id", "p1", "--dry-run"]) == 0
        assert main(["state", "forget", "--state", str(state), "--id", "p1"]) == EXIT_STATE
        assert "a running spotsieve filter holds its log" in capsys.readouterr().err
    assert (state / LOG_FILE).read_bytes() == log


def test_what_is_not_there_is_told_with_what_is_like_it_and_the_rest_is_forgotten(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--state", str(state), "--url", "http://www.example.com/3/", "--url", "https://example.com/2"]
    assert main(["state", "forget", *arguments, "--id", "nobody"]) == EXIT_NOT_FOUND
    shown = capsys.readouterr().out
    assert "not found  url http://www.example.com/3/\n           similar: https://example.com/3\n" in shown
    assert "not found  id nobody" in shown
    assert "1 page forgotten from record" in shown
    report = forget(capsys, *arguments, code=EXIT_NOT_FOUND)
    assert report["found"] == report["records"] == []
    assert {"url": "https://example.com/2"} in report["missing"], "it was forgotten before"


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ([], EXIT_SETTING, "state forget must name pages; use --url, --id, --url-prefix, --host"),
        (["--url", ""], EXIT_SETTING, "--url must not be empty"),
        (["--url-prefix", " "], EXIT_SETTING, "--url-prefix must not be empty"),
        (["--host", "https://example.com/"], EXIT_SETTING, "--host must be the name of a host"),
        (["--id", "p1", "--state", "{state}/nowhere"], EXIT_STATE, "--state must hold a state"),
        (["--id", "p1", "-c", "nowhere.toml"], EXIT_SETTING, "nowhere.toml cannot be read"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_next_step(
    arguments: list[str], code: int, named: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [argument.format(state=state) for argument in arguments]
    if "--state" not in given:
        given += ["--state", str(state)]
    assert main(["state", "forget", *given]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line


def test_a_state_without_its_log_or_with_another_or_a_snapshot_of_it_is_refused(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = tmp_path / "snapshot"
    assert main(["state", "snapshot", "--state", str(state), str(snapshot)]) == 0

    def refused(directory: Path, rule: str) -> None:
        capsys.readouterr()
        assert main(["state", "forget", "--state", str(directory), "--id", "p1"]) == EXIT_STATE
        assert rule in capsys.readouterr().err

    refused(snapshot, "must be a state directory and not a snapshot")
    assert forget(capsys, "--state", snapshot, "--id", "p1", "--dry-run")["found"][0]["entry"] == 1
    (state / LOG_FILE).unlink()
    refused(state, "must contain its local log")
    assert not (state / LOG_FILE).exists()
    with LocalLog(state) as other:
        for _ in range(2):  # as many as the state applied: its configuration, its pages
            other.append(b"another record, of another log" * 3)
    refused(state, "must be the record that the state applied there")


def test_another_log_is_refused_by_its_id_with_both_names(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its records may be as many as those that the state has applied, or more."""
    with LocalEngine(tmp_path / "other", Settings(), scheme_of(Settings().scheme)) as engine:
        other = engine.engine.state.identity.log_identity
    with open_state(state) as own:
        own_log = own.identity.log_identity
    (state / LOG_FILE).unlink()
    shutil.copy(tmp_path / "other" / LOG_FILE, state / LOG_FILE)
    for command in (["state", "forget", "--id", "p1"], ["clusters", "--out", str(tmp_path / "clusters.jsonl")]):
        assert main([*command, "--state", str(state)]) == EXIT_STATE
        shown = capsys.readouterr().err
        assert f"must follow the log that it was built from, which is {own_log}" in shown
        assert f"holds another log, {other}; configure the topic of that log" in shown
    assert (state / LOG_FILE).read_bytes() == (tmp_path / "other" / LOG_FILE).read_bytes()


def test_a_state_that_is_behind_its_log_is_forgotten_in_when_the_log_is_read_on(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    behind = shutil.copytree(state / INDEX_FOLDER, state.parent / INDEX_FOLDER)
    assert copies(capsys, state, 77)["novel"] == 1
    shutil.rmtree(state / INDEX_FOLDER)
    shutil.move(behind, state / INDEX_FOLDER)
    report = forget(capsys, "--state", state, "--id", "p1")
    assert report["looked_at_up_to"] < report["records"][0]
    with LocalEngine(state, Settings(), scheme_of(Settings().scheme)) as local:
        assert local.engine.state.position == report["records"][0] + 1
        assert local.entry_count == PAGES + 1, "what the log contained before the forgetting is read too"
        assert local.engine.state.page_ids(np.array([1], np.uint64)) == [None]
    assert copies(capsys, state, 1)["novel"] == 1


def test_a_state_that_follows_a_topic_needs_the_configuration_of_its_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = verdict_settings_text(Settings())
    with disk_state(tmp_path, text, "signatures-of-another", IndexSettings()):
        pass
    arguments = ["state", "forget", "--state", str(tmp_path), "--id", "p1"]
    assert main(arguments) == EXIT_SETTING
    shown = capsys.readouterr().err
    assert "topics.log must be the log that the state" in shown
    assert "give the configuration of the service that owns it (-c)" in shown
    given = ["--set", "topics.log=signatures-of-another", "--set", "index.bucket_cap=9"]
    assert main([*arguments, *given]) == EXIT_STATE
    shown = capsys.readouterr().err
    assert "index.bucket_cap is 256 in the state and 9 in the configuration" in shown
    assert "(-c)" in shown
    # --dry-run works.
    assert main([*arguments, "--dry-run"]) == EXIT_NOT_FOUND
