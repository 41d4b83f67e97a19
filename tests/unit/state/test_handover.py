"""The records that end a log and open another one, and what every reader of them does."""

import pytest

from spotsieve.state.format.meta import seal
from spotsieve.state.log.bodies import Handover, Origin, migration_writer, origin_of
from spotsieve.state.log.record import KIND_HANDOVER, decode, encode, encode_configuration, encode_handover, tells_open
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.errors import DamagedRecord, StateError
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.states.local_states import DIGEST, SETTINGS, different_pages
from tests.reference.signatures import one_page

WRITER = bytes(range(16))
MOVED = migration_writer("signatures")


def engine() -> Engine:
    return Engine(scheme_of(SETTINGS.scheme), memory_state(), SETTINGS.index, DIGEST, "signatures")


@pytest.mark.guarantee("no worker judges a log that has ended", fault="workers still append behind its end")
def test_nobody_passes_the_record_that_ends_a_log() -> None:
    reader = engine()
    reader.apply(encode(different_pages(1), WRITER, 0, DIGEST), 0)
    before = dict(reader.state.items())
    for _ in range(2):
        with pytest.raises(StateError, match=r"signatures\[1\] ends here and goes on in the log 'signatures-2'"):
            reader.apply(encode_handover(Handover(True, "signatures-2"), DIGEST), 1)
    assert dict(reader.state.items()) == before
    opening = engine()
    opening.apply(encode_handover(Handover(False, "before", 7), DIGEST), 0)
    assert (opening.state.position, opening.state.entry_count) == (1, 0)


def test_a_log_that_a_migration_has_begun_is_open_once_it_says_so() -> None:
    expected = {
        encode_configuration("{}", MOVED): None,
        b"a stranger's": None,
        encode(one_page(), MOVED, 1, DIGEST): False,
        encode_handover(Handover(False, "signatures", 9), DIGEST): True,
        encode(one_page(), WRITER, 1, DIGEST): True,
    }
    assert [tells_open(decode(value)) for value in expected] == list(expected.values())
    assert migration_writer("signatures") == MOVED != migration_writer("other")
    assert len(MOVED) == 16


@pytest.mark.parametrize("origin", [Origin(0, 0), Origin(2**47, 65_535), Origin(12, 3)])
def test_a_sequence_gives_back_its_origin(origin: Origin) -> None:
    assert origin_of(origin.sequence) == origin
    assert origin.sequence < 2**64


@pytest.mark.parametrize("body", [b"", bytes(8), bytes(9), b"\x02" + bytes(8) + b"log", bytes(9) + b"\xff"])
def test_a_handover_of_another_body_is_damaged(body: bytes) -> None:
    head = encode(one_page(), WRITER, 1, DIGEST)[:46]
    with pytest.raises(DamagedRecord, match="must hold the handover that it declares"):
        decode(seal(head[:5] + bytes([KIND_HANDOVER]) + head[6:] + body))
