"""A backfill gives the verdicts, the records and the state of `spotsieve filter`, wherever it is stopped or killed."""

import contextlib
import itertools
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode, encode
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import EXIT_OK, EXIT_SUSPICIOUS, InputError, SettingError, StateError
from spotsieve.stream.base.settings.digest import digest_of_settings, verdict_settings_text
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import page_ids_of
from spotsieve.stream.cli import main
from spotsieve.stream.files import check_inputs
from spotsieve.stream.local.backfill import reader, rounds, shard
from spotsieve.stream.local.backfill.outcomes import DIRECTORY, OutcomeStore
from spotsieve.stream.local.backfill.run import Backfill
from spotsieve.stream.local.backfill.run_file import RunFile
from spotsieve.stream.local.backfill.schedule import TRIES
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.fixtures.backfills import PAGES, after, backfilled, logged_pages, records_out, verdict_rows, write_inputs
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.states.broken_shards import STEPS, STEPS_WITH_HOSTS, Breaking
from tests.reference.signatures import make_signatures, without_sketches

SETTINGS: dict[str, dict[str, str]] = {
    "spotsieve": {},
    "minhash": {"scheme.name": "minhash"},
    "manku": {"scheme.name": "manku", "policy.keep": "longest"},
}


@dataclass(frozen=True)
class Filtered:
    """What `spotsieve filter` made of the files."""

    names: list[str]
    settings: Settings
    directory: Path

    def verdicts(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.directory / "verdicts.jsonl").read_bytes().splitlines()]

    def records(self, form: str) -> bytes:
        out = self.directory / f"out.{form}"
        if form == "parquet":
            return json.dumps(parquet.read_table(out).to_pylist()).encode()
        return out.read_bytes()


def filtered(directory: Path, name: str, form: str, names: list[str] | None = None, code: int = EXIT_OK) -> Filtered:
    directory.mkdir()
    names, given = names or write_inputs(directory, form), SETTINGS[name]
    flags = [flag for pair in given.items() for flag in ("--set", "=".join(pair))]
    outputs = ["--out", str(directory / f"out.{form}"), "--verdicts", str(directory / "verdicts.jsonl")]
    assert main(["filter", *names, *outputs, "--state", str(directory / "state"), *flags]) == code
    # States are compared byte for byte, so each backfill adopts the salt of this one.
    return Filtered(names, load_settings(None, {}, {**given, "index.salt_from": directory / "state"}), directory)


@pytest.fixture(scope="module")
def of_filter(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Filtered]:
    base = tmp_path_factory.mktemp("filtered")
    cases = [(name, "jsonl") for name in SETTINGS] + [("spotsieve", "warc"), ("spotsieve", "parquet")]
    return {(name, form): filtered(base / f"{name}-{form}", name, form) for name, form in cases}


def remembered(state: Path, settings: Settings) -> dict[bytes, bytes]:
    """All that a state holds, but for the checksum and the number of its last record: logs are cut otherwise."""
    opened = disk_state(state, verdict_settings_text(settings), LocalLog.name, settings.index)
    try:
        return {name: value for name, value in opened.items() if name != b"meta/progress"}
    finally:
        opened.close()


def assert_as_filter(directory: Path, expected: Filtered, form: str) -> None:
    assert verdict_rows(directory) == expected.verdicts()
    assert records_out(directory) == expected.records(form)
    assert remembered(directory / "state", expected.settings) == remembered(
        expected.directory / "state", expected.settings
    )


@pytest.mark.guarantee("a backfill gives the verdicts and the state of `spotsieve filter`", fault="none; any shards")
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(
    ("name", "form"),
    [("spotsieve", "jsonl"), ("spotsieve", "warc"), ("spotsieve", "parquet"), ("minhash", "jsonl"), ("manku", "jsonl")],
)
def test_a_backfill_gives_what_filter_gives(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered], name: str, form: str, shards: int
) -> None:
    expected = of_filter[name, form]
    summary = backfilled(expected.names, tmp_path, expected.settings, shards)
    assert summary.pages == len(PAGES)
    assert summary.rejected.total() == (3 if form == "jsonl" else 0), "a line of each file is no page"
    assert_as_filter(tmp_path, expected, form)


@pytest.mark.guarantee(
    "a backfill gives the verdicts and the state of `spotsieve filter`", fault="stopped after any batch; readers lost"
)
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_a_stopped_run_goes_on_where_it_was(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered], seed: int, shards: int
) -> None:
    dice, expected, runs = random.Random(seed), of_filter["spotsieve", "jsonl"], 0
    while True:
        losses = iter(range(TRIES - 1))
        summary = backfilled(
            expected.names,
            tmp_path,
            expected.settings,
            dice.choice([1, shards]),
            stopped=after(dice.randrange(1, 30)),
            lose=lambda *_, losses=losses: dice.random() < 0.04 and next(losses, None) is not None,
            batch_pages=dice.choice([1, 3, 20]),
        )
        runs += 1
        if not summary.interrupted:
            break
    assert runs > 1
    assert summary.pages == len(PAGES)
    assert_as_filter(tmp_path, expected, "jsonl")


@pytest.mark.guarantee(
    "a backfill gives the verdicts and the state of `spotsieve filter`", fault="a reader is lost at any call"
)
@pytest.mark.parametrize(("late", "step"), mostly_long([(2, 5), (2, 1), (0, 1), (30, 1)], 1))
def test_a_reader_that_is_lost_at_any_call_has_no_page_judged_twice(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered], late: int, step: int
) -> None:
    expected, at = of_filter["spotsieve", "jsonl"], 0
    while True:
        directory, calls = tmp_path / str(at), itertools.count()
        backfilled(
            expected.names,
            directory,
            expected.settings,
            lose=lambda *_, at=at, calls=calls: next(calls) == at,
            late=late,
        )
        assert logged_pages(directory) == len(PAGES)
        assert_as_filter(directory, expected, "jsonl")
        if next(calls) <= at:
            break  # No call was lost: that was the last one.
        at += step
    assert at > 3 * len(expected.names)


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("method", ["open", "sign", "write", "finish"])
def test_an_input_that_kills_each_of_its_readers_ends_the_run_and_is_named(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered], method: str, readers: int
) -> None:
    expected, messages = of_filter["spotsieve", "jsonl"], list[str]()

    def lose(called: str, number: int) -> bool:
        return called == method and number == 1

    with pytest.raises(InputError, match="ended the process that reads it, 3 times") as caught:
        backfilled(expected.names, tmp_path, expected.settings, lose=lose, readers=readers, tell=messages.append)
    assert caught.value.name == expected.names[1]
    assert len(messages) == TRIES - 1
    assert all("is lost, and a new one replaces it" in text and expected.names[1] in text for text in messages)
    backfilled(expected.names, tmp_path, expected.settings)
    assert_as_filter(tmp_path, expected, "jsonl")


def test_each_input_may_lose_a_reader_or_two(tmp_path: Path, of_filter: dict[tuple[str, str], Filtered]) -> None:
    expected, losses, messages = of_filter["spotsieve", "jsonl"], Counter[int](), list[str]()

    def lose(method: str, number: int) -> bool:
        losses[number] += method == "finish"
        return method == "finish" and losses[number] < TRIES

    backfilled(expected.names, tmp_path, expected.settings, lose=lose, tell=messages.append)
    assert len(messages) == (TRIES - 1) * len(expected.names)
    assert_as_filter(tmp_path, expected, "jsonl")


@pytest.mark.parametrize("at", [1, 4, 9])
def test_a_batch_that_cannot_be_written_ends_the_run_and_is_written_by_the_next(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered], monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    expected, calls = of_filter["spotsieve", "jsonl"], itertools.count(1)
    whole = vars(reader)["write_outcomes"]

    def full_once(*arguments: Any) -> None:
        if next(calls) == at:
            raise StateError("a part", "cannot be written: No space left on device")
        whole(*arguments)

    monkeypatch.setattr(reader, "write_outcomes", full_once)
    with pytest.raises(StateError, match="No space left"):
        backfilled(expected.names, tmp_path, expected.settings)
    backfilled(expected.names, tmp_path, expected.settings)
    assert_as_filter(tmp_path, expected, "jsonl")


STEPS_OF_SHARD, STEPS_OF_JUDGING = (
    ("find_shard_candidates", "confirm", "resolve_hosts", "index_round"),
    ("resolve", "check_speculation", "merge_resolutions"),
)


@pytest.mark.guarantee(
    "a backfill gives the verdicts and the state of `spotsieve filter`",
    fault="pages cause internal errors in any step of any shard",
)
@pytest.mark.parametrize(
    ("name", "shards"), mostly_long([("spotsieve", 3), ("minhash", 1), ("spotsieve", 1), ("minhash", 3)], 2)
)
def test_pages_that_break_the_code_are_passed_on_as_filter_does(
    tmp_path: Path,
    of_filter: dict[tuple[str, str], Filtered],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    shards: int,
) -> None:
    whole, dice = of_filter[name, "jsonl"], random.Random(f"{name} {shards}")
    with contextlib.closing(LocalLog(whole.directory / "state")) as log:
        ids = [page_id for _, record in log.read_from(0) for page_id in page_ids_of(decode(record).signatures)]
    steps = (*(STEPS_WITH_HOSTS if name == "spotsieve" else STEPS), "index_round")
    breaking = {page_id: (steps[at % len(steps)], dice.randrange(5)) for at, page_id in enumerate(dice.sample(ids, 12))}
    Breaking(breaking).patch(monkeypatch, ((shard, STEPS_OF_SHARD), (rounds, STEPS_OF_JUDGING)))
    expected = filtered(tmp_path / "filtered", name, "jsonl", whole.names, EXIT_SUSPICIOUS)
    assert sum(line["reason"] == "internal_error" for line in expected.verdicts()) > len(steps)
    directory = tmp_path / "backfilled"
    assert backfilled(whole.names, directory, expected.settings, shards, stopped=after(9)).interrupted
    # Shards that are new are filled with the rounds of before, and spare what was spared then.
    summary = backfilled(whole.names, directory, expected.settings, 5 - shards)
    assert_as_filter(directory, expected, "jsonl")
    assert summary.exit_code == EXIT_SUSPICIOUS


class Killed(BaseException):
    """The process ends here, as far as the files can tell."""


KILLED_AT: list[tuple[type, str, bool]] = [
    (LocalLog, "append", True),  # logged and not judged
    (OutcomeStore, "append", False),  # judged and not kept
    (OutcomeStore, "append", True),  # kept and not indexed
    (State, "file", True),  # indexed and not written
    (RunFile, "finish", False),  # written and not done
    (RunFile, "complete", False),  # all done
]


@pytest.mark.guarantee("a backfill gives the verdicts and the state of `spotsieve filter`", fault="killed at each step")
@pytest.mark.parametrize(("where", "method", "after"), KILLED_AT)
def test_a_killed_run_goes_on_where_it_was(
    tmp_path: Path,
    of_filter: dict[tuple[str, str], Filtered],
    monkeypatch: pytest.MonkeyPatch,
    where: type,
    method: str,
    after: bool,
) -> None:
    expected = of_filter["spotsieve", "jsonl"]
    done = getattr(where, method)
    # A run that is complete is not gone on with: the next one is another run.
    for count in (1,) if where is RunFile and method == "complete" else (1, 3):
        calls: Iterator[int] = iter(range(count - 1))

        def kill(*arguments: Any, calls: Iterator[int] = calls, **named: Any) -> Any:
            if next(calls, None) is not None:
                return done(*arguments, **named)
            if after:
                done(*arguments, **named)
            raise Killed

        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(where, method, kill)
            backfilled(expected.names, tmp_path, expected.settings, shards=count)
    summary = backfilled(expected.names, tmp_path, expected.settings)
    assert summary.pages == len(PAGES)
    assert_as_filter(tmp_path, expected, "jsonl")


def logged_and_not_judged(directory: Path, settings: Settings, pages: int) -> None:
    """What a `filter` of another file leaves that is killed after it has logged these pages."""
    digest = digest_of_settings(settings)
    with contextlib.closing(LocalLog(directory / "state")) as log:
        log.append(encode(without_sketches(make_signatures(pages, seed=7)), bytes(range(16)), 0, digest))


@pytest.mark.guarantee(
    "a backfill gives the verdicts and the state of `spotsieve filter`", fault="others write in between; index lost"
)
@pytest.mark.parametrize("lose_index", [False, True])
def test_a_run_knows_its_own_pages_among_those_of_others(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered], lose_index: bool
) -> None:
    expected, before = of_filter["spotsieve", "jsonl"], tmp_path / "before.jsonl"
    before.write_bytes(b"".join(b'{"url":"http://a.example/%d","body":"before %d"}\n' % (n, n) for n in range(9)))
    salt = ["--salt-from", str(expected.settings.index.salt_from)]
    assert main(["filter", str(before), "--state", str(tmp_path / "state"), *salt]) == EXIT_OK
    stopped_run(tmp_path, expected)
    for _ in range(2):
        logged_and_not_judged(tmp_path, expected.settings, 5)
        if lose_index:
            shutil.rmtree(tmp_path / "state" / "index")
        backfilled(expected.names, tmp_path, expected.settings, stopped=after(5))
    summary = backfilled(expected.names, tmp_path, expected.settings)
    assert summary.pages == len(PAGES)
    assert verdict_rows(tmp_path) == expected.verdicts()
    assert records_out(tmp_path) == expected.records("jsonl")


def test_filter_goes_on_with_the_state_of_a_backfill(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = of_filter["spotsieve", "jsonl"]
    backfilled(expected.names[:2], tmp_path, expected.settings, shards=2)
    out = tmp_path / "third.jsonl"
    assert main(["filter", expected.names[2], "--verdicts", str(out), "--state", str(tmp_path / "state")]) == EXIT_OK
    lines = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert lines == expected.verdicts()[-len(lines) :]
    assert main(["state", "verify", str(tmp_path / "state")]) == EXIT_OK
    assert "intact" in capsys.readouterr().out


def test_shards_are_refused_over_a_state_whose_rounds_are_not_known(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered]
) -> None:
    expected = of_filter["spotsieve", "jsonl"]
    salt = ["--salt-from", str(expected.settings.index.salt_from)]
    assert main(["filter", expected.names[0], "--state", str(tmp_path / "state"), *salt]) == EXIT_OK
    with pytest.raises(StateError, match="remove --shards"):
        backfilled(expected.names[1:], tmp_path, expected.settings, shards=2)
    backfilled(expected.names[1:], tmp_path, expected.settings)
    assert verdict_rows(tmp_path) == expected.verdicts()[-len(verdict_rows(tmp_path)) :]


def stopped_run(directory: Path, expected: Filtered) -> None:
    summary = backfilled(expected.names, directory, expected.settings, stopped=after(9), batch_pages=3)
    assert summary.interrupted


def test_a_run_goes_on_only_with_its_inputs_and_settings(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered]
) -> None:
    expected = of_filter["spotsieve", "jsonl"]
    stopped_run(tmp_path, expected)
    with pytest.raises(SettingError, match=r"with other inputs: 3 then, 2 now, .*; repeat that command; or delete"):
        backfilled(expected.names[:2], tmp_path, expected.settings)
    wanted = [{name: f"{tmp_path}/{name}{end}" for name in ("out", "verdicts", "rejected")} for end in ("/", "2")]
    scheme = scheme_in_scope(expected.settings)
    assert Backfill(tmp_path / "state", expected.settings, scheme, check_inputs(expected.names), wanted[0]).resumed
    with pytest.raises(SettingError, match="with other outputs: --out was "):
        Backfill(tmp_path / "state", expected.settings, scheme, check_inputs(expected.names), wanted[1])
    other = load_settings(None, {}, {"index.bucket_cap": "7"})
    with pytest.raises(SettingError, match="with other settings"):
        backfilled(expected.names, tmp_path, other)


def test_a_run_of_another_release_is_no_hindrance_once_it_is_complete(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered]
) -> None:
    expected = of_filter["spotsieve", "jsonl"]
    backfilled(expected.names, tmp_path, expected.settings)
    file = tmp_path / "state" / DIRECTORY / "run.json"
    run = json.loads(file.read_bytes()) | {"version": 1}
    file.write_text(json.dumps(run | {"complete": False}))
    with pytest.raises(StateError, match="has the run file of another release"):
        backfilled(expected.names, tmp_path, expected.settings)
    file.write_text(json.dumps(run))
    assert not backfilled(expected.names, tmp_path, expected.settings).interrupted


def test_an_input_that_changed_under_a_run_is_refused(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered]
) -> None:
    expected = of_filter["spotsieve", "jsonl"]
    names = write_inputs(tmp_path, "jsonl")
    stopped_run(tmp_path, replace(expected, names=names))
    lines = Path(names[0]).read_bytes()
    Path(names[0]).write_bytes(lines.replace(b"https://www", b"https://xxx", 1))
    with pytest.raises(InputError, match="must not change during a run, and its pages differ"):
        backfilled(names, tmp_path, expected.settings)


def test_an_input_that_changes_while_it_is_read_ends_the_run(
    tmp_path: Path, of_filter: dict[tuple[str, str], Filtered]
) -> None:
    names = write_inputs(tmp_path, "jsonl")
    plain = Path(names[0])

    def change(method: str, _: int) -> bool:
        if method == "write":
            plain.write_bytes(plain.read_bytes().replace(b"https://", b"HTTPS://"))
        return False

    with pytest.raises(InputError, match=f"{plain.name} must not change during a run"):
        backfilled(names, tmp_path, of_filter["spotsieve", "jsonl"].settings, lose=change)
    assert [part.name for part in (tmp_path / "out").glob("0*") if not part.name.endswith(".partial")] == []
