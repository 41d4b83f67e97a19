"""Records of version 2, as the release before wrote them: a migration reads which pages they name, in their order."""

import pytest
import xxhash

from spotsieve.state.log.former import decode_moved, is_former
from spotsieve.state.log.record import decode, encode_skip
from spotsieve.state.removal import ForgottenPage
from spotsieve.stream.base.errors import DamagedRecord, StateError
from spotsieve.stream.base.signature import page_ids_of

PAGES = bytes.fromhex(
    "0201000102030405060708090a0b0c0d0e0f0102000000000000101112131415161718191a1b1c1d1e1f010000000100"
    "020500706167657300000700000002010000000000000068e5cf8b010000887766554433221100ffeeddccbbaa990807"
    "060504030201100f0e0d0c0b0a09ddccbbaa00000000efcdab896745230100032c010000020015000100050000000000"
    "000058575655545352516867666564636261010000000000000068747470733a2f2f6578616d706c652e6f72672f6161"
    "780a220c4534219f"
)
FORGET = bytes.fromhex(
    "0202000102030405060708090a0b0c0d0e0f0102000000000000101112131415161718191a1b1c1d1e1f020000000201"
    "0000000000000700000001020000000000000500020000007061676573"
    "0500000000000000ffffffffffffffff0300000000000000ffffffff0000000000000000040000000000612fc3a448ff279b1836e4dc"
)


def test_a_former_record_names_its_pages() -> None:
    assert is_former(PAGES)
    record = decode_moved(PAGES)
    assert (record.writer, record.sequence, record.settings_digest) == (bytes(range(16)), 513, bytes(range(16, 32)))
    assert page_ids_of(record.signatures) == [("pages", 7, 258)]
    assert record.signatures.event_time_ms.tolist() == [1_700_000_000_000]
    assert (record.signatures.urls, record.signatures.labels) == ((b"https://example.org/a",), (b"a",))
    with pytest.raises(StateError, match="must be record version 3, got 2"):
        decode(PAGES)


def test_a_former_record_names_what_is_forgotten() -> None:
    assert decode_moved(FORGET).forgotten[0] == ForgottenPage(258, "pages", 7, 513, (5, 2**64 - 1))
    assert len(decode_moved(FORGET).forgotten) == 2


def test_a_former_record_that_lacks_what_it_declares_is_damaged() -> None:
    for place, value in ((42, 2), (46, 9), (2 + 16 + 8 + 16 + 7, 200)):
        body = bytearray(PAGES[:-8])
        body[place] = value
        broken = bytes(body) + xxhash.xxh3_64_intdigest(bytes(body)).to_bytes(8, "little")
        with pytest.raises(DamagedRecord, match="record version 2"):
            decode_moved(broken, "log", 5)
    assert decode_moved(encode_skip(7, bytes(16))).skips == 7
    assert decode_moved(b"anything").foreign
