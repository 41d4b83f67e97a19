"""Decides what each error of the broker or of aiokafka means: try again, begin anew with new clients, or stop.

What stops is explained to a person here, too: which setting it concerns, and what to do.
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
    """The brokers that could hold a topic's copies are out of the cluster for a moment."""


def creation_error(code: int, said: str) -> type[KafkaError]:
    """The class of a broker's answer to the creation of a topic; NoError where it was created.

    Kafka answers INVALID_REPLICATION_FACTOR both where brokers are fenced, which passes, and where there are too few of
    them. Its text alone tells the two apart, so the text is read here and nowhere else.
    """
    error: type[KafkaError] = errors.for_code(code)
    if error is errors.InvalidReplicationFactorError and "fenced" in said:
        return BrokersFencedError
    return error


class Decision(enum.Enum):
    """What happens next.

    After any error of a commit but STOP, its outcome is unknown, and the producer may have left a gap in its sequence
    numbers. So for a commit RETRY and RENEW both reopen the partition at the committed offset, with a new producer.
    """

    RETRY = "wait, then use the same client again"
    RENEW = "the client can no longer be used: wait, then begin anew with new ones"
    STOP = "no second try helps: a right is missing, or a setting or message does not suit the broker or the topic"


DECISIONS: dict[type[KafkaError], Decision] = {
    **dict.fromkeys(
        (
            # No broker, another broker, or one that is not ready yet.
            errors.NoBrokersAvailable, errors.NodeNotReadyError, errors.KafkaConnectionError,
            errors.KafkaUnavailableError, errors.KafkaTimeoutError, errors.RequestTimedOutError,
            errors.BrokerNotAvailableError, errors.KafkaProtocolError, errors.CorrelationIdError, errors.Cancelled,
            errors.TooManyInFlightRequests, errors.QuotaViolationError, errors.StaleMetadata,
            errors.MetadataEmptyBrokerList, errors.ListenerNotFound,
            # Leaders and coordinators that move, load, or wait for replicas.
            errors.LeaderNotAvailableError, errors.NotLeaderForPartitionError, errors.ReplicaNotAvailableError,
            errors.StaleControllerEpochError, errors.StaleLeaderEpochCodeError, errors.NotControllerError,
            errors.GroupLoadInProgressError, errors.GroupCoordinatorNotAvailableError,
            errors.NotCoordinatorForGroupError, errors.NotEnoughReplicasError,
            errors.NotEnoughReplicasAfterAppendError, errors.ReassignmentInProgress, errors.ConcurrentTransactions,
            # A broker hears late of a new topic. BrokerWatch notices one that is gone for good.
            errors.UnknownTopicOrPartitionError,
            # A disk of the broker is full or has failed: its people will see to it.
            errors.KafkaStorageError, errors.LogDirNotFound,
            # A broker that was silent is let in again by its controller.
            BrokersFencedError,
            errors.FetchSessionIdNotFound, errors.InvalidFetchSessionEpoch, errors.MemberIdRequired,
            errors.NoOffsetForPartitionError,
        ),
        Decision.RETRY,
    ),
    **dict.fromkeys(
        (
            # aiokafka wraps what it did not expect in a bare KafkaError, and codes that it does not know in these.
            KafkaError, errors.BrokerResponseError, errors.NoError, errors.UnknownError,
            # There is another owner, a transaction that the broker aborted, or a gap in the sequence numbers.
            errors.ProducerFenced, errors.InvalidProducerEpoch, errors.InvalidProducerIdMapping,
            errors.InvalidTxnState, errors.TransactionCoordinatorFenced, errors.OperationNotAttempted,
            errors.OutOfOrderSequenceNumber, errors.DuplicateSequenceNumber, errors.UnknownProducerId,
            errors.ProducerClosed,
            # The group has moved on without this worker.
            errors.CommitFailedError, errors.IllegalStateError, errors.IllegalGenerationError,
            errors.UnknownMemberIdError, errors.RebalanceInProgressError, errors.NonEmptyGroup,
            errors.GroupIdNotFound,
            # Bytes were damaged on their way or on the broker's disk: they are read again from the committed offset.
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
            # Settings of ours and of the topics.
            errors.InvalidTransactionTimeout, errors.InvalidSessionTimeoutError, errors.InvalidGroupIdError,
            errors.InconsistentGroupProtocolError, errors.InvalidTopicError, errors.InvalidTimestampError,
            errors.MessageSizeTooLargeError, errors.RecordListTooLargeError, errors.RecordTooLargeError,
            errors.OffsetMetadataTooLargeError, errors.InvalidCommitOffsetSizeError, errors.InvalidRequiredAcksError,
            errors.OffsetOutOfRangeError, errors.KafkaConfigurationError, errors.IllegalArgumentError,
            errors.InvalidConfigurationError, errors.PolicyViolationError, errors.TopicAlreadyExistsError,
            errors.InvalidPartitionsError, errors.InvalidReplicationFactorError,
            errors.InvalidReplicationAssignmentError,
            # A broker that speaks another protocol.
            errors.UnsupportedVersionError, errors.IncompatibleBrokerVersion, errors.UnrecognizedBrokerVersion,
            errors.UnsupportedForMessageFormatError, errors.UnsupportedCodecError, errors.InvalidRequestError,
        ),
        Decision.STOP,
    ),
}  # fmt: skip


def decision(error: KafkaError) -> Decision:
    """What to do about an error: the decision of its class, or of its nearest parent in the table."""
    return next(DECISIONS[parent] for parent in type(error).__mro__ if parent in DECISIONS)


def stops(error: KafkaError) -> bool:
    """True where trying again cannot help."""
    return decision(error) is Decision.STOP


def final_error(error: KafkaError, settings: Settings, step: str) -> SpotsieveError:
    """The error that ends the worker: explained where it stops, else one that lets a new worker begin."""
    if stops(error):
        return explain_error(error, settings, step)
    return BrokerTrouble("kafka", f"failed while {step}: {on_one_line(str(error))}", type(error).__name__)


def explain_error(error: KafkaError, settings: Settings, step: str) -> SpotsieveError:
    """A broker's refusal in a person's words: which setting it concerns and what to do."""
    detail = on_one_line(str(error) or type(error).__name__)
    return (
        _of_connection(error, settings.kafka, step, detail)
        or _of_topics(error, step, detail)
        or _of_time_limits(error, settings.kafka)
        or BrokerError(
            "kafka", f"failed while {step}: {detail}", type(error).__name__, "see the broker's log, then start again"
        )
    )


def on_one_line(text: str) -> str:
    """Broker texts hold topic and user names: keep them on one line."""
    return " ".join(text.split())


def _of_connection(error: KafkaError, kafka: KafkaSettings, step: str, detail: str) -> BrokerError | None:
    """Login, address and rights."""
    if isinstance(error, errors.AuthenticationFailedError):
        return BrokerError(
            "kafka.sasl_*", f"the broker refused the login while {step}: {detail}", None, "check user and password"
        )
    if isinstance(error, errors.KafkaConnectionError):
        # aiokafka raises this for a refused login or certificate, too: stream.kafka.reach tells them apart.
        login = ", sasl_mechanism, user and password" if kafka.security_protocol.startswith("SASL") else ""
        return BrokerError(
            "kafka.bootstrap_servers",
            f"no broker answers while {step}",
            kafka.bootstrap_servers,
            f"check host:port, security_protocol{login}, and that the broker runs",
        )
    if isinstance(error, PERMISSION_ERRORS):
        return BrokerError(
            "kafka",
            f"has no permission while {step}: {detail}",
            kafka.sasl_username or "anonymous",
            "grant Read on input and log, Write on outputs and log, Read on the group, Write on the transactional ids "
            f"with prefix {kafka.group_id!r}",
        )
    return None


def _of_topics(error: KafkaError, step: str, detail: str) -> BrokerError | None:
    """Topics that are missing, or whose settings do not suit the pages."""
    if isinstance(error, errors.InvalidTimestampError):
        return BrokerError(
            "topics",
            f"an output topic refuses a page's timestamp while {step}",
            detail,
            "give the output topics the input topic's message.timestamp.before.max.ms and "
            "message.timestamp.after.max.ms, or message.timestamp.type=LogAppendTime",
        )
    if isinstance(error, errors.UnknownTopicOrPartitionError):
        return BrokerError("topics", f"one is missing while {step}", detail, "run `spotsieve topics create`")
    if isinstance(error, (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)):
        return BrokerError(
            "topics",
            f"a batch is larger than an output topic takes while {step}",
            detail,
            "raise max.message.bytes of the output topics to that of the input topic",
        )
    return None


def _of_time_limits(error: KafkaError, kafka: KafkaSettings) -> BrokerError | None:
    """Time-outs of ours that the broker does not allow."""
    if isinstance(error, errors.InvalidTransactionTimeout):
        return BrokerError(
            "kafka.transaction_timeout_ms",
            "must not exceed the broker's transaction.max.timeout.ms",
            kafka.transaction_timeout_ms,
            "lower it, or raise the broker's (900000 unless it was changed)",
        )
    if isinstance(error, errors.InvalidSessionTimeoutError):
        return BrokerError(
            "kafka.session_timeout_ms",
            "must lie between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
            kafka.session_timeout_ms,
            "6000 to 1800000 unless they were changed",
        )
    return None
