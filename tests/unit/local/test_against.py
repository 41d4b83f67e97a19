"""`--against`: pages that other states contain are dropped, as a query of these says, and nothing is written there."""

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event
from typing import IO, Any

import pytest

from spotsieve import CrawledPage, Deduplicator
from spotsieve.state.still.reading import identity_of, read_only_state
from spotsieve.stream.base.errors import EXIT_SETTING, EXIT_STATE, EXIT_SUSPICIOUS, SettingError, StateError
from spotsieve.stream.base.settings import digest
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import main
from spotsieve.stream.local.against import StateQuery, check_states
from tests.fixtures.filter_crawl import (
    article,
    break_queries,
    filter_json,
    lines,
    page,
    read,
    read_json,
    refused,
    spotsieve,
)
from tests.fixtures.waiting import SECONDS

PARTS = {"a": range(1, 4), "b": range(4, 7), "c": range(7, 9)}
NEW = range(1, 12)


def write(path: Path, pages: Sequence[dict[str, Any]]) -> Path:
    path.write_bytes(lines(list(pages)))
    return path


def made(folder: Path, name: str, pages: Sequence[dict[str, Any]], *options: object) -> Path:
    """A state of these pages."""
    file, state = write(folder / f"{name}.jsonl", pages), folder / name
    out = folder / f"{name}-out.jsonl"
    assert main(["filter", str(file), "--state", str(state), "--out", str(out), *map(str, options)]) == 0
    return state


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three states with one salt, of different pages."""
    folder = tmp_path_factory.mktemp("states")
    found = list[Path]()
    for name, seeds in PARTS.items():
        salt = ("--salt-from", found[0]) if found else ()
        found.append(made(folder, name, [page(seed) for seed in seeds], *salt))
    return found


def new_pages() -> list[dict[str, Any]]:
    """A copy of each page of the states, three novel pages, a copy of one of them, and two pages without text."""
    short = page(0, "short") | {"body": "<p>hello</p>"}
    return [*(page(seed, f"n{seed}") for seed in NEW), page(11, "again"), short, short | {"id": "short2"}]


def holdings(state: Path) -> list[bytes]:
    """All that a state holds."""
    with read_only_state(state) as still:
        return [name + value for name, value in still.items()]


def test_only_pages_that_no_state_contains_are_emitted(
    states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out, verdicts_file = write(tmp_path / "new.jsonl", new_pages()), tmp_path / "out.jsonl", tmp_path / "v.jsonl"
    before = [holdings(state) for state in states]
    summary = filter_json(capsys, file, "--out", out, "--verdicts", verdicts_file, "--against", *states)
    assert [holdings(state) for state in states] == before
    assert [one["id"] for one in read_json(out)] == ["n9", "n10", "n11", "short"]
    found = {line["id"]: line for line in read_json(verdicts_file)}
    originals = {name: line["duplicate_of"] for name, line in found.items() if line["verdict"] == "duplicate"}
    of_states = {f"n{seed}": f"p{seed}" for seeds in PARTS.values() for seed in seeds}
    assert originals == of_states | {"again": "n11", "short2": "short"}
    assert found["n5"]["original_url"] == "https://example.com/5"
    counts = {name: summary[name] for name in ("duplicate", "in_other_states", "state_entries")}
    assert counts == {"duplicate": 10, "in_other_states": 8, "state_entries": 4}


def test_the_pages_are_those_of_queries_and_a_filter_one_after_the_other(
    states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = page(5, "half")
    half["body"] = f"<html><body><p>{article(5)[: len(article(5)) * 9 // 10]}</p></body></html>"
    file = write(tmp_path / "new.jsonl", [half, *new_pages()])
    out, verdicts_file = tmp_path / "out.jsonl", tmp_path / "v.jsonl"
    filter_json(
        capsys, file, "--out", out, "--verdicts", verdicts_file, "--state", tmp_path / "state", "--against", *states
    )
    verdicts = {line["id"]: line for line in read_json(verdicts_file)}
    rest = file
    for number, state in enumerate(states):
        queried, rest = tmp_path / f"q{number}.jsonl", tmp_path / f"rest{number}.jsonl"
        queried_file = file if not number else tmp_path / f"rest{number - 1}.jsonl"
        query = ["query", queried_file, "--state", state, "--verdicts", queried, "--pages", rest]
        assert main([*map(str, query)]) == 0
        for line in read_json(queried):
            if line["verdict"] == "duplicate":
                assert verdicts.pop(line["id"]) == line
    alone = tmp_path / "alone.jsonl"
    filter_json(capsys, rest, "--out", alone, "--verdicts", tmp_path / "v2.jsonl", "--salt-from", states[0])
    assert read(alone) == read(out)
    assert list(verdicts.values()) == read_json(tmp_path / "v2.jsonl")


def test_micro_batches_change_nothing(states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, contents = write(tmp_path / "new.jsonl", new_pages()), list[bytes]()
    for size in (1, 3, 512):
        out = tmp_path / f"{size}.jsonl"
        filter_json(capsys, file, "--verdicts", out, "--set", f"service.batch_pages={size}", "--against", *states)
        contents.append(read(out))
    assert contents[0] == contents[1] == contents[2]


def test_a_page_that_a_state_has_judged_itself_is_dropped_too(
    states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    itself = states[1].parent / "b.jsonl"
    summary = filter_json(capsys, itself, "--against", states[1], "--verdicts", tmp_path / "v.jsonl")
    assert (summary["duplicate"], summary["novel"]) == (3, 0)
    assert [line["duplicate_of"] for line in read_json(tmp_path / "v.jsonl")] == ["p4", "p5", "p6"]


def test_a_new_state_adopts_the_salt_and_can_be_used_with_and_against_the_others(
    states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, state = write(tmp_path / "new.jsonl", new_pages()), tmp_path / "state"
    filter_json(capsys, file, "--state", state, "--against", *states)
    logs = [identity_of(one).log_identity for one in (state, states[0])]
    assert logs[0] is not None
    assert logs[1] is not None
    assert (logs[0].salt, logs[0].id == logs[1].id) == (logs[1].salt, False)
    again = write(tmp_path / "again.jsonl", [page(seed, f"m{seed}") for seed in (2, 9, 20)])
    assert filter_json(capsys, again, "--against", *states, state)["novel"] == 1
    assert filter_json(capsys, file, "--state", state, "--against", *states)["reasons"]["first_attempt"] == 3


def test_a_state_named_twice_is_read_once(
    states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = list[StateQuery]()
    begin = StateQuery.__init__

    def note(query: StateQuery, *arguments: Any) -> None:
        queries.append(query)
        begin(query, *arguments)

    monkeypatch.setattr(StateQuery, "__init__", note)
    (tmp_path / "link").symlink_to(states[0])
    file = write(tmp_path / "new.jsonl", new_pages())
    assert main(["filter", str(file), "--json", "--against", *map(str, [states[0], states[0], tmp_path / "link"])]) == 0
    assert "names a state twice; it is read once" in capsys.readouterr().err
    assert len(queries) == 1


def test_an_empty_state_contains_nothing(
    states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = made(tmp_path, "empty", [], "--salt-from", states[0])
    file = write(tmp_path / "new.jsonl", new_pages())
    assert filter_json(capsys, file, "--against", empty)["in_other_states"] == 0
    assert filter_json(capsys, file, "--against", empty, states[0])["in_other_states"] == len(PARTS["a"])


def test_a_snapshot_and_a_state_that_a_process_fills_are_read(
    states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "snapshot", "--state", str(states[0]), str(tmp_path / "snapshot")]) == 0
    capsys.readouterr()
    owned = tmp_path / "owned"
    shutil.copytree(states[1], owned)
    file = write(tmp_path / "new.jsonl", new_pages())
    done = Event()
    with spotsieve("-", "--state", owned, "--out", tmp_path / "novel.jsonl") as process:
        assert process.stdin is not None

        def feed(pages: IO[bytes]) -> None:
            """The owner serves requests between two batches."""
            with pages:
                for seed in count(100):
                    pages.write(lines([page(seed)]))
                    pages.flush()
                    if done.wait(0.2):
                        return

        with ThreadPoolExecutor(1) as thread:
            feeding = thread.submit(feed, process.stdin)
            try:
                summary = filter_json(capsys, file, "--against", tmp_path / "snapshot", owned)
            finally:
                done.set()
            feeding.result()
        assert process.wait(SECONDS) == 0
    assert summary["in_other_states"] == len(PARTS["a"]) + len(PARTS["b"])


def test_a_page_that_breaks_the_query_of_a_state_is_unchecked_and_reported(
    states: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    break_queries(monkeypatch, [1, 8])
    file, out, verdicts_file = tmp_path / "new.jsonl", tmp_path / "out.jsonl", tmp_path / "v.jsonl"
    write(file, [*new_pages(), page(9, "copy")])
    options = ("--out", out, "--verdicts", verdicts_file, "--state", tmp_path / "own")
    summary = filter_json(capsys, file, *options, "--against", *states, code=EXIT_SUSPICIOUS)
    found = {line["id"]: (line["verdict"], line["reason"], line["duplicate_of"]) for line in read_json(verdicts_file)}
    assert found["n2"] == found["n9"] == ("unchecked", "internal_error", None)
    assert found["n3"] == ("duplicate", "exact", "p3")
    assert found["copy"] == ("duplicate", "exact", "n9"), "the own state indexes the page, so it is emitted once"
    assert [one["id"] for one in read_json(out)] == ["n2", "n9", "n10", "n11", "short"]
    assert (summary["reasons"]["internal_error"], summary["in_other_states"]) == (2, 7)
    assert "failed with an internal error for 2 of 15 pages" in summary["suspicion"]
    (line,) = {record.getMessage() for record in caplog.records}
    assert "the query of another state failed" in line
    assert "(ZeroDivisionError: a page that breaks the query at filter_crawl.py:" in line
    assert "for n2, n9: each is emitted unchecked" in line
    assert all(record.exc_info for record in caplog.records)
    monkeypatch.undo()
    filter_json(capsys, file, *options, "--against", *states, "--force")
    again = {line["id"]: (line["verdict"], line["reason"]) for line in read_json(verdicts_file)}
    assert (again["n2"], again["n9"]) == (("duplicate", "exact"), ("novel", "first_attempt"))


def test_a_page_that_breaks_a_query_is_dropped_if_a_later_state_contains_it(
    states: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    break_queries(monkeypatch, [4], first_only=True)
    file = write(tmp_path / "new.jsonl", new_pages())
    summary = filter_json(capsys, file, "--against", *states)
    assert (summary["in_other_states"], summary["suspicion"]) == (8, "")
    assert "for n5: each is emitted unchecked, unless another state contains it" in caplog.text


Refusal = Callable[[list[Path], Path, pytest.MonkeyPatch], list[object]]


def of_another_revision(states: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    with monkeypatch.context() as patch:
        patch.setattr(digest, "VERDICTS_REVISION", digest.VERDICTS_REVISION - 1)
        return [made(folder, "former", [page(1)], "--salt-from", states[0])]


def with_other_settings(states: list[Path], folder: Path, _: pytest.MonkeyPatch) -> list[object]:
    return [made(folder, "other", [page(1)], "--salt-from", states[0], "--threshold", 0.7)]


def with_another_salt(states: list[Path], folder: Path, _: pytest.MonkeyPatch) -> list[object]:
    return [states[0], made(folder, "salted", [page(1)])]


def beside_an_own_state_with_another_salt(states: list[Path], folder: Path, _: pytest.MonkeyPatch) -> list[object]:
    return [states[0], "--state", made(folder, "own", [page(1)])]


def no_state(_: list[Path], folder: Path, __: pytest.MonkeyPatch) -> list[object]:
    return [folder / "nothing"]


def the_own_state(states: list[Path], folder: Path, _: pytest.MonkeyPatch) -> list[object]:
    shutil.copytree(states[0], folder / "own")
    return [states[1], folder / "own", "--state", folder / "own"]


@pytest.mark.parametrize(
    ("refusal", "code", "says", "then"),
    [
        (of_another_revision, EXIT_STATE, "revision is 3 in the state and 4 in the configuration", "spotsieve migrate"),
        (with_other_settings, EXIT_STATE, "scheme.min_containment is 0.7 in the state", "spotsieve migrate"),
        (with_another_salt, EXIT_SETTING, "must name states with the salt of", "--salt-from"),
        (beside_an_own_state_with_another_salt, EXIT_SETTING, "must name states with the salt of", "--salt-from"),
        (no_state, EXIT_SETTING, "must name a state, and there is none", "name the directory of a state"),
        (the_own_state, EXIT_SETTING, "must name other states than the one that gets the pages", "leave it out"),
    ],
)
def test_unusable_states_are_refused_with_the_next_step(
    states: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    refusal: Refusal,
    code: int,
    says: str,
    then: str,
) -> None:
    given = refusal(states, tmp_path, monkeypatch)
    capsys.readouterr()
    found, error = refused(capsys, write(tmp_path / "new.jsonl", [page(1)]), "--against", *given)
    assert found == code
    assert says in error
    assert then in error
    assert len(error.splitlines()) == 1, error


def test_a_known_file_is_not_filtered_again_against_other_states(
    states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, state = write(tmp_path / "new.jsonl", new_pages()), tmp_path / "state"
    filter_json(capsys, file, "--state", state, "--against", *states[:2])
    for given in ((), ("--against", states[0]), ("--against", *states)):
        code, error = refused(capsys, file, "--state", state, *given)
        assert code == EXIT_SETTING
        assert f"has pages of {file} that were filtered against" in error
        assert "name these states with --against" in error
    assert filter_json(capsys, file, "--state", state, "--against", states[1], states[0])["in_other_states"] == 6
    other = write(tmp_path / "other.jsonl", [page(1, "m1"), page(9, "m9")])
    assert filter_json(capsys, other, "--state", state)["duplicate"] == 1


def test_states_of_a_shard_are_refused_and_settings_stay_without_a_new_salt(states: list[Path], tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(states[1], own)
    settings = Settings()
    assert check_states("against", [states[0]], settings, own) == ([states[0].resolve()], settings)
    with pytest.raises(SettingError, match="must name a state"):
        check_states("against", [tmp_path], settings, None)


def cut(share: float, name: str, host: str) -> dict[str, Any]:
    """A text of two articles, cut to a share of its sentences."""
    sentences = f"{article(1)} {article(3)}".split(". ")
    body = f"<p>{'. '.join(sentences[: round(share * len(sentences))])}.</p>"
    return page(1, name) | {"url": f"https://{host}.example/", "body": body}


@pytest.mark.parametrize(
    ("value", "host", "reason", "replaced"),
    [("policy.keep=longest", "other", "longer", "p1"), ("policy.recrawl=pass", "first", "recrawl", None)],
)
def test_a_copy_that_is_kept_says_which_page_of_a_state_it_replaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str, host: str, reason: str, replaced: str | None
) -> None:
    first = made(tmp_path, "first", [cut(0.68, "p1", "first")], "--set", value)
    empty = made(tmp_path, "empty", [], "--set", value, "--salt-from", first)
    file, verdicts_file = write(tmp_path / "new.jsonl", [cut(0.82, "late", host)]), tmp_path / "v.jsonl"
    for order in ((first, empty), (empty, first)):
        filter_json(capsys, file, "--set", value, "--verdicts", verdicts_file, "--force", "--against", *order)
        (line,) = read_json(verdicts_file)
        assert (line["verdict"], line["reason"], line.get("replaces")) == ("novel", reason, replaced)


def test_a_copy_names_the_page_of_its_run_that_it_replaces_in_every_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--set", "policy.keep=longest", "--verdicts", tmp_path / "v.jsonl", "--force")
    first = made(tmp_path, "first", [cut(0.6, "p1", "first")], *options[:2])
    file = write(tmp_path / "new.jsonl", [cut(0.72, "longer", "other"), cut(0.9, "longest", "third")])
    for reason in ("longer", "first_attempt"):
        summary = filter_json(capsys, file, *options, "--state", tmp_path / "own", "--against", first)
        found = [(line["reason"], line["replaces"]) for line in read_json(tmp_path / "v.jsonl")]
        assert found == [(reason, "p1"), (reason, "longer")]
        assert summary["changed_files"] == {}, "the file was not changed"


@pytest.mark.parametrize("place", [None, "own"])
def test_the_library_says_what_the_filter_says(
    states: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str | None
) -> None:
    file, verdicts_file = write(tmp_path / "new.jsonl", new_pages()), tmp_path / "v.jsonl"
    filter_json(capsys, file, "--verdicts", verdicts_file, "--against", *states)
    pages = [CrawledPage(one["id"], one["url"], one["body"], one["content_type"]) for one in new_pages()]
    with Deduplicator(None if place is None else tmp_path / place, against=states) as seen:
        originals = [seen.query(*one[:3]).original for one in pages]
        verdicts = list(seen.add_many(pages))
        assert seen.known_pages == 4
        assert [seen.add(*one[:3]).kind for one in pages] == [verdict.kind for verdict in verdicts]
    expected = [
        (line["id"], line["verdict"], line["duplicate_of"], line["reason"]) for line in read_json(verdicts_file)
    ]
    found = [(one.id, one.kind, one.original and one.original.id, one.reason) for one in verdicts]
    assert found == expected
    of_states = {f"p{seed}" for seeds in PARTS.values() for seed in seeds}
    assert {original.id for original in originals if original is not None} == of_states


def test_the_library_takes_settings_of_the_first_state_and_refuses_the_same(states: list[Path], tmp_path: Path) -> None:
    strict = made(tmp_path, "strict", [page(1)], "--threshold", 0.7)
    with Deduplicator(against=[strict]) as seen:
        assert seen.add("n1", "https://e.com/", page(1)["body"]).is_duplicate
        assert verdict_settings_text(seen.settings) == identity_of(strict).settings
    for given, error, says in (
        ({"against": [tmp_path]}, SettingError, "must name a state, and there is none"),
        ({"against": str(strict)}, SettingError, "must be a list of paths"),
        ({"against": [strict, states[0]]}, StateError, "other settings"),
        ({"path": states[0], "read_only": True, "against": [states[1]]}, SettingError, "this one is read_only"),
        ({"path": states[0], "against": [states[0]]}, SettingError, "than the one that gets the pages"),
    ):
        with pytest.raises(error, match=says):
            Deduplicator(**given)
    own = tmp_path / "own"
    with Deduplicator(own, index__salt_from=states[0]), pytest.raises(StateError, match="that this process adds to"):
        Deduplicator(against=[own])
