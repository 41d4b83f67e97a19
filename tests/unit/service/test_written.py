"""What a worker wrote comes back undecoded, and nothing else does."""

from spotsieve.state.log.record import decode, encode, encode_and_keep
from spotsieve.stream.service.log.signature_log import RecordCache
from tests.reference.signatures import assert_same, make_signatures

WRITER, DIGEST = bytes(range(16)), bytes(range(16, 32))


def test_a_record_that_comes_back_unchanged_is_not_decoded_again() -> None:
    written, signatures = RecordCache(), make_signatures(9, seed=3)
    value, record = encode_and_keep(signatures, WRITER, 4, DIGEST)
    written.keep(value, record)
    assert written.take(bytes(value)) is record
    assert_same(record.signatures, decode(value).signatures)


def test_a_record_that_comes_a_second_time_is_read_from_its_bytes() -> None:
    written, signatures = RecordCache(), make_signatures(9, seed=3)
    value, record = encode_and_keep(signatures, WRITER, 4, DIGEST)
    written.keep(value, record)
    written.take(value)
    assert written.take(value) == value


def test_what_differs_in_one_byte_or_is_of_others_is_read_from_its_bytes() -> None:
    written, signatures = RecordCache(), make_signatures(9, seed=3)
    value, record = encode_and_keep(signatures, WRITER, 4, DIGEST)
    written.keep(value, record)
    changed = value[:60] + bytes([value[60] ^ 1]) + value[61:]
    assert changed[-8:] == value[-8:], "both claim the same checksum"
    for other in (changed, b"", b"not ours", encode(signatures, WRITER, 5, DIGEST)):
        assert written.take(other) == other
