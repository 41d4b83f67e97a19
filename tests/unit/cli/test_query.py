"""`spotsieve query`: files of pages against a state, which it leaves as it is, also while a process works on it."""

import importlib
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spotsieve.state.format.buckets import encode_keys
from spotsieve.state.still.reading import read_only_state
from spotsieve.state.store.rocks import PASSED_TO_ASKED, CheckpointBackend
from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_SETTING, EXIT_STATE
from spotsieve.stream.cli import main
from tests.fixtures.filter_crawl import (
    DATA,
    article,
    filter_json,
    lines,
    page,
    read,
    read_json,
    spotsieve,
    warc_record,
    write_crawl,
)
from tests.fixtures.states.local_states import RECORDS, apply_log, open_state


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state that knows five pages: two novel ones, one too short to judge, and two copies that it dropped."""
    folder = tmp_path_factory.mktemp("made")
    write_crawl(folder / "crawl.jsonl")
    assert main(["filter", str(folder / "crawl.jsonl"), "--state", str(folder / "state"), "--json"]) == 0
    return folder / "state"


def queries() -> list[dict[str, Any]]:
    """A copy, a novel page and its own copy, a copy of the unchecked page, and most of a known page."""
    half = page(1, "half")
    half["body"] = f"<html><body><p>{article(1)[: len(article(1)) * 9 // 10]}</p></body></html>"
    short = page(0, "short3") | {"body": "<p>hello</p>"}
    return [page(1, "again"), page(7), page(7, "seven"), short, half]


def holdings(state: Path) -> list[tuple[str, bytes, bytes]]:
    """All that a state holds, of every family."""
    with read_only_state(state) as still:
        return [(family, *item) for family in ("buckets", "entries", "sources") for item in still.scan(family)]


def query(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> list[dict[str, Any]]:
    assert main(["query", *map(str, arguments)]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_page_gets_the_verdict_it_would_get_next_and_the_state_stays_as_it_was(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_bytes(lines(queries()))
    before = holdings(state)
    found = query(capsys, file, "--state", state)
    assert holdings(state) == before
    for number, (one, response) in enumerate(zip(queries(), found, strict=True)):
        copy, alone = tmp_path / f"state{number}", tmp_path / f"{number}.jsonl"
        shutil.copytree(state, copy)
        alone.write_bytes(lines([one]))
        filter_json(capsys, alone, "--state", copy, "--verdicts", tmp_path / "v.jsonl", "--force")
        assert read_json(tmp_path / "v.jsonl") == [response]
    assert [(line["verdict"], line["duplicate_of"], line["reason"]) for line in found] == [
        ("duplicate", "p1", "exact"),
        ("novel", None, "no_match"),
        ("novel", None, "no_match"),
        ("duplicate", "short", "exact"),
        ("duplicate", "p1", "contained"),
    ]


def test_pages_writes_the_records_of_the_pages_that_the_state_does_not_have(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, novel, verdicts = (tmp_path / name for name in ("queries.jsonl", "novel.jsonl", "verdicts.jsonl"))
    file.write_bytes(lines(queries()))
    assert query(capsys, file, "--state", state, "--pages", "-", "--verdicts", verdicts) == queries()[1:3]
    assert query(capsys, file, "--state", state, "--pages", novel) == read_json(verdicts)
    assert read(novel) == lines(queries()[1:3])


def test_records_around_pages_are_written_in_order_when_many_passes_are_needed(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotsieve.stream.local.query.MOST_RECORD_BYTES", 1)
    parts = []
    for number, seed in enumerate([1, 7, 8, 1]):
        url = f"https://example.com/{number}"
        parts += [warc_record(seed, url, "request"), warc_record(seed, url)]
    file, novel, filtered = (tmp_path / name for name in ("queries.warc", "novel.warc", "filtered.warc"))
    file.write_bytes(b"".join(parts))
    copy = tmp_path / "state"
    shutil.copytree(state, copy)
    settings = ("--set", "service.batch_pages=1")
    query(capsys, file, "--state", state, "--pages", novel, "--json", *settings)
    assert main(["filter", str(file), "--state", str(copy), "--out", str(filtered)]) == 0
    assert read(novel) == read(filtered)
    assert read(novel).count(b"WARC-Type: response") == 2
    assert read(novel).count(b"WARC-Type: request") == 2


def test_the_state_s_own_files_are_its_first_attempts_and_all_lists_every_match(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "v.jsonl"
    (summary,) = query(capsys, state.parent / "crawl.jsonl", "--state", state, "--all", "--verdicts", out, "--json")
    found = read_json(out)
    assert [line["reason"] for line in found] == [
        "first_attempt",
        "first_attempt",
        "contained",
        "too_few_features",
        "exact",
    ]
    assert [[match["id"] for match in line["matches"]] for line in found] == [
        ["p1"],
        ["p2"],
        ["p1"],
        ["short"],
        ["short"],
    ]
    assert found[2]["matches"][0] == {
        "id": "p1",
        "score": found[2]["score"],
        "reason": "contained",
        "url": "https://example.com/1",
    }
    counts = {"pages": 5, "novel": 2, "duplicate": 2, "unchecked": 1, "state_entries": 3, "rejected": 0}
    assert {name: summary[name] for name in counts} == counts


def test_a_query_gives_pages_of_real_sites_the_verdicts_that_the_filter_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = DATA / "news" / "pages.jsonl.xz"
    if not pages.exists():
        pytest.skip(f"needs the labelled data in {DATA}")
    few = tmp_path / "news.jsonl"
    few.write_bytes(b"\n".join(read(pages).splitlines()[:600]))
    filter_json(capsys, few, "--state", tmp_path / "state", "--verdicts", tmp_path / "v.jsonl")
    given = read_json(tmp_path / "v.jsonl")
    found = query(capsys, few, "--state", tmp_path / "state", "--all")
    matches = [[match["id"] for match in line.pop("matches")] for line in found]
    again = [line | ({"reason": "first_attempt"} if line["verdict"] == "novel" else {}) for line in given]
    assert found == again
    named = [line["duplicate_of"] or line["id"] for line in given]
    # All matches are those of now. What hosts have taught since makes an earlier page one more match of a novel page,
    # and leaves a copy without its match if that was template text.
    assert sum(name not in one for name, one in zip(named, matches, strict=True)) <= 2
    assert sum(one[:1] != [name] for name, one in zip(named, matches, strict=True)) <= 4
    assert sum(line["verdict"] == "duplicate" for line in given) > 20


def test_a_state_with_a_horizon_answers_by_the_time_of_each_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, state = tmp_path / "first.jsonl", tmp_path / "state"
    times = ["2024-03-01T00:00:10Z", "2024-03-01T09:00:00Z", "2024-03-01T12:00:00Z", "2024-03-01T02:00:00Z"]
    first.write_bytes(lines([page(1), page(2) | {"fetched_at": times[1]}]))
    filter_json(capsys, first, "--state", state, "--set", "index.horizon_hours=10")
    file = tmp_path / "queries.jsonl"
    queried = [page(1, f"copy{number}") | {"fetched_at": time} for number, time in enumerate(times)]
    queried += [page(2, "other") | {"fetched_at": times[2]}]
    file.write_bytes(lines(queried))
    found = query(capsys, file, "--state", state)
    # at 12:00 the page of midnight lies beyond the horizon of 10 hours; queries move no clock
    assert [line["duplicate_of"] for line in found] == ["p1", "p1", None, "p1", "p2"]


@pytest.mark.timeout(300)
@pytest.mark.guarantee(
    "a query gives the verdicts of the stream and does not change the state",
    fault="a filter works on it meanwhile",
)
def test_a_state_that_a_process_works_on_answers_and_the_process_goes_on(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owned, file = tmp_path / "state", tmp_path / "queries.jsonl"
    shutil.copytree(state, owned)
    file.write_bytes(lines(queries()))
    expected = query(capsys, file, "--state", state)
    with spotsieve("-", "--state", owned, "--out", tmp_path / "novel.jsonl") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        with process.stdin as pages:
            asking = Asking(
                ["query", str(file), "--state", str(owned), "--verdicts", str(tmp_path / "v.jsonl"), "--json"]
            )
            sent = 0
            while asking.is_alive():
                sent += 1
                pages.write(lines([page(100 + sent)]))
                pages.flush()
                asking.join(0.2)
        assert (asking.code, read_json(tmp_path / "v.jsonl")) == (0, expected)
        process.stderr.read()
        assert process.wait() == 0
    assert len(read_json(tmp_path / "novel.jsonl")) == sent


class Asking(threading.Thread):
    """The command, in a thread of its own. code: how it ended"""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(daemon=True)
        self._arguments = arguments
        self.code = -1
        self.start()

    def run(self) -> None:
        self.code = main(self._arguments)


def test_buckets_read_by_key_and_by_a_pass_are_those_of_the_state_that_owns_them(tmp_path: Path) -> None:
    with open_state(tmp_path) as owner:
        apply_log(tmp_path, 0, RECORDS, owner)
        names = [name.removeprefix(b"buckets/") for name, _ in owner.items() if name.startswith(b"buckets/")]
        there = np.frombuffer(b"".join(names), ">u8").astype(np.uint64)
        keys = np.unique(np.concatenate([there[::2], there[::7] + np.uint64(1), [np.uint64(2**64 - 1)]]))
        expected = owner.buckets(keys)
    with read_only_state(tmp_path) as still:
        backend, names = still.backend, encode_keys(keys)
        assert isinstance(backend, CheckpointBackend)
        assert backend.get("buckets", names) == backend.get_by_pass("buckets", names)
        for wanted, in_a_pass in ((keys, True), (keys[:: len(keys) // 3], False), (keys[:0], False)):
            assert still.load_buckets(wanted) is in_a_pass
        assert PASSED_TO_ASKED * len(there) < len(keys)
        still.load_buckets(keys)
        found = still.buckets(keys[1:])
        np.testing.assert_array_equal(found.bounds, expected.bounds[1:] - expected.bounds[1])
        np.testing.assert_array_equal(found.numbers, expected.numbers[expected.bounds[1] :])
        np.testing.assert_array_equal(found.inlines, expected.inlines[expected.bounds[1] :])
        other = np.setdiff1d(there, keys)
        assert (
            still.buckets(other).numbers.tolist()
            == still.buckets(there).take(np.flatnonzero(np.isin(there, other))).numbers.tolist()
        )


def test_a_snapshot_answers_as_its_state_and_a_pass_as_the_keys(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_bytes(lines(queries()))
    expected = query(capsys, file, "--state", state)
    assert main(["state", "snapshot", "--state", str(state), str(tmp_path / "snapshot")]) == 0
    capsys.readouterr()
    monkeypatch.setattr("spotsieve.stream.local.query.QUERY_PAGES", 2)
    for ratio, passes in ((0.0, 1), (1e9, 0)):
        monkeypatch.setattr("spotsieve.state.store.rocks.PASSED_TO_ASKED", ratio)
        out = tmp_path / "v.jsonl"
        (summary,) = query(capsys, file, "--state", tmp_path / "snapshot", "--verdicts", out, "--json", "--force")
        assert read_json(out) == expected
        assert summary["passes_over_all_buckets"] == passes


def test_damaged_files_are_told_and_the_others_asked_about(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged, whole, rejected = tmp_path / "damaged.jsonl.gz", tmp_path / "whole.jsonl", tmp_path / "rejected.jsonl"
    damaged.write_bytes(b"\x1f\x8b\x08\x00 no gzip")
    whole.write_bytes(b"no JSON\n" + lines([page(1, "again")]))
    found = query(capsys, damaged, whole, "--state", state, "--rejected", rejected, code=EXIT_INPUT)
    assert [line["duplicate_of"] for line in found] == ["p1"]
    assert len(read_json(rejected)) == 1


def test_what_is_wrong_is_told_in_one_line(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, config = tmp_path / "queries.jsonl", tmp_path / "other.toml"
    file.write_bytes(lines([page(1)]))
    config.write_text("[scheme]\nmin_containment = 0.9\n")
    for arguments, code, message in (
        (["--state", tmp_path / "none"], EXIT_STATE, "must hold a state"),
        (
            ["--state", state, "--set", "scheme.min_containment=0.9"],
            EXIT_STATE,
            "scheme.min_containment is 0.6 in the state",
        ),
        (["--state", state, "-c", config], EXIT_STATE, "scheme.min_containment is 0.6 in the state"),
        (["--state", state, "--verdicts", file], EXIT_SETTING, "must not go to the same place"),
        (["--state", state, "--set", "scheme.name=nosuch"], EXIT_SETTING, "must be one of"),
    ):
        assert main(["query", str(file), *map(str, arguments)]) == code
        error = capsys.readouterr().err
        assert message in error
        assert "Traceback" not in error


def test_where_the_longest_is_kept_a_longer_copy_would_replace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl, state, file = tmp_path / "crawl.jsonl", tmp_path / "state", tmp_path / "queries.jsonl"
    others = tmp_path / "others.jsonl"
    write_crawl(crawl)
    # on a host of fewer than four pages, a copy that is so much longer is none
    others.write_bytes(lines([page(seed) for seed in range(20, 24)]))
    keep = ("--set", "policy.keep=longest")
    filter_json(capsys, crawl, others, "--state", state, *keep)
    longer = page(1, "longer")
    longer["body"] = f"<html><body><p>{article(1)} {article(11)[: len(article(11)) // 5]}</p></body></html>"
    file.write_bytes(lines([longer, page(2, "again")]))
    found = query(capsys, file, "--state", state)
    filter_json(capsys, file, "--state", state, "--verdicts", tmp_path / "v.jsonl", *keep)
    assert found == read_json(tmp_path / "v.jsonl")
    assert [(line["verdict"], line.get("replaces"), line["duplicate_of"]) for line in found] == [
        ("novel", "p1", None),
        ("duplicate", None, "p2"),
    ]


def test_another_schemes_state_is_asked_by_that_scheme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl, state, file = tmp_path / "crawl.jsonl", tmp_path / "state", tmp_path / "queries.jsonl"
    write_crawl(crawl)
    filter_json(capsys, crawl, "--state", state, "--set", "scheme.name=chain", "--set", "scheme.tables=4")
    file.write_bytes(lines([page(2, "again"), page(9)]))
    found = query(capsys, file, "--state", state)
    assert [(line["scheme"], line["duplicate_of"]) for line in found] == [("chain", "p2"), ("chain", None)]


@pytest.mark.parametrize(
    ("command", "at"),
    [
        ("query FILE --state STATE", "spotsieve.stream.local.query.query_files"),
        ("explain FILE --state STATE", "spotsieve.stream.cli.explain._in_state"),
        ("state export --state STATE", "spotsieve.stream.local.maintenance.export_lines"),
        ("state forget --id p1 --dry-run --state STATE", "spotsieve.state.still.finding.find_entries"),
    ],
)
def test_a_long_read_of_a_state_blocks_no_other_command(
    command: str, at: str, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    html, target = tmp_path / "page.html", tmp_path / "snapshot"
    html.write_text(page(1)["body"], "utf-8")
    file = tmp_path / "queries.jsonl"
    file.write_bytes(lines([page(1)]))
    module, _, name = at.rpartition(".")
    reads = getattr(importlib.import_module(module), name)

    def read_while_another_does(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(at, reads)
        assert main(["query", str(file), "--state", str(state), "--timeout", "5"]) == 0
        assert main(["state", "snapshot", "--state", str(state), str(target), "--timeout", "5"]) == 0
        return reads(*given, **named)

    monkeypatch.setattr(at, read_while_another_does)
    names = {"FILE": str(html if "explain" in command else file), "STATE": str(state)}
    assert main([names.get(word, word) for word in command.split()]) == 0
    assert target.exists()
