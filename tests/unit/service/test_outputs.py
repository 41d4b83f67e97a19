"""Each message of a slice goes to its output with its headers, and one that is too large for a topic is rejected."""

import random
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import orjson
import pytest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord, TopicPartition

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.runtime import ServiceSettings
from spotsieve.stream.base.signature import Entry
from spotsieve.stream.judge import KEEP_FIRST, Policy, judge
from spotsieve.stream.kafka.topics import LEAST_OUTPUT_BYTES, OUTPUT_ROLES, TopicFacts
from spotsieve.stream.service.pages.microbatch import MicroBatch, micro_batches, sign
from spotsieve.stream.service.pages.outputs import (
    SHORT_URL_BYTES,
    OutputBatches,
    OutputBuilder,
    header_text,
)
from spotsieve.stream.service.pages.ownership import OwnedPartition
from spotsieve.stream.service.serial_executor import SHORT_BYTES
from spotsieve.stream.sign.intake import Decoder
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.pages.crawls import html_of
from tests.fixtures.pages.spotsieve_pages import STORIES, newspaper

LIMIT = 4_000
PARTITION = TopicPartition("pages", 0)
SETTINGS = Settings.model_validate({"input": {"format": "html"}})


def outputs_of(
    *values: bytes | None,
    key: bytes | None = b"http://a.example",
    times: Sequence[int] = (),
    config: Mapping[str, str] = MappingProxyType({}),
    compression: str = "none",
) -> tuple[OutputBatches, dict[str, int]]:
    """The outputs for these pages where every topic takes LIMIT bytes, and the records in each topic.

    times: of the messages, in milliseconds  config: more settings of the output topics
    """
    records = [
        ConsumerRecord("pages", 0, offset, time, 0, key, value, None, 3, 3, ())
        for (offset, value), time in zip(enumerate(values), times or [0] * len(values), strict=True)
    ]
    (batch,) = micro_batches({PARTITION: records}, {PARTITION: OwnedPartition(PARTITION)}, 100, 10**9)
    judged(batch)
    taken = TopicFacts(1, {"max.message.bytes": str(LIMIT), **config})
    settings = SETTINGS.model_copy(update={"service": ServiceSettings.model_validate({"compression": compression})})
    outputs = OutputBuilder(settings, dict.fromkeys(OUTPUT_ROLES, taken)).build(0, [(batch, batch.slices[0])])
    counts: dict[str, int] = {}
    for topic, _, builder in outputs.batches:
        counts[topic] = counts.get(topic, 0) + builder.record_count()
    return outputs, counts


@pytest.mark.parametrize(
    ("compression", "codec", "short"),
    [("none", "producer", True), ("none", "uncompressed", True), ("zstd", "producer", False), ("none", "gzip", False)],
)
def test_only_few_pages_that_are_not_compressed_are_written_in_the_event_loop(
    compression: str, codec: str, short: bool
) -> None:
    settings = SETTINGS.model_copy(update={"service": ServiceSettings.model_validate({"compression": compression})})
    facts = dict.fromkeys(OUTPUT_ROLES, TopicFacts(1, {}))
    facts["rejected"] = TopicFacts(1, {"compression.type": codec})
    assert OutputBuilder(settings, facts).is_short(SHORT_BYTES) is short
    assert not OutputBuilder(settings, facts).is_short(SHORT_BYTES + 1)


def judged(batch: MicroBatch) -> None:
    scheme = scheme_of(SETTINGS.scheme)
    sign(batch, Decoder(SETTINGS.input), scheme)
    if batch.signatures is None:
        return
    batch.verdicts, _ = judge(batch.signatures, scheme, memory_state(), 16, 64)


async def test_a_page_that_no_output_can_hold_is_a_dead_letter_that_names_it() -> None:
    noise = random.Random(7).randbytes(2 * LIMIT)
    outputs, counts = outputs_of(noise, b"<p>small</p>")
    assert outputs.dead_letters == {"too_large": 1}
    assert counts == {"pages.novel": 1, "pages.rejected": 1}


async def test_a_page_that_fits_compressed_is_let_through() -> None:
    outputs, counts = outputs_of(b"<p>small</p>", b"<p>the same word again</p>" * LIMIT, b"<p>other</p>")
    assert not outputs.dead_letters
    assert counts == {"pages.novel": 3}
    assert [builder.record_count() for _, _, builder in outputs.batches] == [1, 1, 1]


def records_in(outputs: OutputBatches) -> dict[str, list[tuple[bytes | None, bytes | None]]]:
    """By topic, key and value of each record."""
    found: dict[str, list[tuple[bytes | None, bytes | None]]] = {}
    for topic, _, builder in outputs.batches:
        records = MemoryRecords(bytes(builder._build())).next_batch()
        found.setdefault(topic, []).extend((one.key, one.value) for one in records)
    return found


@pytest.mark.parametrize("size", [LIMIT - 100, 10 * LIMIT])
async def test_a_tombstone_with_a_large_key_stays_a_tombstone(size: int) -> None:
    key = b"the same key again " * (size // 19)
    outputs, _ = outputs_of(None, key=key)
    assert records_in(outputs) == {"pages.novel": [(key, None)]}
    assert (outputs.tombstones, outputs.dead_letters) == (1, {})


async def test_a_tombstone_that_no_output_can_hold_is_a_dead_letter_that_names_it() -> None:
    outputs, _ = outputs_of(None, key=random.Random(3).randbytes(2 * LIMIT))
    assert records_in(outputs) == {"pages.rejected": [(None, b"")]}
    assert (outputs.tombstones, outputs.dead_letters) == (0, {"too_large": 1})


@pytest.mark.parametrize(
    ("policy", "key"), [("delete", None), ("compact", b"pages/0/0"), ("compact,delete", b"pages/0/0")]
)
@pytest.mark.parametrize("value", [b"<p>a page</p>", None, b"no utf-8 \xff\x00" * LIMIT])
async def test_a_message_without_a_key_has_its_page_id_as_key_in_a_compacted_output(
    policy: str, key: bytes | None, value: bytes | None
) -> None:
    outputs, _ = outputs_of(value, key=None, config={"cleanup.policy": policy})
    ((record,),) = records_in(outputs).values()
    assert record == (key, value)


async def test_a_key_that_is_too_large_for_a_compacted_output_is_replaced_by_the_page_id() -> None:
    noise = random.Random(7).randbytes(2 * LIMIT)
    outputs, _ = outputs_of(noise, key=noise, config={"cleanup.policy": "compact"})
    assert records_in(outputs) == {"pages.rejected": [(b"pages/0/0", b"")]}


@pytest.mark.parametrize("size", [LIMIT // 2, LIMIT - 400])
async def test_batches_stay_below_their_topics_limit(size: int) -> None:
    noise = random.Random(9)
    pages = [noise.randbytes(size) for _ in range(6)]
    outputs, counts = outputs_of(*pages)
    assert counts == {"pages.novel": 6}
    sizes = np.array([len(builder._build()) for _, _, builder in outputs.batches])
    assert (sizes <= LIMIT).all()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_pages_that_cannot_be_compressed_pass_up_to_the_limit(compression: str) -> None:
    """Compressing makes them longer: the broker would refuse the batch, and no worker would ever get past it."""
    limit, noise = 1_048_588, random.Random(5)
    pages = [noise.randbytes(limit - short) for short in (600, 500, 400, 350, 325, 300)]
    outputs, counts = outputs_of(*pages, config={"max.message.bytes": str(limit)}, compression=compression)
    assert max(len(builder._build()) for _, _, builder in outputs.batches) <= limit
    assert counts == {"pages.novel": 6}


@pytest.mark.parametrize("codec", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("keep", ["first", "longest"])
async def test_a_page_is_judged_only_if_its_output_can_hold_it_with_any_verdict(codec: str, keep: str) -> None:
    config, noise = {"compression.type": codec}, random.Random(5)
    body = noise.randbytes(LIMIT)
    settings = Settings.model_validate({"input": {"format": "html"}, "policy": {"keep": keep}})
    facts = TopicFacts(1, {"max.message.bytes": str(LIMIT), **config})
    builder = OutputBuilder(settings, dict.fromkeys(OUTPUT_ROLES, facts))
    # No codec makes these ids much shorter.
    topic, label = ("".join(noise.choices(string.printable[:94], k=2_000)) for _ in range(2))
    replaced = None if keep == "first" else Entry(topic, 0, 0, 0, "", label)
    judged_sizes, emitted_sizes = list[int](), list[int]()
    for size in range(1_000, LIMIT, 40):
        record = ConsumerRecord("pages", 0, 0, 0, 0, b"http://a.example", body[:size], None, 3, 3, ())
        error = builder.undeliverable(record)
        assert error is None or error.reason.value == "too_large"
        judged_sizes += [size] * (error is None)
        emitted_sizes += [size] * (not outputs_of(body[:size], config=config)[0].dead_letters)
        if error is None:
            (batch,) = micro_batches({PARTITION: [record]}, {PARTITION: OwnedPartition(PARTITION)}, 100, 10**9)
            judged(batch)
            assert batch.verdicts is not None
            batch.verdicts = replace(batch.verdicts, replaces=[replaced])
            assert not builder.build(0, [(batch, batch.slices[0])]).dead_letters, size
    # Steps of 40 bytes. Headers of other verdicts are 20 bytes longer, or have both ids of the page that it replaces.
    assert 0 <= max(emitted_sizes) - max(judged_sizes) <= (60 if keep == "first" else 2_160)


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
async def test_what_a_topic_compresses_itself_is_sent_as_the_topic_has_it(codec: str) -> None:
    """The broker compresses other batches again, and refuses those that are then too large, which ends every worker."""
    topic = {"compression.type": codec}
    outputs, counts = outputs_of(b"<p>small</p>", b"<p>the same word again</p>" * LIMIT, config=topic)
    number = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
    built = [bytes(builder._build()) for _, _, builder in outputs.batches]
    assert {MemoryRecords(batch).next_batch().compression_type for batch in built} == {number}
    assert max(map(len, built)) <= LIMIT
    fits = codec in ("gzip", "lz4", "zstd")
    assert counts == ({"pages.novel": 2} if fits else {"pages.novel": 1, "pages.rejected": 1})
    assert outputs.dead_letters == ({} if fits else {"too_large": 1})


@pytest.mark.parametrize(
    ("topic", "kept"),
    [
        ({}, (True, True, True, True)),
        ({"message.timestamp.before.max.ms": "86400000"}, (False, True, True, True)),
        ({"message.timestamp.after.max.ms": "3600000"}, (True, True, False, True)),
        ({"message.timestamp.difference.max.ms": "86400000"}, (False, True, False, True)),
        ({"message.timestamp.before.max.ms": "1", "message.timestamp.type": "LogAppendTime"}, (True,) * 4),
        ({"retention.ms": "86400000"}, (False, True, True, True)),
        ({"retention.ms": "0", "cleanup.policy": "compact,delete"}, (False, False, True, True)),
        ({"retention.ms": "-1"}, (True,) * 4),
        ({"retention.ms": "0", "cleanup.policy": "compact"}, (True,) * 4),
        ({"retention.ms": "0", "message.timestamp.type": "LogAppendTime"}, (True,) * 4),
    ],
)
async def test_a_time_that_an_output_refuses_or_deletes_becomes_now(
    topic: dict[str, str], kept: tuple[bool, ...]
) -> None:
    """Such a page would end every worker (InvalidTimestampError), or be deleted before it is read."""
    now = int(time.time() * 1000)
    times = [978_307_200_000, now - 60_000, now + 10**11, -1]
    outputs, _ = outputs_of(*(f"<p>page {n}</p>".encode() for n in range(4)), times=times, config=topic)
    (batch,) = [MemoryRecords(bytes(builder._build())).next_batch() for _, _, builder in outputs.batches]
    made = [record.timestamp for record in batch]
    assert [first == second for first, second in zip(made, times, strict=True)] == list(kept)
    assert all(one in times or now <= one < now + 60_000 for one in made)


async def test_a_message_without_a_time_takes_none_from_the_next_one() -> None:
    outputs, _ = outputs_of(b"<p>one</p>", b"<p>two</p>", b"<p>three</p>", times=[-1, 1_700_000_000_000, -1])
    (batch,) = [MemoryRecords(bytes(builder._build())).next_batch() for _, _, builder in outputs.batches]
    assert [record.timestamp for record in batch] == [-1, 1_700_000_000_000, -1]


async def test_a_report_that_a_topic_takes_only_short_is_sent_short() -> None:
    page, key = html_of(1).encode(), b"http://a.example/" + bytes(range(1, 31)) * 60
    limits = {"max.message.bytes": str(LEAST_OUTPUT_BYTES), "compression.type": "uncompressed"}
    outputs, counts = outputs_of(page, page, key=key, config=limits)
    assert counts == {"pages.novel": 1, "pages.duplicates": 1}
    ((_, value),) = records_in(outputs)["pages.duplicates"]
    report = orjson.loads(value or b"")
    assert (report["page"]["id"], report["duplicate_of"]["page"]) == ("pages/0/1", "pages/0/0")
    assert len(report["page"]["url"]) == len(report["duplicate_of"]["url"]) == SHORT_URL_BYTES


Made = tuple[int, bytes | None, bytes | None, dict[str, bytes]]


def key_of(value: bytes | None) -> bytes | None:
    """A page without an address is the one that is rejected here."""
    return None if value == b"nowhere" else b"http://a.example\x1b[2J"


def made_of(
    mode: str,
    partition: int,
    *slices: list[bytes | None],
    longer_by: float = KEEP_FIRST,
    key: Callable[[bytes | None], bytes | None] = key_of,
    headers: Sequence[tuple[str, bytes]] = (("trace", b"7"),),
) -> dict[str, list[Made]]:
    """By topic, (partition, key, value, headers) of the outputs for consecutive slices of an input partition."""
    settings = Settings.model_validate({"input": {"format": "html"}, "service": {"mode": mode}})
    place = TopicPartition("pages", partition)
    work, offset, state, scheme = [], 0, memory_state(), scheme_of(settings.scheme)
    for values in slices:
        records = [
            ConsumerRecord("pages", partition, offset + n, 0, 0, key(value), value, None, 3, 3, tuple(headers))
            for n, value in enumerate(values)
        ]
        offset += len(values)
        (batch,) = micro_batches({place: records}, {place: OwnedPartition(place)}, 100, 10**9)
        sign(batch, Decoder(settings.input), scheme)
        if batch.signatures is not None:
            batch.verdicts, index_update = judge(batch.signatures, scheme, state, 16, 64, Policy(longer_by))
            state.file(index_update, state.position + 1, 0)
        work.append((batch, batch.slices[0]))
    facts = {role: TopicFacts(2, {}) for role in ("novel", "duplicates", "rejected")}
    made: dict[str, list[Made]] = {}
    for topic, to, builder in OutputBuilder(settings, facts).build(partition, work).batches:
        builder.close()
        records_of = MemoryRecords(bytes(builder._build())).next_batch()
        made.setdefault(topic, []).extend((to, one.key, one.value, dict(one.headers)) for one in records_of)
    return made


async def test_each_message_keeps_its_headers_and_goes_where_its_verdict_sends_it_in_order() -> None:
    first, second = b"<p>first</p>", b"<p>second</p>"
    made = made_of("filter", 3, [first, None, first], [second, b"nowhere"])
    verdict = {
        "spotsieve-verdict": b"unchecked",
        "spotsieve-reason": b"too_few_features",
        "spotsieve-scheme": b"spotsieve",
    }
    assert [(to, value) for to, _, value, _ in made["pages.novel"]] == [(1, first), (1, None), (1, second)]
    headers = [headers for _, _, _, headers in made["pages.novel"]]
    assert headers == [
        {"trace": b"7", **verdict, "spotsieve-page": b"pages/3/0"},
        {"trace": b"7"},
        {"trace": b"7", **verdict, "spotsieve-page": b"pages/3/3"},
    ]
    ((_, key, report, none),) = made["pages.duplicates"]
    assert key == key_of(first)
    assert none == {}
    assert b'"duplicate_of":{"id":"pages/3/0","page":"pages/3/0"' in (report or b"")
    ((to, _, value, reasons),) = made["pages.rejected"]
    assert (to, value, reasons["trace"], reasons["spotsieve-reason"]) == (1, b"nowhere", b"7", b"no_url")


@pytest.mark.parametrize("mode", ["filter", "annotate"])
async def test_headers_of_ours_in_a_message_reach_no_output(mode: str) -> None:
    own = (
        "replaces",
        "replaces-page",
        "duplicate-of",
        "score",
        "verdict",
        "reason",
        "error",
        "page",
        "scheme",
        "later",
    )
    forged = [(f"spotsieve-{name}", b"forged") for name in own] + [("Spotsieve-Replaces", b"forged")]
    sent = [b"<p>first</p>", b"<p>first</p>", None, b"nowhere"]
    plain = made_of(mode, 0, sent, headers=[("trace", b"7"), ("spotsieve", b"8")])
    made = made_of(mode, 0, sent, headers=[forged[0], ("trace", b"7"), *forged, ("spotsieve", b"8")])
    assert made == plain
    assert sum(len(records) for records in made.values()) == (5 if mode == "annotate" else 4)


async def test_annotated_duplicates_pass_too_and_name_their_original() -> None:
    page = b"<p>first</p>"
    made = made_of("annotate", 0, [page, page])
    assert [value for _, _, value, _ in made["pages.novel"]] == [page, page]
    headers = made["pages.novel"][1][3]
    assert headers["trace"] == b"7"
    assert headers["spotsieve-verdict"] == b"duplicate"
    assert headers["spotsieve-duplicate-of"] == b"pages/0/0"
    assert headers["spotsieve-score"] == b"1.0000"


def test_a_header_is_one_line_without_control_characters_cut_at_a_whole_character() -> None:
    assert header_text("a\r\nb\x1b[2J") == rb"a\x0d\x0ab\x1b[2J"
    assert header_text("a" + "é" * 1000) == b"a" + "é".encode() * 511


def of_its_length(value: bytes | None) -> bytes:
    """A URL on a host for pages of this length: on a new host, a page with fresh text is no copy."""
    return b"http://%d.example" % len(value or b"")


@pytest.mark.parametrize("mode", ["filter", "annotate"])
async def test_a_longer_copy_says_in_its_headers_which_page_it_replaces(mode: str) -> None:
    story = [STORIES["English", 1], STORIES["English", 1] + STORIES["English", 2][:1]]
    short, longer = (newspaper(paragraphs).encode() for paragraphs in story)
    made = made_of(mode, 1, [short, longer], [longer], longer_by=1.1, key=of_its_length)["pages.novel"]
    assert [value for _, _, value, _ in made] == [short, longer, longer][: 2 if mode == "filter" else 3]
    headers = [{name: text for name, text in found.items() if "replaces" in name} for *_, found in made]
    assert headers[:2] == [{}, {"spotsieve-replaces": b"pages/1/0", "spotsieve-replaces-page": b"pages/1/0"}]
    assert made[1][3]["spotsieve-reason"] == b"longer"
    if mode == "annotate":
        assert made[2][3]["spotsieve-duplicate-of"] == b"pages/1/1"
        assert not headers[2]
