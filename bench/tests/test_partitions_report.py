"""The documents of `make partitions`, `make memory` and `make classic` name every broken bound."""

from dataclasses import replace

import pytest

from bench import index_memory, kafka39
from bench.index_memory import MemorySample
from bench.kafka39 import Race
from bench.partitions.report import broken, document
from bench.partitions.run import PartitionsPlan, PartitionsResult

PLAN = PartitionsPlan(partitions=1000, partition_bytes=4 * 2**20, page_bytes=50_000, watch_seconds=45.0)
FOUND = PartitionsResult(
    sent_bytes=2**32,
    opened_seconds=20.0,
    most_rss_mib=420.0,
    most_sockets=26,
    rebalances=1,
    late_loops=0,
    worst_loop_seconds=0.5,
    pages=1000,
    pages_per_second=400.0,
    reopened_seconds=30.0,
    stayed=500,
    movable=500,
)
MACHINE = {"cores": 2, "cpu": "a CPU", "system": "Linux", "python": "3.11", "kafka": "4.1.0"}
LOOK = MemorySample(
    pages=20_000_000,
    rss=700 * 2**20,
    cache=256 * 2**20,
    pinned=2**20,
    memtables=40 * 2**20,
    tables=2**20,
    disk=2**32,
    file_us=90.0,
    probe_us=60.0,
)
BARE = 250 * 2**20


@pytest.mark.parametrize(
    "worse",
    [
        replace(FOUND, opened_seconds=61.0),
        replace(FOUND, most_rss_mib=1300.0),
        replace(FOUND, most_sockets=410),
        replace(FOUND, rebalances=2),
        replace(FOUND, late_loops=1),
        replace(FOUND, pages=0),
        replace(FOUND, stayed=250),
    ],
)
def test_each_thing_that_many_partitions_must_keep_is_told_where_it_is_broken(worse: PartitionsResult) -> None:
    assert len(broken(worse)) == 1
    assert f"DOES NOT HOLD: {broken(worse)[0]}." in document(worse, PLAN, "make partitions", MACHINE, 0.5)


def test_many_partitions_that_kept_everything_say_so() -> None:
    assert "All holds. Measured by `make partitions`" in document(FOUND, PLAN, "make partitions", MACHINE, 0.5)


@pytest.mark.parametrize("worse", [replace(LOOK, cache=300 * 2**20), replace(LOOK, rss=800 * 2**20)])
def test_memory_that_is_not_bounded_is_told(worse: MemorySample) -> None:
    assert len(index_memory.broken([LOOK, worse], BARE)) == 1
    assert "DOES NOT HOLD: " in index_memory.document([LOOK, worse], BARE, "make memory", MACHINE, 0.5)
    assert "All holds." in index_memory.document([LOOK], BARE, "make memory", MACHINE, 0.5)


def test_the_document_of_kafka_3_9_names_the_tests_that_failed_and_a_doubled_output() -> None:
    good, bad = Race(openings=100, unknown=60, doubled=0, gaps=0), Race(openings=100, unknown=60, doubled=1, gaps=0)
    passed, failed = ("tests/a.py", 3, 0, 0, 9.0), ("tests/b.py", 2, 1, 0, 9.0)
    report = kafka39.document([passed], good, bad, "make classic", MACHINE, 0.5)
    assert "All holds." in report, "aiokafka's own question is for comparison"
    assert "DOES NOT HOLD: tests/b.py." in kafka39.document([passed, failed], good, bad, "make classic", MACHINE, 0.5)
    assert "DOES NOT HOLD: the race." in kafka39.document([passed], bad, good, "make classic", MACHINE, 0.5)
