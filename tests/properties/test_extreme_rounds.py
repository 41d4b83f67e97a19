"""A role refuses a record of a round that its kernels have no room for, or judges by it; no page is blamed for it."""

import random
from typing import Any

import numpy as np
import pytest

from spotsieve.stream.base.errors import DamagedRecord
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.records.frame import (
    RoundRange,
    RoundRecord,
    decode_body,
    decode_round_record,
    encode_round_record,
)
from spotsieve.stream.sharding.rounds import LogPlace
from tests.fixtures.states.extreme_rounds import columns_of, extreme, run
from tests.fixtures.states.round_records import FIRST, RANGE, SETTINGS, SHARE, kept

CASES = 200


@pytest.mark.parametrize("name", list(kept()))
def test_a_decoder_reads_or_refuses_every_extreme_value(name: str) -> None:
    of = kept()[name]
    found = decode_body(RoundRecord(of.kind, SETTINGS, SHARE, RANGE, of.body), of.kind, of.read, "matches", 5)
    refused = 0
    for at in range(columns_of(lambda: of.write(found))):
        for seed in range(40):
            with extreme(at, random.Random(seed)):
                body = of.write(found)
            try:
                read = decode_body(RoundRecord(of.kind, SETTINGS, SHARE, RANGE, body), of.kind, of.read, "matches", 5)
            except DamagedRecord:
                refused += 1
            else:
                of.write(read)
    assert refused or name == "guess"


@pytest.mark.guarantee("hostile input crashes nothing", fault="values of a record between roles that no role writes")
def test_an_extreme_value_is_refused_or_judged_by_and_blames_no_page() -> None:
    counts = run(CASES)
    assert min(counts["rounds accepted"], counts["rounds rejected"]) >= CASES // 6, counts


@pytest.mark.parametrize(
    ("changed", "is_read"),
    [
        ({"end": LogPlace(2**63 - 1, 0)}, True),
        ({"end": LogPlace(2**63, 0)}, False),
        ({"start": LogPlace(2**64 - 1, 2**32 - 1), "end": LogPlace(2**64 - 1, 2**32 - 1)}, False),
        ({"first_number": 2**40}, True),
        ({"first_number": 2**40 + 1}, False),
        ({"floor": FIRST}, True),
        ({"floor": FIRST + 1}, False),
        ({"watermark_ms": 2**63 - 1}, True),
    ],
)
def test_a_frame_names_places_that_a_log_and_a_state_can_have(changed: dict[str, Any], is_read: bool) -> None:
    range_: RoundRange = RANGE._replace(**changed)
    record = encode_round_record(4, SETTINGS, SHARE, range_)
    if is_read:
        assert decode_round_record(record, SETTINGS, 3, "verdicts", 0).range == range_
        return
    with pytest.raises(DamagedRecord):
        decode_round_record(record, SETTINGS, 3, "verdicts", 0)


def test_a_number_that_is_no_reason_any_more_is_refused() -> None:
    gaps = sorted(set(range(max(Reason))) - set(Reason))
    assert gaps
    of = kept()["outcome"]
    message = RoundMessage(RoundRecord(of.kind, SETTINGS, SHARE, RANGE, of.body), "verdicts", 5, 0)
    assert message.outcome().verdicts.reason[0] == Reason.CONTAINED
    column = np.array([Reason.CONTAINED, Reason.LONGER, Reason.EMPTY], np.uint8).tobytes()
    assert of.body.count(column) == 1
    body = of.body.replace(column, bytes([gaps[0]]) + column[1:])
    changed = RoundMessage(message.record._replace(body=body), "verdicts", 5, 0)
    with pytest.raises(DamagedRecord, match="must hold the columns"):
        changed.outcome()
