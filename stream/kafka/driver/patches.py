"""The two tables of changes to aiokafka, and the check of the installed release against them.

Our clients subclass aiokafka's classes and use its private names, which a release may rename at any time. Every row
names each of them, with the signature and the names in its code that the change relies on. A performance patch that
does not fit is left out. A workaround that does not fit would lose or repeat pages, so nothing starts without it.

No row changes a module or a class of aiokafka: other clients of the same process behave as shipped.
"""

import os
from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple

from spotsieve.stream.base.startup import Expectation, first_fault, require

AS_SHIPPED = "AIOKAFKA_AS_SHIPPED"
"""If this environment variable is set, all performance patches are left out: the tests run with and without them."""
TESTED = ">=0.14,<0.15"
"""The releases of aiokafka on which all tests run; pyproject.toml names the same."""


class Patch(NamedTuple):
    """A change to aiokafka.

    name: label of the metric  what: the change  why: what happens without it  effect: as measured
    upstream: what aiokafka knows of it  expects: every name that it relies on
    """

    name: str
    what: str
    why: str
    effect: str
    upstream: str
    expects: tuple[Expectation, ...]

    def fault(self) -> str | None:
        """The first reason why the installed aiokafka does not fit; None if it fits."""
        return first_fault(self.expects)


_CONNECTION, _CLIENT = "aiokafka.conn:AIOKafkaConnection", "aiokafka.client:AIOKafkaClient"
_BATCH, _COORDINATOR = "aiokafka.producer.message_accumulator:BatchBuilder", "aiokafka.consumer.group_coordinator"

PERFORMANCE = (
    Patch(
        "frames",
        "The socket writes a response into memory of its size, and messages are a view of it (connections.py).",
        "aiokafka copies each response four times.",
        "a fetch of 20 KB pages: no copy of its own instead of 4",
        "not reported",
        (
            Expectation(f"{_CONNECTION}.connect", "(self)", uses=("AIOKafkaProtocol", "_protocol", "_closed_fut")),
            Expectation(f"{_CONNECTION}._read", "(self_ref)", uses=("_handle_frame",)),
            Expectation(f"{_CONNECTION}._handle_frame", "(self, resp)", uses=("io", "BytesIO", "_requests", "decode")),
            Expectation("aiokafka.conn:AIOKafkaProtocol.__init__", "(self, closed_fut, *args, loop, **kw)"),
        ),
    ),
    Patch(
        "produce",
        "The parts of a produce request go to the connection as they are (connections.py).",
        "aiokafka joins the request at each level of its schema.",
        "a page of 20 KB: 1 copy instead of 11",
        "not reported",
        (
            Expectation(
                f"{_CONNECTION}.send",
                "(self, request, expect_response=True)",
                uses=("_next_correlation_id", "_client_id", "_versions", "_requests", "_request_timeout", "wait_for"),
            ),
            Expectation("aiokafka.util:wait_for"),
            Expectation("aiokafka.protocol.produce:ProduceRequest.prepare", "(self, versions)"),
            Expectation("aiokafka.protocol.produce:ProduceRequest.build", uses=("_transactional_id", "_required_acks")),
        ),
    ),
    Patch(
        "batch",
        "A record batch is encoded and compressed when it is made, in any thread (prepared_batch.py).",
        "aiokafka encodes it in the event loop right before it sends it.",
        "a page of 20 KB: 11 us instead of 21 us",
        "not reported",
        (
            Expectation(f"{_BATCH}.__init__", uses=("_relative_offset", "_buffer", "_closed")),
            Expectation(f"{_BATCH}._build", "(self)", uses=("_buffer",)),
            Expectation(f"{_BATCH}._set_producer_state", "(self, producer_id, producer_epoch, base_sequence)"),
            Expectation(f"{_BATCH}.record_count", "(self)", uses=("_relative_offset",)),
            *(Expectation(f"aiokafka.codec:{name}_encode") for name in ("gzip", "snappy", "lz4", "zstd")),
        ),
    ),
    Patch(
        "transactions",
        "The next transaction is begun again after 4 ms instead of 20 ms (clients.py).",
        "The broker still writes the markers of the former one, so every second request is repeated.",
        "16 ms less for every second commit",
        "KAFKA-5477; the pause is a constant of aiokafka",
        (
            Expectation(
                "aiokafka.producer.sender:AddPartitionsToTxnHandler.handle_response",
                "(self, resp)",
                uses=("BACKOFF_OVERRIDE",),
            ),
            Expectation(
                "aiokafka.producer.sender:Sender._do_add_partitions_to_txn",
                "(self, tps)",
                uses=("AddPartitionsToTxnHandler",),
            ),
            Expectation("aiokafka:AIOKafkaProducer.__init__", uses=("Sender", "_sender")),
        ),
    ),
    Patch(
        "checksum",
        "The processor computes the checksum of a fetched batch (clients.py).",
        "aiokafka's own code takes 9 us for 20 KB.",
        "14 times as fast",
        "not reported",
        (
            Expectation("aiokafka.consumer.fetcher:PartitionRecords._unpack_records", "(self)", uses=("validate_crc",)),
            Expectation("aiokafka.record.default_records:_DefaultRecordBatchPy.crc"),
        ),
    ),
)
"""Each may be left out: pages take longer."""

WORKAROUNDS = (
    Patch(
        "header names",
        "Header names that are not UTF-8 are escaped (clients.py).",
        "getmany() raises UnicodeDecodeError without partition and offset, and no worker gets past the record.",
        "",
        "not reported",
        (
            Expectation("aiokafka:AIOKafkaConsumer.start", "(self)", uses=("Fetcher", "_fetcher", "bootstrap")),
            Expectation(
                "aiokafka.consumer.fetcher:Fetcher._proc_fetch_request",
                "(self, assignment, node_id, request)",
                uses=("MemoryRecords",),
            ),
            Expectation("aiokafka.record.memory_records:_MemoryRecordsPy.next_batch", uses=("_next_slice",)),
            Expectation("aiokafka.record.default_records:_DefaultRecordBatchPy._maybe_uncompress", uses=("_buffer",)),
            Expectation("aiokafka.record.default_records:_DefaultRecordBatchPy._read_msg", uses=("_buffer", "decode")),
        ),
    ),
    Patch(
        "closed connections",
        "A write to a connection that has ended fails like a broken one (connections.py).",
        "uvloop raises RuntimeError, which ends the task that updates the metadata: messages wait for ever.",
        "",
        "not reported",
        (
            Expectation(f"{_CONNECTION}.send", "(self, request, expect_response=True)", uses=("_writer",)),
            Expectation(f"{_CONNECTION}.close", "(self, reason=None, exc=None)"),
            Expectation("aiokafka.conn:CloseReason.CONNECTION_BROKEN"),
            Expectation("aiokafka.conn:create_conn", uses=("AIOKafkaConnection",)),
            Expectation("aiokafka:AIOKafkaConsumer.__init__", uses=("AIOKafkaClient", "_client")),
            Expectation("aiokafka:AIOKafkaProducer.__init__", uses=("AIOKafkaClient", "client")),
            Expectation("aiokafka.admin:AIOKafkaAdminClient.__init__", uses=("AIOKafkaClient", "_client")),
            Expectation(f"{_CLIENT}.bootstrap", "(self)", uses=("create_conn", "cluster")),
            Expectation(
                f"{_CLIENT}._get_conn",
                uses=("create_conn", "broker_metadata"),
            ),
        ),
    ),
    Patch(
        "fenced brokers",
        "A coordinator is looked up again while the metadata lists no broker (clients.py).",
        "An assertion fails, and a client that starts at such a moment ends the service as a defect.",
        "",
        "not reported",
        (
            Expectation(
                f"{_CLIENT}.coordinator_lookup", "(self, coordinator_type, coordinator_key)", uses=("get_random_node",)
            ),
            Expectation("aiokafka.producer.sender:Sender._find_coordinator", uses=("NodeNotReadyError",)),
            Expectation("aiokafka.cluster:ClusterMetadata.__init__", uses=("controller",)),
        ),
    ),
    Patch(
        "rejected records",
        "A record that a topic rejects (INVALID_RECORD) has an error of its own (clients.py, ../errors.py).",
        "aiokafka reports an unknown error: a log that was compacted while the service ran was waited for, for ever.",
        "",
        "not reported",
        (
            Expectation(
                "aiokafka.producer.sender:SendProduceReqHandler.handle_response",
                "(self, response)",
                uses=("Errors", "for_code", "NoError"),
            ),
            Expectation(
                "aiokafka.producer.sender:Sender._send_produce_req",
                "(self, node_id, batches)",
                uses=("SendProduceReqHandler",),
            ),
            Expectation("aiokafka:AIOKafkaProducer.__init__", uses=("Sender", "_sender")),
        ),
    ),
    Patch(
        "bootstrap again",
        "A client that reaches none of the brokers that it knows asks the bootstrap servers (clients.py).",
        "Brokers that all came back under other addresses are never found; a restart cured it in 3 s.",
        "",
        "KIP-899 (Java client)",
        (
            Expectation(f"{_CLIENT}._metadata_update", "(self, cluster_metadata, topics)", uses=("update_metadata",)),
            Expectation(f"{_CLIENT}._md_synchronizer", uses=("_metadata_update",)),
            Expectation(
                f"{_CLIENT}.__init__",
                uses=(
                    "_client_id",
                    "_conns",
                    "_connections_max_idle_ms",
                    "_request_timeout_ms",
                    "_sasl_mechanism",
                    "_sasl_plain_password",
                    "_sasl_plain_username",
                    "_security_protocol",
                    "_ssl_context",
                ),
            ),
            Expectation("aiokafka.cluster:ClusterMetadata.update_metadata", "(self, metadata)"),
        ),
    ),
    Patch(
        "shared clients",
        "All producers of a worker share nine clients (clients.py, ../clients.py).",
        "Every input partition needs a producer of its own, and aiokafka gives each its own connections.",
        "200 idle partitions: 18 connections for each broker instead of 410",
        "not reported",
        (
            Expectation("aiokafka:AIOKafkaProducer.__init__", uses=("_metadata", "_message_accumulator", "_sender")),
            Expectation("aiokafka.producer.message_accumulator:MessageAccumulator.__init__", uses=("_cluster",)),
            Expectation("aiokafka.producer.sender:Sender.__init__", uses=("client", "_sender_task")),
            # A coordinator that one client has found must be known to the others.
            Expectation(f"{_CLIENT}._get_conn", lacks=("coordinator_metadata",)),
        ),
    ),
    Patch(
        "prefetch",
        "Fetches wait while fetched messages of all partitions exceed kafka.prefetch_bytes (clients.py).",
        "aiokafka limits each partition only.",
        "a backlog of 1,000 partitions: 4.3 GB without it",
        "not reported",
        (
            Expectation("aiokafka.consumer.fetcher:Fetcher._get_actions_per_node", "(self, assignment)"),
            Expectation("aiokafka.consumer.fetcher:Fetcher.__init__", uses=("_records", "_fetch_task")),
            Expectation("aiokafka.consumer.fetcher:FetchResult.__init__", uses=("_partition_records",)),
            Expectation("aiokafka.consumer.fetcher:PartitionRecords.__init__", uses=("_records",)),
        ),
    ),
    Patch(
        "fetching task",
        "A consumer whose fetching task has ended is reported (clients.py).",
        "Every later fetch is empty, for ever.",
        "",
        "aiokafka issue 983",
        (Expectation("aiokafka.consumer.fetcher:Fetcher.__init__", uses=("_fetch_task",)),),
    ),
    Patch(
        "sticky assignor",
        "Each consumer has a sticky assignor class of its own, with its log and generation (clients.py).",
        "The class keeps the partitions of one consumer, and two consumers of a process would share them.",
        "",
        "not reported",
        (
            Expectation(
                "aiokafka.coordinator.assignors.sticky.sticky_assignor:StickyPartitionAssignor.on_generation_assignment",
                "(generation)",
            ),
            Expectation("aiokafka:AIOKafkaConsumer.__init__", uses=("_partition_assignment_strategy",)),
            Expectation(f"{_COORDINATOR}:GroupCoordinator.__init__", uses=("generation",)),
            Expectation(f"{_COORDINATOR}:CoordinatorGroupRebalance.perform_group_join", "(self)", uses=("name",)),
        ),
    ),
    Patch(
        "stable offsets",
        "A committed offset is read with require_stable (requests.py).",
        "The offset may be from before a transaction that has ended, and its pages would be emitted twice.",
        "",
        "not reported; KIP-447 (Java client)",
        (
            Expectation(f"{_COORDINATOR}:GroupCoordinator._send_req", "(self, request)"),
            Expectation(f"{_COORDINATOR}:GroupCoordinator.ensure_coordinator_known", "(self)"),
            Expectation(f"{_COORDINATOR}:GroupCoordinator.coordinator_dead", "(self)"),
            Expectation("aiokafka.protocol.api:Request"),
            Expectation("aiokafka.protocol.types:CompactArray"),
        ),
    ),
    Patch(
        "topic ids",
        "Metadata is requested in a version with topic ids, without auto-creation (requests.py).",
        "A topic that is recreated at once looks like the former one: its worker had no partition for 302 s.",
        "",
        "not reported; KIP-516 (Java client)",
        (
            Expectation("aiokafka.protocol.api:Request.prepare", "(self, versions)"),
            Expectation("aiokafka.protocol.metadata:MetadataRequest_v4"),
            Expectation("aiokafka.protocol.types:AbstractType"),
        ),
    ),
)
"""All are needed: without one of them pages are lost, repeated or never read, or memory has no bound."""


@cache
def left_out() -> Mapping[str, str]:
    """The performance patches that are not applied, by name, each with the reason."""
    if os.environ.get(AS_SHIPPED):
        return MappingProxyType({patch.name: f"{AS_SHIPPED} is set" for patch in PERFORMANCE})
    faults = ((patch.name, patch.fault()) for patch in PERFORMANCE)
    return MappingProxyType({name: fault for name, fault in faults if fault is not None})


def require_workarounds() -> None:
    """Raise SettingError if a workaround does not fit the installed aiokafka."""
    for patch in WORKAROUNDS:
        require("aiokafka", TESTED, patch.expects, f" (workaround {patch.name!r})")


def rebound(function: Callable[..., Any], **replaced: object) -> Any:
    """A copy of a function that finds these objects under the given names of its module.

    So our classes use our parts, and all other users of aiokafka its own.
    """
    assert isinstance(function, FunctionType)
    copy = FunctionType(
        function.__code__,
        {**function.__globals__, **replaced},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    return copy
