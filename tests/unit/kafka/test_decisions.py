"""Each error of aiokafka has one decision, and some of these decisions must be what they are."""

import pytest
from aiokafka import errors
from aiokafka.errors import KafkaError

from spotsieve.stream.base.errors import BrokerError, BrokerTrouble
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.errors import (
    DECISIONS,
    BrokersFencedError,
    Decision,
    creation_error,
    decision,
    explain_error,
    final_error,
)


def every_error(parent: type[KafkaError] = KafkaError) -> set[type[KafkaError]]:
    return {parent}.union(*(every_error(child) for child in parent.__subclasses__()))


def test_every_error_that_aiokafka_knows_has_one_decision_of_its_own() -> None:
    missing = {error.__name__ for error in every_error() if error.__module__ == errors.__name__} - {
        error.__name__ for error in DECISIONS
    }
    assert not missing, "a release of aiokafka with new errors: decide them in stream/kafka/errors.py"


def test_what_aiokafka_itself_tries_again_never_stops_the_service() -> None:
    stopping = [error.__name__ for error in every_error() if error.retriable and DECISIONS[error] is Decision.STOP]
    assert not stopping


def test_a_right_that_is_missing_stops_and_a_coordinator_that_moved_does_not() -> None:
    assert decision(errors.TransactionalIdAuthorizationFailed()) is Decision.STOP
    assert decision(errors.NotCoordinatorForGroupError()) is Decision.RETRY
    assert decision(errors.GroupLoadInProgressError()) is Decision.RETRY
    assert decision(errors.ProducerFenced()) is Decision.RENEW


def test_an_error_of_a_later_release_is_decided_like_its_parent() -> None:
    assert decision(type("Later", (errors.NotCoordinatorForGroupError,), {})()) is Decision.RETRY
    assert decision(type("Unheard", (KafkaError,), {})()) is Decision.RENEW


def test_what_stops_is_explained_and_what_does_not_begins_anew() -> None:
    assert isinstance(final_error(errors.InvalidTransactionTimeout(), Settings(), "committing"), BrokerError)
    trouble = final_error(KafkaError("Unexpected error\nduring coordination"), Settings(), "fetching")
    assert isinstance(trouble, BrokerTrouble)
    assert "\n" not in str(trouble)


def test_a_topic_is_asked_for_again_after_fenced_brokers_not_after_too_few() -> None:
    code = errors.InvalidReplicationFactorError.errno
    fenced = creation_error(code, "Unable to replicate the partition 1 time(s): All brokers are currently fenced.")
    too_few = creation_error(code, "Unable to replicate the partition 3 time(s): only 1 broker(s) are registered.")
    assert fenced is BrokersFencedError
    assert decision(fenced()) is Decision.RETRY
    assert too_few is errors.InvalidReplicationFactorError
    assert decision(too_few()) is Decision.STOP
    assert creation_error(0, "") is errors.NoError


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        (errors.AuthenticationFailedError(), "kafka.sasl_*"),
        (errors.KafkaConnectionError(), "kafka.bootstrap_servers"),
        (errors.GroupAuthorizationFailedError("spotsieve"), "kafka"),
        (errors.InvalidTransactionTimeout(), "kafka.transaction_timeout_ms"),
        (errors.InvalidSessionTimeoutError(), "kafka.session_timeout_ms"),
        (errors.InvalidTimestampError(), "topics"),
        (errors.UnknownTopicOrPartitionError(), "topics"),
        (errors.RecordListTooLargeError(), "topics"),
        (errors.UnsupportedVersionError(), "kafka"),
    ],
)
def test_an_explained_error_names_its_setting_and_the_next_step(error: KafkaError, setting: str) -> None:
    explained = explain_error(error, Settings(), "committing")
    assert explained.name == setting
    assert explained.next_step


def test_a_topic_that_may_not_be_read_is_named_with_the_rights_to_grant() -> None:
    explained = str(explain_error(errors.TopicAuthorizationFailedError("crawled-pages"), Settings(), "reading pages"))
    for part in ("denies permission while reading pages: ", "crawled-pages", "grant the user Read on input and log"):
        assert part in explained
