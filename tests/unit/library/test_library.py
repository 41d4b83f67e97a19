"""`from spotsieve import Deduplicator`: the engine of the filter for programs, in memory, on disk, and read-only."""

import gc
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from spotsieve import (
    CrawledPage,
    Deduplicator,
    EmittedVerdict,
    Original,
    PageError,
    SettingError,
    SpotsieveError,
    StateError,
    Verdict,
)
from spotsieve.stream.base.errors import SettingsMismatch, StateLockedError
from spotsieve.stream.cli import main
from spotsieve.stream.engine import Engine
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import article, break_signing, filter_json, page, read_json, write_crawl
from tests.fixtures.waiting import SECONDS, wait_until

PLACES = pytest.mark.parametrize("place", [None, "state"], ids=["in memory", "on disk"])


def given(crawl: Path) -> list[CrawledPage]:
    """The pages of a file, as a program would read them."""
    return [
        CrawledPage(one["id"], one["url"], one["body"], one.get("content_type"), fetched_at=one.get("fetched_at"))
        for one in read_json(crawl)
    ]


def row_of(verdict: Verdict) -> dict[str, Any]:
    """A verdict with the names of the filter's lines."""
    original = verdict.original
    return {
        "id": verdict.id,
        "verdict": verdict.kind,
        "duplicate_of": original and original.id,
        "score": None if verdict.score is None else round(verdict.score, 6),
        "reason": verdict.reason,
        "url": verdict.url,
        "original_url": original and original.url,
    }


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    path = tmp_path / "crawl.jsonl"
    write_crawl(path)
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@PLACES
def test_a_page_that_breaks_signing_is_unchecked_and_logged(
    place: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    break_signing(monkeypatch, article(2))
    pages = [CrawledPage(row, f"https://example.com/{row}", article(seed)) for row, seed in enumerate((1, 2, 1, 3))]
    expected = [("novel", "no_match"), ("unchecked", "internal_error"), ("duplicate", "exact"), ("novel", "no_match")]
    with Deduplicator(tmp_path / place if place else None) as seen:
        assert seen.query(9, "https://example.com/9", article(2)).reason == "internal_error"
        assert [(verdict.kind, verdict.reason) for verdict in seen.add_many(pages)] == expected
        assert seen.add(9, "https://example.com/9", article(2)).reason == "internal_error"
    assert "(ZeroDivisionError: a page that breaks signing at filter_crawl.py:" in caplog.text
    assert "for 1: each is emitted unchecked; please report the error" in caplog.text


def body(seed: int, more: str = "") -> str:
    return f"<p>{article(seed)}</p>{more}"


def at(tmp_path: Path, place: str | None) -> Path | None:
    return None if place is None else tmp_path / place


@PLACES
@pytest.mark.parametrize("batch_pages", [1, 2, 512])
def test_verdicts_are_those_of_the_filter_in_any_batches(
    crawl: Path, tmp_path: Path, place: str | None, batch_pages: int, capsys: pytest.CaptureFixture[str]
) -> None:
    filter_json(capsys, crawl, "--verdicts", tmp_path / "v.jsonl")
    lines = [
        {name: value for name, value in line.items() if name != "scheme"} for line in read_json(tmp_path / "v.jsonl")
    ]
    with Deduplicator(at(tmp_path, place), service__batch_pages=batch_pages) as seen:
        assert [row_of(verdict) for verdict in seen.add_many(given(crawl))] == lines
        assert seen.known_pages == 3
    with Deduplicator(None if place is None else tmp_path / "one by one") as seen:
        assert [row_of(seen.add(*one[:3])) for one in given(crawl)] == lines


def test_verdicts_of_real_pages_are_those_of_the_filter(
    tmp_path: Path, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = shared_data / "docs" / "pages.jsonl.xz"
    filter_json(capsys, pages, "--verdicts", tmp_path / "v.jsonl", "--state", tmp_path / "state")
    lines = [
        {name: value for name, value in line.items() if name != "scheme"} for line in read_json(tmp_path / "v.jsonl")
    ]
    # Scores are estimates, and the salt draws the sample that they come from.
    with Deduplicator(index__salt_from=tmp_path / "state") as seen:
        first = list(seen.add_many(given(pages)))
        assert [row_of(verdict) for verdict in first] == lines
        again = list(seen.add_many(given(pages)))
    assert [(one.kind, one.original) for one in again] == [(one.kind, one.original) for one in first]


@PLACES
def test_a_page_that_was_added_before_has_the_verdict_that_it_had(tmp_path: Path, place: str | None) -> None:
    pages: list[tuple[str | int, str, str]] = [("a", "https://a.example/", body(1))]
    pages += [("b", "https://b.example/", body(1, "<p>More.")), (3, "", "<p>hi")]
    with Deduplicator(at(tmp_path, place)) as seen:
        first = [seen.add(*one) for one in pages]
        again = [seen.add(*one) for one in pages]
        whole = [seen.add(name, url, text.encode()) for name, url, text in pages]
    assert [one.kind for one in first] == ["novel", "duplicate", "unchecked"]
    assert first[1].original == Original("a", "https://a.example/")
    assert (first[1].score or 0) > 0.9
    for later in (again, whole):
        assert [(one.id, one.kind, one.original, one.score) for one in later] == [
            (one.id, one.kind, one.original, one.score) for one in first
        ]
        assert later[0].reason == "first_attempt"


def test_the_same_id_with_another_body_is_another_page() -> None:
    with Deduplicator() as seen:
        assert seen.add("home", "https://a.example/", body(1)).kind == "novel"
        changed = seen.add("home", "https://a.example/", body(1, "<p>Now with a line more."))
        assert (changed.kind, changed.original) == ("duplicate", Original("home", "https://a.example/"))
        assert seen.add("home", "https://a.example/", body(2)).kind == "novel"


@pytest.mark.parametrize("name", ["n" * 3_000, "ü" * 2_000, "half \ud83d of a pair", "n" * 2_048, 7])
def test_the_id_of_a_verdict_is_the_id_that_its_copies_name(name: str | int) -> None:
    with Deduplicator(policy__keep="longest") as seen:
        first = seen.add(name, "https://a.example/1", f"<p>{article(1)}</p>")
        copy = seen.query("copy", "https://b.example/1", f"<p>{article(1)}</p>")
        assert copy.original is not None
        assert copy.original.id == first.id
        longer = seen.add("longer", "https://b.example/1", f"<p>{article(1)} {article(1)[:200]}</p>")
        replaced = longer.original or longer.replaces
        assert replaced is not None
        assert replaced.id == first.id
    assert len(first.id.encode()) <= 2_048


@PLACES
def test_a_query_says_what_add_would_say_and_remembers_nothing(tmp_path: Path, place: str | None) -> None:
    with Deduplicator(at(tmp_path, place)) as seen:
        assert seen.query("b", "u", body(1)) == EmittedVerdict("b", "u", "novel", "no_match")
        assert seen.known_pages == 0
        seen.add("a", "https://a.example/", body(1))
        queried = list(seen.query_many([("b", "u", body(1)), ("c", "u", body(2)), ("d", "u", body(2)), ("e", "u", "")]))
        assert [one.kind for one in queried] == ["duplicate", "novel", "novel", "unchecked"]
        assert queried[0] == seen.query("b", "u", body(1)) == seen.add("b", "u", body(1))
        assert seen.query("a", "https://a.example/", body(1)).reason == "first_attempt"
        assert seen.known_pages == 1


def test_a_horizon_counts_in_the_time_of_pages_also_for_a_query() -> None:
    hour = 3600
    with Deduplicator(index__horizon_hours=24, clock=lambda: 1e9) as seen:
        seen.add("a", "u", body(1), fetched_at=1e9 - 100 * hour)
        times = (datetime.fromtimestamp(1e9 - 90 * hour, UTC), "2001-09-06T00:00:00", 1e9 - 1, None)
        assert [seen.query("b", "u", body(1), fetched_at=one).kind for one in times] == [
            "duplicate",
            "novel",
            "novel",
            "novel",
        ]
        seen.add("c", "u", body(3))
        assert seen.query("b", "u", body(1), fetched_at=1e9 - 90 * hour).kind == "novel"


def test_a_state_goes_between_the_library_and_the_filter(
    crawl: Path, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filter_json(capsys, crawl, "--state", state, "--threshold", "0.4")
    with Deduplicator(state) as seen:
        assert seen.settings.scheme.name == "spotsieve"
        assert seen.known_pages == 3
        assert seen.add("new", "u", page(2)["body"]).original == Original("p2", "https://example.com/2")
        assert seen.add("more", "https://more.example/", page(7)["body"]).kind == "novel"
    later = tmp_path / "later.jsonl"
    later.write_text(json.dumps(page(7, "again")), "utf-8")
    filter_json(capsys, later, "--state", state, "--threshold", "0.4", "--verdicts", tmp_path / "v.jsonl")
    (line,) = read_json(tmp_path / "v.jsonl")
    assert (line["duplicate_of"], line["original_url"]) == ("more", "https://more.example/")


def test_a_state_is_opened_under_its_own_settings_and_no_others(state: Path) -> None:
    with Deduplicator(state, threshold=0.7, index__scope="host", policy={"keep": "longest"}) as seen:
        seen.add("a", "https://a.example/", body(1))
    with Deduplicator(state) as seen:
        assert (seen.settings.index.scope, seen.settings.policy.keep) == ("host", "longest")
        assert seen.add("b", "https://b.example/", body(1)).kind == "novel"
    with pytest.raises(SettingsMismatch, match=r"index\.scope"):
        Deduplicator(state, index__scope="global")
    with pytest.raises(SettingsMismatch, match=r"scheme\.name"):
        Deduplicator(state, scheme="minhash")
    with pytest.raises(SettingsMismatch, match=r"index\.scope"):
        Deduplicator(state, read_only=True, index__scope="global")


def test_read_only_asks_a_state_that_another_one_works_on_and_changes_nothing(state: Path) -> None:
    with Deduplicator(state) as seen:
        seen.add("a", "https://a.example/", body(1))
        with pytest.raises(StateLockedError):
            Deduplicator(state)
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file() and path.suffix == ".sst"}
    with Deduplicator(state, read_only=True) as asking:
        assert asking.known_pages == 1
        assert asking.query("b", "u", body(1)).original == Original("a", "https://a.example/")
        with Deduplicator(state) as seen:
            seen.add("c", "https://c.example/", body(2))
        assert asking.query("d", "u", body(2)).kind == "novel"
        for add in (lambda: asking.add("d", "u", body(2)), lambda: asking.add_many([])):
            with pytest.raises(StateError, match="read_only, and cannot add pages"):
                add()
    assert before == {path: path.read_bytes() for path in before}


def test_many_may_read_a_state_whose_owner_adds_nothing_at_the_moment(state: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from spotsieve import Deduplicator\n"
        "asking = [Deduplicator(sys.argv[1], read_only=True) for _ in range(2)]\n"
        "print([one.query('b', 'u', sys.argv[2]).kind for one in asking], flush=True); sys.stdin.readline()\n"
        "print([one.query('b', 'u', sys.argv[3]).kind for one in asking])"
    )
    with Deduplicator(state) as seen:
        seen.add("a", "https://a.example/", body(1))
        with pytest.raises(StateError, match="must not open a state read_only that this process adds to"):
            Deduplicator(state, read_only=True)
        command = [sys.executable, "-c", code, str(state), body(1), body(2)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as readers:
            assert readers.stdout is not None
            assert readers.stdout.readline() == "['duplicate', 'duplicate']\n"
            assert sorted(path.name for path in (state / "snapshot").iterdir()) == ["lock"]
            snapshot = [sys.executable, "-m", "spotsieve.stream", "state", "snapshot", "--state", str(state)]
            subprocess.run([*snapshot, str(tmp_path / "snapshot")], check=True, capture_output=True)
            seen.add("c", "u", body(2))
            assert readers.communicate("\n")[0] == "['novel', 'novel']\n"
    with Deduplicator(tmp_path / "snapshot", read_only=True) as asking:
        assert asking.known_pages == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python tells of the unclosed log
def test_one_that_is_forgotten_is_collected_and_gives_its_directory_back(state: Path) -> None:
    seen = Deduplicator(state)
    seen.add("a", "u", body(1))
    threads = {thread.name for thread in threading.enumerate()}
    assert "spotsieve-idle-owner" in threads
    del seen
    gc.collect()
    wait_until(lambda: not any(one.name == "spotsieve-idle-owner" for one in threading.enumerate()), SECONDS, "its end")
    with Deduplicator(state, read_only=True) as asking:
        assert asking.known_pages == 1
    with Deduplicator(state) as again:
        assert again.known_pages == 1


def test_a_snapshot_is_asked_and_not_added_to(state: Path, tmp_path: Path) -> None:
    with Deduplicator(state) as seen:
        seen.add("a", "https://a.example/", body(1))
    snapshot = tmp_path / "snapshot"
    assert main(["state", "snapshot", "--state", str(state), str(snapshot)]) == 0
    with Deduplicator(snapshot, read_only=True) as asking:
        assert asking.query("b", "u", body(1)).is_duplicate
    with pytest.raises(StateError, match="must not add to a snapshot"):
        Deduplicator(snapshot)


def test_what_is_no_page_is_named_and_pages_before_it_are_judged(state: Path) -> None:
    wrong: list[tuple[Any, str]] = [
        (("x", "u", None), "must be text, bytes or a list of texts, got 'None'; skip pages without a body"),
        (("x", "u", float("nan")), "body of page 'x' must be text, bytes or a list of texts, got nan"),
        (("x", "u", ["a", 7]), "body of page 'x' must be text, bytes or a list of texts, got 'an array'"),
        (("x", "u", []), "body of page 'x' must be text, bytes or a list of texts, got 'an array'"),
        (("x", 7, ""), "url of page 'x' must be text or None, got 7"),
        ((True, "u", ""), "id must be text or a whole number, got True"),
        (("", "u", ""), "id must be text or a whole number, got ''"),
        (("x", "u", "", None, None, "yesterday"), "fetched_at of page 'x' must be ISO 8601"),
        ({"id": "x", "url": "u", "body": ""}, "page must be an (id, url, body) or a CrawledPage, got 'an object'"),
        (("x", "u"), "page must be an (id, url, body) or a CrawledPage"),
    ]
    with Deduplicator(state) as seen:
        for number, (one, message) in enumerate(wrong):
            verdicts = seen.add_many([(number, "u", body(number)), one])
            assert next(verdicts).kind == "novel"
            with pytest.raises(PageError) as raised:
                next(verdicts)
            assert message in str(raised.value)
        assert seen.known_pages == len(wrong)


def test_what_the_iterable_raises_comes_after_the_verdicts_of_the_pages_before() -> None:
    def broken() -> Iterator[tuple[str, str, str]]:
        yield "a", "u", body(1)
        raise OSError("the connection is gone")

    with Deduplicator() as seen:
        verdicts = seen.add_many(broken())
        assert next(verdicts).id == "a"
        with pytest.raises(OSError, match="gone"):
            next(verdicts)


def test_a_body_that_is_a_list_is_the_text_of_its_parts() -> None:
    parts = body(1).split(" ", 20)
    with Deduplicator() as seen:
        first = seen.add("a", "https://a.example/", "\n".join(parts))
        for given in (parts, [part.encode() for part in parts]):
            again = seen.add("a", "https://a.example/", given)
            assert (again.kind, again.reason) == (first.kind, "first_attempt")


def test_numbers_of_frames_are_ids_and_statuses() -> None:
    with Deduplicator() as seen:
        assert seen.add(np.int64(7), "u", body(1)).id == "7"  # type: ignore[arg-type]
        for status in (404, np.int64(404), 404.0):
            assert seen.add(8, "u", body(2), status=status).reason == "http_status"  # type: ignore[arg-type]
        assert seen.add(9, "u", body(2), status=float("nan")).kind == "novel"  # type: ignore[arg-type]
        assert seen.add(10, "u", memoryview(body(2).encode())).kind == "duplicate"  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", [float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), np.float32("nan"), None])
def test_missing_values_of_data_frames_are_missing(missing: Any) -> None:
    with Deduplicator(policy__keep="highest", input__rank_from="x") as seen:
        for field in ("url", "content_type", "status", "fetched_at", "rank"):
            page = CrawledPage(field, "https://a.example/", body(1))._replace(**{field: missing})
            verdict = next(seen.add_many([page]))
            assert verdict.kind in ("novel", "duplicate"), field
        for field in ("id", "body"):
            with pytest.raises(PageError, match=field):
                list(seen.add_many([CrawledPage("x", "", body(1))._replace(**{field: missing})]))


def test_wrong_settings_and_places_say_what_to_do(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"treshold": 0.5}, "treshold is not a setting"),
        ({"index__horizon": 1}, "did you mean index.horizon_hours?"),
        ({"threshold": 7}, "scheme.min_containment"),
        ({"scheme": "minhsah"}, "did you mean minhash?"),
        ({"path": ""}, "path must not be empty"),
        ({"read_only": True}, "read_only needs the path of a state"),
        ({"config": tmp_path / "nowhere.toml"}, "nowhere.toml cannot be read"),
        ({"threshold": "x"}, "threshold must be a number, got 'x'"),
        *(({"against": value}, "against must be a list of paths") for value in (tmp_path, "st", b"st", None, 7)),
        ({"against": [None]}, "against must be a path: text or a Path"),
        *(({"path": value}, "path must be a path: text or a Path") for value in (b"seen", 7)),
        ({"config": 7}, "config must be a path: text or a Path"),
    ]
    for settings, message in wrong:
        with pytest.raises(SettingError, match=message):
            Deduplicator(**settings)
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="must have a directory"):
        Deduplicator(tmp_path / "file")
    with pytest.raises(StateError, match="must hold a state"):
        Deduplicator(tmp_path / "nowhere", read_only=True)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(40, "Too many levels")])
@pytest.mark.parametrize("arguments", [{}, {"read_only": True}, {"against": ["other"]}])
def test_a_directory_that_cannot_be_read_is_a_state_error(
    error: OSError, arguments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(error.errno, error.strerror, str(path))

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(StateError, match=f"Deduplicator cannot use its files: {error.strerror}, got '.*'; check"):
        Deduplicator(tmp_path / "state", **arguments)


def test_a_configuration_file_is_read_and_the_environment_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spotsieve.toml").write_text('[scheme]\nname = "minhash"\n[index]\nscope = "host"\n', "utf-8")
    monkeypatch.setenv("SPOTSIEVE_INDEX__SCOPE", "nonsense")
    with Deduplicator(config=tmp_path / "spotsieve.toml", threshold=0.5) as seen:
        assert seen.settings.scheme.name == "minhash"
        assert seen.settings.index.scope == "host"
        assert seen.settings.scheme.resemblance == 0.5


def test_a_closed_one_says_so_and_closing_twice_does_nothing(state: Path) -> None:
    seen = Deduplicator(state)
    later = seen.add_many([("a", "u", body(1))])
    seen.close()
    seen.close()
    for use in (lambda: seen.add("a", "u", body(1)), lambda: next(later), lambda: seen.known_pages):
        with pytest.raises(ValueError, match="is closed"):
            use()
    with Deduplicator(state) as again:
        assert again.known_pages == 0


def test_the_state_of_a_killed_program_is_read_again_and_a_log_says_so(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = (
        "import os, sys; from spotsieve import Deduplicator\n"
        "seen = Deduplicator(sys.argv[1]); print(seen.add('a', 'u', sys.argv[2]).kind, flush=True); os._exit(9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(state), body(1)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("novel\n", 9), done.stderr
    with caplog.at_level(logging.INFO, "spotsieve"), Deduplicator(state) as seen:
        assert seen.add("b", "u", body(1)).original == Original("a", "u")
    assert "compiling the kernels" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt("now"), StateError("state", "cannot be written")])
def test_a_batch_that_was_stopped_is_finished_by_opening_again(
    state: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise error

    with Deduplicator(state, service__batch_pages=1) as seen:
        seen.add("a", "u", body(1))
        with monkeypatch.context() as patched:
            # The record is in the log by then.
            patched.setattr(Engine, "apply", stop)
            with pytest.raises(type(error), match=str(error)):
                list(seen.add_many([("b", "u", body(2)), ("d", "u", body(4)), ("e", "u", body(5))]))
        with pytest.raises(StateError, match=r"interrupted in a batch, and cannot add .*; close it and open it again"):
            seen.add("c", "u", body(3))
        assert seen.query("c", "u", body(1)).is_duplicate
    with Deduplicator(state) as seen:
        assert seen.known_pages == 2
        assert seen.add("b", "u", body(2)).reason == "first_attempt"
        assert seen.add("c", "u", body(2)).original == Original("b", "u")


def test_importing_the_package_is_cheap_and_names_nothing_that_is_not_there() -> None:
    code = (
        "import sys, spotsieve\n"
        "print(sorted({'numpy', 'numba', 'rocksdict', 'pydantic', 'asyncio'} & set(sys.modules)))\n"
        "print([name for name in spotsieve.__all__ if name not in dir(spotsieve)])\n"
        "print([name for name in spotsieve.__all__ if not getattr(spotsieve, name)])\n"
        "try: spotsieve.Dedupe\n"
        "except AttributeError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "[]", "[]", "module 'spotsieve' has no attribute 'Dedupe'"]
    assert issubclass(PageError, SpotsieveError)
