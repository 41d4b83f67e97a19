"""What the scheme `chain` decides at its limits: which pages have a fingerprint, and which digests are one."""

import hashlib
import struct

import xxhash

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.sign.schemes.simhash import ChainScheme

TEXT = b"the alpha beta gamma delta epsilon a zeta eta theta iota kappa is lambda mu nu xi omicron"


def page_of(body: bytes) -> Page:
    return Page(source="pages", partition=0, offset=0, url="", body=body, markup=False, event_time_ms=0)


def scheme_of(min_features: int) -> ChainScheme:
    return ChainScheme(ChainSettings(min_features=min_features))


def test_a_page_of_exactly_min_features_has_a_fingerprint_and_one_of_fewer_has_none() -> None:
    count = int(scheme_of(1).sign([page_of(TEXT)]).feature_count[0])
    assert count > 1
    enough, too_few = (scheme_of(limit).sign([page_of(TEXT)]) for limit in (count, count + 1))
    assert enough.status[0] == SignatureStatus.FINGERPRINTED
    assert enough.fingerprint[0] != 0
    assert (too_few.status[0], too_few.fingerprint[0]) == (SignatureStatus.TOO_FEW_FEATURES, 0)


def test_a_digest_is_blake2b_of_the_body_s_xxh3_and_of_all_that_was_read() -> None:
    signed = scheme_of(1).sign([page_of(TEXT)])
    body, no_text_digest = xxhash.xxh3_128_intdigest(TEXT).to_bytes(16, "little"), bytes(16)
    read = struct.pack("<QI", signed.fingerprint[0], signed.feature_count[0]) + no_text_digest + bytes(signed.language)
    assert signed.digest[0].tobytes() == hashlib.blake2b(body + read, digest_size=16, person=b"page").digest()


def test_a_digest_of_a_page_without_features_is_blake2b_of_the_body() -> None:
    signed = scheme_of(1_000).sign([page_of(TEXT)])
    assert signed.digest[0].tobytes() == hashlib.blake2b(TEXT, digest_size=16, person=b"body").digest()
