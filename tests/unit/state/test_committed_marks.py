"""The committed offsets of a record are stored once, with its first run; also where the record has no pages."""

import dataclasses
from typing import Any, cast

import numpy as np
import pytest

from spotsieve.state.format.meta import STATE_FORMAT, Identity
from spotsieve.state.horizon import Clock
from spotsieve.state.index import CommitMark, IndexUpdate
from spotsieve.state.log.record import NO_PAGES, checksum_of, encode, encode_configuration, encode_skip
from spotsieve.state.store.state import State
from spotsieve.stream import engine as engine_module
from spotsieve.stream.base.errors import DamagedRecord, SettingsMismatch
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.verdict import no_verdicts
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import empty_update
from tests.reference.signatures import make_signatures

WRITER, DIGEST = bytes(16), bytes(16)
MARKS = (CommitMark("pages", 1, 7), CommitMark("", -1, 0))
HOUR_MS = 3_600_000


class Filed:
    """Replaces a state: keeps the index updates, and stays at position 3. pages_applied: like State.pages_applied"""

    position, entry_count, last_record, salt = 3, 9, 0, 0
    identity = Identity(STATE_FORMAT, "{}", "log")

    def __init__(self, pages_applied: int = 0) -> None:
        self.pages_applied = pages_applied
        self.clock = Clock()
        self.filings: list[tuple[IndexUpdate | None, int, int]] = []

    def file(
        self,
        index_update: IndexUpdate | None,
        position: int,
        last_record: int,
        pages_applied: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self.last_record = last_record
        self.clock = clock or self.clock
        self.filings.append((index_update, position, pages_applied))


def engine_over(state: Filed, monkeypatch: pytest.MonkeyPatch, horizon_hours: int = 0) -> Engine:
    """An engine whose judge files nothing."""

    def judge_record(signatures: Any, _: object, view: Any, *__: object) -> object:
        return no_verdicts(), empty_update(signatures, view.entry_count)

    monkeypatch.setattr(engine_module, "judge_record", judge_record)
    limits = IndexSettings(horizon_hours=horizon_hours)
    return Engine(cast("Any", None), cast("State", state), limits, DIGEST, "log")


def test_a_record_of_marks_alone_is_filed_and_moves_the_position(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Filed()
    applied = engine_over(state, monkeypatch).apply(encode(NO_PAGES, WRITER, 1, DIGEST, MARKS), 3)
    ((index_update, position, _),) = state.filings
    assert index_update is not None
    assert (index_update.committed, index_update.first_number, position) == (MARKS, 9, 4)
    assert (
        len(index_update.pages)
        == len(index_update.keys)
        == len(index_update.buckets)
        == len(applied.verdicts)
        == applied.indexed
        == 0
    )


@pytest.mark.parametrize("done", [0, 2])
def test_the_marks_of_a_record_are_filed_with_its_first_run_alone(done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash between two runs they are already stored: a later run may remember pages below them."""
    times: dict[str, Any] = {"event_time_ms": np.arange(6) // 2 * HOUR_MS}
    signatures = dataclasses.replace(make_signatures(6, seed=1), **times)
    record = encode(signatures, WRITER, 1, DIGEST, MARKS)
    state = Filed(done)
    state.last_record = int.from_bytes(record[-8:], "little")
    state.clock = Clock(0) if done else Clock()
    engine_over(state, monkeypatch, horizon_hours=1).apply(record, 3)
    marks = [index_update.committed for index_update, _, _ in state.filings if index_update is not None]
    assert len(marks) > 1
    assert marks == [() if done else MARKS, *[()] * (len(marks) - 1)]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b'{"a":1}',
        encode_configuration('{"a":1}', WRITER),
        encode_skip(1, DIGEST),
    ],
    ids=["no value", "foreign", "another configuration", "a skip"],
)
def test_records_without_pages_move_the_position_alone(value: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    state = Filed()
    engine = engine_over(state, monkeypatch)
    assert len(engine.apply(value, 3).verdicts) == 0
    assert state.filings == [(None, 4, 0)]
    assert state.last_record == checksum_of(value)
    state.filings.clear()
    assert engine.apply(value, 2).again
    assert state.filings == []


def test_a_damaged_record_is_refused_until_the_engine_is_told_to_skip_it(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Filed()
    engine, value = engine_over(state, monkeypatch), encode(NO_PAGES, WRITER, 1, DIGEST)[:-1] + b"x"
    with pytest.raises(DamagedRecord, match=r"log\[3\] must end in its xxh3-64 checksum"):
        engine.apply(value, 3)
    assert state.filings == []
    engine.skip(value, 3)
    assert state.filings == [(None, 4, 0)]
    assert state.last_record == checksum_of(value)


def test_pages_signed_with_other_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_over(Filed(), monkeypatch)
    for value in (encode(NO_PAGES, WRITER, 1, bytes(range(16))), encode_skip(1, bytes(range(16)))):
        with pytest.raises(SettingsMismatch, match="was signed with other settings"):
            engine.apply(value, 3)


def test_a_record_that_was_applied_before_files_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Filed()
    assert engine_over(state, monkeypatch).apply(encode(NO_PAGES, WRITER, 1, DIGEST, MARKS), 2).again
    assert state.filings == []
