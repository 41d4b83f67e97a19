"""Owns what each error of the broker or of aiokafka means: try again, begin anew with new clients, or stop."""

import enum

from aiokafka import errors
from aiokafka.errors import KafkaError

from spotsieve.stream.errors import BrokerTrouble, SpotsieveError
from spotsieve.stream.kafka.clients import explained
from spotsieve.stream.settings.model import Settings


class Decision(enum.Enum):
    """What is done next.

    A commit's outcome is unknown after any error that is not STOP, and a producer that failed may have left a gap in
    its sequence numbers: there RETRY and RENEW both reopen the partition, with a new producer, at the committed offset.
    """

    RETRY = "wait, then ask the same client again"
    RENEW = "the client can no longer be used: wait, then begin anew with new ones"
    STOP = "no second try cures it: a right is missing, a setting does not suit the broker, or a message its topic"


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
            # A new topic is told of late; one that is gone for good is noticed by BrokerWatch.
            errors.UnknownTopicOrPartitionError,
            # A disk of the broker's that is full or failed: somebody will see to it.
            errors.KafkaStorageError, errors.LogDirNotFound,
            errors.FetchSessionIdNotFound, errors.InvalidFetchSessionEpoch, errors.MemberIdRequired,
            errors.NoOffsetForPartitionError,
        ),
        Decision.RETRY,
    ),
    **dict.fromkeys(
        (
            # aiokafka wraps whatever it did not expect in a bare KafkaError, and codes it does not know in these.
            KafkaError, errors.BrokerResponseError, errors.NoError, errors.UnknownError,
            # Another owner, a transaction that the broker aborted, or a gap in the sequence numbers.
            errors.ProducerFenced, errors.InvalidProducerEpoch, errors.InvalidProducerIdMapping,
            errors.InvalidTxnState, errors.TransactionCoordinatorFenced, errors.OperationNotAttempted,
            errors.OutOfOrderSequenceNumber, errors.DuplicateSequenceNumber, errors.UnknownProducerId,
            errors.ProducerClosed,
            # The group has moved on without this worker.
            errors.CommitFailedError, errors.IllegalStateError, errors.IllegalGenerationError,
            errors.UnknownMemberIdError, errors.RebalanceInProgressError, errors.NonEmptyGroup,
            errors.GroupIdNotFound,
            # Bytes that were damaged on their way, or on the broker's disk: read again from the committed offset.
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
            # Settings, ours and the topics'.
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
    """The decision of the error's class, or of its nearest parent."""
    return next(DECISIONS[parent] for parent in type(error).__mro__ if parent in DECISIONS)


def stops(error: KafkaError) -> bool:
    """True where trying again cannot help."""
    return decision(error) is Decision.STOP


def ended(error: KafkaError, settings: Settings, step: str) -> SpotsieveError:
    """What ends the worker: for good and explained, or to begin anew."""
    if stops(error):
        return explained(error, settings, step)
    return BrokerTrouble("kafka", f"failed while {step}: {' '.join(str(error).split())}", type(error).__name__)
