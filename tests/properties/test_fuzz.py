"""Whatever bytes come from outside, every reader gives what it may give, or a documented error; `make fuzz` goes on."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.fuzz.mutations import mutated
from bench.fuzz.seeds import SEEDS
from bench.fuzz.targets import TARGETS
from tests.fixtures.long_cases import mostly_long
from tests.reference.signatures import record_of_broken_columns

EXAMPLES = {"markup": 100, "message": 150}
FOUND = {
    "state-value": [b"\x03\x01" + text for text in (b"", b"{", b"{} {}", b"\xa4", b"[" * 9_000, b"[]", b"{}", b"null")],
    "manifest": [b"", b"{", b"null", b"[" * 9_000, b'{"files":[{"bytes":1,"name":7,"xxh3_128":"0"}]}'],
    "export": [b"[" * 90_000, b'{"spotsieve_state":' + b"[" * 90_000],
    "log-record": [record_of_broken_columns(status=np.array([9], np.uint8))[:-8]],
}
"""What once came out as another error, or was taken for sound."""


@pytest.mark.parametrize(
    ("name", "share"), mostly_long([(name, share) for share in (2, 1) for name in TARGETS], len(TARGETS))
)
@pytest.mark.guarantee("hostile input crashes nothing", fault="mutated messages, files, pages, log records and states")
def test_mutated_inputs_give_what_they_may_or_a_documented_error(name: str, share: int) -> None:
    target, seeds = TARGETS[name], SEEDS[name]()
    for data in (*seeds, *FOUND.get(name, ())):
        target.run(data)

    @settings(max_examples=EXAMPLES.get(name, 200) // share, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False) | st.integers().map(random.Random))
    def run(chosen: random.Random) -> None:
        target.run(mutated(chosen, seeds, target.pieces))

    run()


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_of_few_bytes_give_what_they_may_or_a_documented_error(name: str) -> None:
    for first in range(256):
        for rest in (b"", b"\0", b"\xff" * 3, b"{}"):
            TARGETS[name].run(bytes([first]) + rest)
    TARGETS[name].run(b"")
