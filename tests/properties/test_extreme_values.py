"""A decoder accepts nothing that the kernels behind it have no room for, and no value that a consumer does not know."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spotsieve.state.format.common_text import changes_key, encode_changes, read_common_text
from spotsieve.state.format.meta import (
    MAX_ENTRIES,
    MAX_SHARDS,
    STATE_FORMAT,
    Identity,
    StatePart,
    StateProgress,
    decode_clock,
    decode_identity,
    decode_marks,
    decode_pending_verdict,
    decode_progress,
    encode_identity,
    encode_marks,
    encode_pending_verdict,
    encode_progress,
    pending_verdict_key,
    rules_of_settings,
)
from spotsieve.state.horizon import STEPS, StepMark
from spotsieve.state.index import COMMON_WINDOW, CommonWindows, PendingVerdict, no_common_text
from spotsieve.state.log.record import decode, encode, encode_forget
from spotsieve.state.removal import ForgottenPage, Sweep
from spotsieve.stream.base.errors import CorruptRecord, DamagedRecord, StateError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.digest import digest_of_settings, verdict_settings_text
from spotsieve.stream.base.settings.model import IndexSettings, Settings
from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS
from spotsieve.stream.base.signature import MAX_URL_BYTES
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.engine import open_engine
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles import log_records
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.conftest import REPOSITORY
from tests.fixtures.kernels import compiled_by
from tests.fixtures.pages.scheme_settings import settings_named
from tests.reference.signatures import make_signatures

CASES = 60
PLACE = pending_verdict_key(0, 0, 0)
SOUND = PendingVerdict(3, 0.5, Reason.CONTAINED, 1)


@pytest.mark.compiles
@pytest.mark.timeout(1800)
@pytest.mark.guarantee("hostile input crashes nothing", fault="values of a state beyond the bounds of kernels")
def test_kernels_stay_within_their_arrays_for_every_value_that_is_decoded() -> None:
    checked = compiled_by("bounds-checked", NUMBA_BOUNDSCHECK="1")
    command = [sys.executable, "-m", "tests.fixtures.states.extreme_values", str(CASES)]
    ran = subprocess.run(command, cwd=REPOSITORY, env=checked, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    counts = dict(line.split(": ") for line in ran.stdout.splitlines())
    kinds = [f"{kind} {outcome}" for kind in ("memories", "entries", "rounds") for outcome in ("accepted", "rejected")]
    assert all(int(counts[kind]) >= CASES // 6 for kind in (*kinds, "consumed")), counts


def _forget(number: int, offset: int) -> bytes:
    return encode_forget([ForgottenPage(number, "pages", 0, offset, (1,))], bytes(16), 0, bytes(16))


def _url_of(size: int) -> bytes:
    signatures = make_signatures(1, seed=1)
    return encode(dataclasses.replace(signatures, urls=(b"a" * size,)), bytes(16), 0, bytes(16))


def _changes(key: int) -> list[tuple[bytes, bytes]]:
    slots = np.zeros((1, COMMON_WINDOW), np.uint64)
    slots[0, 0] = 1
    changes = encode_changes(no_common_text(), CommonWindows(np.array([0]), slots))
    return [(changes_key(1), changes), (changes_key(key), changes)]


BEYOND: dict[str, tuple[Callable[[int], object], int]] = {
    "the entry of a pending verdict": (
        lambda value: decode_pending_verdict(PLACE, encode_pending_verdict(SOUND._replace(original=value))),
        MAX_ENTRIES - 1,
    ),
    "the reason of a pending verdict": (
        lambda value: decode_pending_verdict(PLACE, encode_pending_verdict(SOUND._replace(reason=value))),
        max(Reason),
    ),
    "the keys of a pending verdict": (
        lambda value: decode_pending_verdict(PLACE, encode_pending_verdict(SOUND._replace(found_by=value))),
        127,
    ),
    "the offset of a pending verdict": (
        lambda value: decode_pending_verdict(pending_verdict_key(0, 0, value), encode_pending_verdict(SOUND)),
        2**63 - 1,
    ),
    "entries": (lambda value: decode_progress(encode_progress(StateProgress(1, value, 0))), MAX_ENTRIES),
    "the floor of a sweep": (
        lambda value: decode_progress(encode_progress(StateProgress(1, 5, 0, sweep=Sweep(0, value)))),
        5,
    ),
    "the last mark": (
        lambda value: decode_clock(StateProgress(1, 5, 0, 0, 9), encode_marks([StepMark(1, 2), StepMark(2, value)])),
        5,
    ),
    "the steps of a window": (
        lambda value: decode_marks(encode_marks([StepMark(0, 0), StepMark(value, 1)])),
        STEPS,
    ),
    "the number of a shard": (
        lambda value: decode_identity(encode_identity(Identity(STATE_FORMAT, "{}", "log", StatePart(value, 4)))),
        3,
    ),
    "shards": (
        lambda value: decode_identity(encode_identity(Identity(STATE_FORMAT, "{}", "log", StatePart(0, value)))),
        MAX_SHARDS,
    ),
    "changes of common text": (lambda value: read_common_text(_changes(value)), 2),
    "the entry of a forgotten page": (lambda value: decode(_forget(value, 0)), MAX_ENTRIES - 1),
    "the length of a URL": (lambda value: decode(_url_of(value)), MAX_URL_BYTES),
}


@pytest.mark.parametrize("name", BEYOND)
def test_the_greatest_value_is_decoded_and_the_next_one_is_refused(name: str) -> None:
    read, most = BEYOND[name]
    read(most)
    with pytest.raises(CorruptRecord):
        read(most + 1)


@pytest.mark.parametrize("read", [lambda: decode(_forget(0, -1)), lambda: decode(_negative_offset())])
def test_a_page_before_offset_0_is_refused(read: Callable[[], object]) -> None:
    with pytest.raises(CorruptRecord):
        read()


def _negative_offset() -> bytes:
    from unittest import mock

    from spotsieve.state.log import pages_body

    signatures = dataclasses.replace(make_signatures(1, seed=1), offset=np.array([-1]))
    with mock.patch.object(pages_body, "_check_sizes"):
        return encode(signatures, bytes(16), 0, bytes(16))


@pytest.mark.parametrize("name", SCHEME_SETTINGS)
def test_the_settings_of_a_state_tell_which_texts_its_entries_have(name: str) -> None:
    settings = Settings(scheme=settings_named(name))
    shape, scheme = rules_of_settings(verdict_settings_text(settings)).shape, scheme_of(settings.scheme)
    assert shape is not None
    assert shape.words in (scheme.sign([]).sketch.shape[1], None)
    assert shape.own == (scheme.host_thresholds is not None)


def _narrow_record(settings: Settings) -> bytes:
    """A record of one page whose sketch has one word less than the scheme."""
    signatures = scheme_of(settings.scheme).sign([Page("pages", 0, 0, "", b"one two three " * 40, False, 0)])
    narrow = dataclasses.replace(signatures, sketch=signatures.sketch[:, 1:].copy())
    return encode(narrow, bytes(16), 0, digest_of_settings(settings))


def test_a_record_whose_sketches_have_another_width_is_refused_by_the_engine(tmp_path: Path) -> None:
    index = IndexSettings(directory=tmp_path, write_buffer_mb=1)
    settings = Settings(scheme=settings_named("minhash"), index=index)
    engine = open_engine(settings, "log")
    try:
        rule = r"log\[7\] must hold sketches of 42 words, .*, and holds sketches of 41"
        with pytest.raises(DamagedRecord, match=rule):
            engine.apply(_narrow_record(settings), 7)
        assert engine.state.position == 0
    finally:
        engine.state.close()


async def test_a_record_whose_sketches_have_another_width_is_refused_by_the_roles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings(scheme=settings_named("minhash"))

    async def nothing_skipped(*_: object) -> set[int]:
        return set()

    monkeypatch.setattr(log_records, "read_skipped_offsets", nothing_skipped)
    records = log_records.LogRecords(settings, Metrics(), Waits(Metrics()))
    try:
        with pytest.raises(StateError, match=r"must hold sketches of 42 words, .*; every worker stops here"):
            await records._decoded(_narrow_record(settings), 7)
    finally:
        await records.close()
