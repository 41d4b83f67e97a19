"""The keys of the scheme `spotsieve` equal those of the reference implementation, for any signatures."""

import dataclasses

import numpy as np
import pytest

from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.long_cases import mostly_long
from tests.reference.signatures import make_signatures
from tests.reference.spotsieve_keys import Key, keys_of_page

SETTINGS = SpotsieveSettings()
SCHEME = SpotsieveScheme(SETTINGS)


@pytest.mark.parametrize("seed", mostly_long(range(20), 8))
def test_keys_are_those_of_the_reference(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(0, 200))
    signatures = dataclasses.replace(
        make_signatures(count, seed),
        feature_count=random.choice([1, 149, 150, 299, 300, 5_000], count).astype(np.uint32),
        status=random.choice(list(map(int, SignatureStatus)), count, p=_mostly_fingerprinted()).astype(np.uint8),
    )
    probes = SCHEME.probe(signatures)
    assert not probes.limit.any(), "no key has near ones"
    found = list(map(Key, *(column.tolist() for column in (probes.keys, probes.inline, probes.decisive, probes.cap))))
    bounds = probes.bounds.tolist()
    assert len(bounds) == count + 1
    assert bounds[-1] == len(found) == len(probes.limit)
    for row in range(count):
        assert found[bounds[row] : bounds[row + 1]] == keys_of_page(signatures, row, SETTINGS.minima_cap)


def _mostly_fingerprinted() -> list[float]:
    others = len(SignatureStatus) - 1
    return [0.6 if status is SignatureStatus.FINGERPRINTED else 0.4 / others for status in SignatureStatus]
