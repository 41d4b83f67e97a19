"""Decides what to do about each error of the broker or of aiokafka: retry, restart with new clients, or stop.

Errors that stop the process are explained here: which setting they concern, and what to do.
"""

import enum

from aiokafka import errors
from aiokafka.errors import KafkaError

from spotsieve.stream.base.errors import BrokerError, BrokerTrouble, SpotsieveError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.runtime import KafkaSettings

PERMISSION_ERRORS = (
    errors.TopicAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailed,
    errors.ClusterAuthorizationFailedError,
)


class BrokersFencedError(errors.InvalidReplicationFactorError):  # type: ignore[misc]  # aiokafka's class is untyped
    """The brokers that could hold the replicas of a topic are fenced for a moment."""


class InvalidRecordError(errors.BrokerResponseError):  # type: ignore[misc]  # aiokafka's class is untyped
    """The topic rejects a record, such as a record without a key after it was compacted. aiokafka lacks this code."""

    errno = 87
    message = "INVALID_RECORD"


class ProduceErrors:
    """The errors of a produce response, for aiokafka's code that looks them up in its own module."""

    NoError = errors.NoError

    @staticmethod
    def for_code(code: int) -> type[KafkaError]:
        """The error class of a code."""
        return InvalidRecordError if code == InvalidRecordError.errno else errors.for_code(code)


def creation_error(code: int, text: str) -> type[KafkaError]:
    """The error class of a response to the creation of a topic; NoError if it was created.

    Kafka sends INVALID_REPLICATION_FACTOR both for fenced brokers, which is transient, and for too few brokers. Only
    the error text distinguishes them, so it is parsed here and nowhere else.
    """
    error: type[KafkaError] = errors.for_code(code)
    if error is errors.InvalidReplicationFactorError and "fenced" in text:
        return BrokersFencedError
    return error


class Decision(enum.Enum):
    """The reaction to an error.

    After an error of a commit other than STOP, its outcome is unknown, and the producer may have left a gap in its
    sequence numbers. So for a commit, RETRY and RENEW both reopen the partition at the committed offset with a new
    producer.
    """

    RETRY = "wait, then retry with the same client"
    RENEW = "the client is not usable any more: wait, then restart with new clients"
    STOP = "a retry cannot help: a right is missing, or a setting or message does not suit the broker or topic"


DECISIONS: dict[type[KafkaError], Decision] = {
    **dict.fromkeys(
        (
            # No broker, the wrong broker, or a broker that is not ready yet.
            errors.NoBrokersAvailable, errors.NodeNotReadyError, errors.KafkaConnectionError,
            errors.KafkaUnavailableError, errors.KafkaTimeoutError, errors.RequestTimedOutError,
            errors.BrokerNotAvailableError, errors.KafkaProtocolError, errors.CorrelationIdError, errors.Cancelled,
            errors.TooManyInFlightRequests, errors.QuotaViolationError, errors.StaleMetadata,
            errors.MetadataEmptyBrokerList, errors.ListenerNotFound,
            # Leaders and coordinators that move, load or wait for replicas.
            errors.LeaderNotAvailableError, errors.NotLeaderForPartitionError, errors.ReplicaNotAvailableError,
            errors.StaleControllerEpochError, errors.StaleLeaderEpochCodeError, errors.NotControllerError,
            errors.GroupLoadInProgressError, errors.GroupCoordinatorNotAvailableError,
            errors.NotCoordinatorForGroupError, errors.NotEnoughReplicasError,
            errors.NotEnoughReplicasAfterAppendError, errors.ReassignmentInProgress, errors.ConcurrentTransactions,
            # A broker learns of a new topic late. BrokerWatch detects a deleted topic.
            errors.UnknownTopicOrPartitionError,
            # A disk of the broker is full or has failed; its operators will repair it.
            errors.KafkaStorageError, errors.LogDirNotFound,
            # The controller unfences a broker that was silent.
            BrokersFencedError,
            errors.FetchSessionIdNotFound, errors.InvalidFetchSessionEpoch, errors.MemberIdRequired,
            errors.NoOffsetForPartitionError,
        ),
        Decision.RETRY,
    ),
    **dict.fromkeys(
        (
            # aiokafka wraps unexpected errors in a bare KafkaError, and unknown error codes in the others.
            KafkaError, errors.BrokerResponseError, errors.NoError, errors.UnknownError,
            # Another owner, an aborted transaction, or a gap in the sequence numbers.
            errors.ProducerFenced, errors.InvalidProducerEpoch, errors.InvalidProducerIdMapping,
            errors.InvalidTxnState, errors.TransactionCoordinatorFenced, errors.OperationNotAttempted,
            errors.OutOfOrderSequenceNumber, errors.DuplicateSequenceNumber, errors.UnknownProducerId,
            errors.ProducerClosed,
            # The group has rebalanced without this worker.
            errors.CommitFailedError, errors.IllegalStateError, errors.IllegalGenerationError,
            errors.UnknownMemberIdError, errors.RebalanceInProgressError, errors.NonEmptyGroup,
            errors.GroupIdNotFound, errors.InconsistentGroupProtocolError,
            # Bytes were damaged on the network or on the broker's disk; they are read again from the committed offset.
            errors.CorruptRecordException, errors.InvalidFetchRequestError,
        ),
        Decision.RENEW,
    ),
    **dict.fromkeys(
        (
            # Rights and logins.
            errors.TopicAuthorizationFailedError, errors.GroupAuthorizationFailedError,
            errors.ClusterAuthorizationFailedError, errors.TransactionalIdAuthorizationFailed,
            errors.AuthenticationFailedError, errors.AuthenticationMethodNotSupported,
            errors.SaslAuthenticationFailed, errors.UnsupportedSaslMechanismError, errors.IllegalSaslStateError,
            errors.SecurityDisabled, errors.InvalidPrincipalType, errors.DelegationTokenAuthDisabled,
            errors.DelegationTokenNotFound, errors.DelegationTokenOwnerMismatch,
            errors.DelegationTokenRequestNotAllowed, errors.DelegationTokenAuthorizationFailed,
            errors.DelegationTokenExpired,
            # Settings of the service and of the topics.
            errors.InvalidTransactionTimeout, errors.InvalidSessionTimeoutError, errors.InvalidGroupIdError,
            errors.InvalidTopicError, errors.InvalidTimestampError,
            errors.MessageSizeTooLargeError, errors.RecordListTooLargeError, errors.RecordTooLargeError,
            errors.OffsetMetadataTooLargeError, errors.InvalidCommitOffsetSizeError, errors.InvalidRequiredAcksError,
            InvalidRecordError, errors.OffsetOutOfRangeError, errors.KafkaConfigurationError,
            errors.IllegalArgumentError, errors.InvalidConfigurationError, errors.PolicyViolationError,
            errors.TopicAlreadyExistsError, errors.InvalidPartitionsError, errors.InvalidReplicationFactorError,
            errors.InvalidReplicationAssignmentError,
            # A broker with another protocol.
            errors.UnsupportedVersionError, errors.IncompatibleBrokerVersion, errors.UnrecognizedBrokerVersion,
            errors.UnsupportedForMessageFormatError, errors.UnsupportedCodecError, errors.InvalidRequestError,
        ),
        Decision.STOP,
    ),
}  # fmt: skip


def decision(error: KafkaError) -> Decision:
    """The decision for an error: that of its class or of its nearest parent class in the table."""
    return next(DECISIONS[parent] for parent in type(error).__mro__ if parent in DECISIONS)


def stops(error: KafkaError) -> bool:
    """Whether a retry cannot help."""
    return decision(error) is Decision.STOP


def final_error(error: KafkaError, settings: Settings, step: str) -> SpotsieveError:
    """The error that ends the worker: an explained one if it stops the process, else BrokerTrouble for a restart."""
    if stops(error):
        return explain_error(error, settings, step)
    if isinstance(error, errors.InconsistentGroupProtocolError):
        return BrokerTrouble(
            "kafka.group_id",
            "has members that are no workers of this log: this worker joins when they have left",
            settings.kafka.group_id,
            f"give each log ({settings.topics.log}) and each other program a group of its own",
        )
    return BrokerTrouble("kafka", f"failed while {step}: {on_one_line(str(error))}", type(error).__name__)


def explain_error(error: KafkaError, settings: Settings, step: str) -> SpotsieveError:
    """The refusal of a broker as a SpotsieveError that names the setting and the next step."""
    detail = on_one_line(str(error) or type(error).__name__)
    return (
        _of_connection(error, settings.kafka, step, detail)
        or _of_topics(error, step, detail)
        or _of_time_limits(error, settings.kafka)
        or BrokerError(
            "kafka",
            f"failed while {step}: {detail}",
            type(error).__name__,
            "look at the broker's log, then start again",
        )
    )


def no_broker_responds(kafka: KafkaSettings, step: str) -> BrokerError:
    """The error if no broker answers."""
    login = ", sasl_mechanism, user and password" if kafka.security_protocol.startswith("SASL") else ""
    return BrokerError(
        "kafka.bootstrap_servers",
        f"leads to no broker that responds while {step}",
        kafka.bootstrap_servers,
        f"check host:port, security_protocol{login}, and that the broker is running",
    )


def on_one_line(text: str) -> str:
    """Join the lines of a broker text, which may hold topic and user names."""
    return " ".join(text.split())


def _of_connection(error: KafkaError, kafka: KafkaSettings, step: str, detail: str) -> BrokerError | None:
    """Errors of login, address and rights."""
    if isinstance(error, errors.AuthenticationFailedError):
        return BrokerError(
            "kafka.sasl_*", f"the broker refused the login while {step}: {detail}", None, "check user and password"
        )
    if isinstance(error, errors.KafkaConnectionError):
        # aiokafka also raises this for a refused login or certificate; kafka/connectivity.py distinguishes them.
        return no_broker_responds(kafka, step)
    if isinstance(error, PERMISSION_ERRORS):
        return BrokerError(
            "kafka",
            f"denies permission while {step}: {detail}",
            kafka.sasl_username or "anonymous",
            "grant the user Read on input and log, Write on outputs and log, DescribeConfigs on all topics, "
            f"Read on the group, and Write on the transactional ids with prefix {kafka.group_id!r}",
        )
    return None


def _of_topics(error: KafkaError, step: str, detail: str) -> BrokerError | None:
    """Errors of missing topics, and of topics whose settings do not suit the pages."""
    if isinstance(error, errors.InvalidTimestampError):
        return BrokerError(
            "topics",
            f"include an output topic that refuses the timestamp of a page while {step}",
            detail,
            "give the output topics the input topic's message.timestamp.before.max.ms and "
            "message.timestamp.after.max.ms, or message.timestamp.type=LogAppendTime",
        )
    if isinstance(error, InvalidRecordError):
        return BrokerError(
            "topics",
            f"include a topic that refuses a message while {step}: it was probably compacted while the service ran",
            detail,
            "start again: messages without a key are then written into a compacted output with their page id as key; "
            "if the log is compacted (with shards also verdicts or matches), set its cleanup.policy=delete first",
        )
    if isinstance(error, errors.UnknownTopicOrPartitionError):
        return BrokerError("topics", f"include a missing topic while {step}", detail, "run `spotsieve topics create`")
    if isinstance(error, (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)):
        return BrokerError(
            "topics",
            f"include a topic that refuses a large batch while {step}",
            detail,
            "raise max.message.bytes of the output topics to that of the input topic, or of the log to its former "
            "value",
        )
    return None


def _of_time_limits(error: KafkaError, kafka: KafkaSettings) -> BrokerError | None:
    """Errors of time-outs that the broker does not allow."""
    if isinstance(error, errors.InvalidTransactionTimeout):
        return BrokerError(
            "kafka.transaction_timeout_ms",
            "must not exceed the broker's transaction.max.timeout.ms",
            kafka.transaction_timeout_ms,
            "lower it, or raise the broker's limit (default 900000)",
        )
    if isinstance(error, errors.InvalidSessionTimeoutError):
        return BrokerError(
            "kafka.session_timeout_ms",
            "must lie between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
            kafka.session_timeout_ms,
            "the defaults of the broker are 6000 and 1800000",
        )
    return None
