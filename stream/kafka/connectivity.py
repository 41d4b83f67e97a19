"""Explains why no broker can be reached. aiokafka tries every address, but only logs the reasons."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiokafka.conn import AIOKafkaConnection, collect_hosts
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.runtime import KafkaSettings
from spotsieve.stream.kafka.clients import client_options
from spotsieve.stream.kafka.driver.connections import open_connection
from spotsieve.stream.kafka.errors import no_broker_responds, on_one_line

TRY_SECONDS = 10.0
"""Limit per address, so that a silent port is reported before kafka.request_timeout_ms."""

REFUSALS = (
    SaslAuthenticationFailed,
    AuthenticationFailedError,
    UnsupportedSaslMechanismError,
    ssl.SSLCertVerificationError,
)

_OF_ANOTHER_HOST = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_CLIENT_CERTIFICATE_ALERTS = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN")


async def why_unreached(settings: Settings) -> BrokerError:
    """Try each address once. Returns the error that the first response means, with the next step.

    Raises SettingError if the settings do not allow a connection.
    """
    kafka = settings.kafka
    options = client_options(kafka)
    silent: list[str] = []
    seconds = min(TRY_SECONDS, kafka.request_timeout_ms / 1000)
    async for address, error in _tried(options, seconds):
        if _is_closed_before_tls(error, kafka) and not await _answers_without_tls(address, options, seconds):
            silent.append(f"{address}: it closes the connection, as a proxy in front of a stopped broker does")
            continue
        meaning = _meaning(error, address, kafka, "connecting")
        if meaning is not None:
            return meaning
        silent.append(f"{address}: {on_one_line(str(error) or type(error).__name__)}")
    return no_broker_responds(kafka, f"connecting ({'; '.join(silent)})")


async def refusal(kafka: KafkaSettings, options: Mapping[str, Any], seconds: float) -> BrokerError | None:
    """The error of a broker that refuses the login while topics are polled, or whose certificate is not trusted.

    Returns None without such a broker. A proxy in front of a stopped broker may close the connection, so a closed
    connection is no refusal.
    options: the result of client_options()
    seconds: limit per address
    """
    async for address, error in _tried(options, seconds):
        if isinstance(error, REFUSALS):
            return _meaning(error, address, kafka, "polling the topics")
    return None


async def _tried(options: Mapping[str, Any], seconds: float) -> AsyncIterator[tuple[str, Exception]]:
    """Yield the addresses that cannot be used, each with its error."""
    of_clients = {"bootstrap_servers", "metadata_max_age_ms"}
    connection_options = {name: value for name, value in options.items() if name not in of_clients}
    for host, port, _ in collect_hosts(options["bootstrap_servers"], randomize=False):
        try:
            async with asyncio.timeout(seconds):
                await _probe(await open_connection(host, port, **connection_options))
        except (OSError, EOFError, KafkaError) as error:  # TimeoutError and ssl.SSLError are OSErrors.
            yield f"{host}:{port}", error


async def _probe(connection: AIOKafkaConnection) -> None:
    """Request metadata. Raises LoginNeededError if the broker closes the connection after the version handshake."""
    try:
        await connection.send(MetadataRequest([]))
    except KafkaError as error:
        raise LoginNeededError from error
    finally:
        connection.close()


def _is_closed_before_tls(error: Exception, kafka: KafkaSettings) -> bool:
    return "SSL" in kafka.security_protocol and isinstance(error, (ConnectionResetError, ssl.SSLEOFError))


async def _answers_without_tls(address: str, options: Mapping[str, Any], seconds: float) -> bool:
    """Whether a broker responds to the version handshake without TLS, which a port with a login does, too."""
    host, _, port = address.rpartition(":")
    plain = {name: options[name] for name in ("client_id", "request_timeout_ms")}
    try:
        async with asyncio.timeout(seconds):
            connection = await open_connection(host, int(port), **plain)
    except (OSError, EOFError, KafkaError):
        return False
    connection.close()
    return True


class LoginNeededError(KafkaError):  # type: ignore[misc]  # aiokafka's class is untyped
    """The port requires a login."""


def _meaning(error: Exception, address: str, kafka: KafkaSettings, step: str) -> BrokerError | None:
    """The error that the response of an address means; None if it did not respond."""
    detail = on_one_line(str(error) or type(error).__name__)
    if isinstance(error, LoginNeededError):
        return _needs_login(address, kafka)
    if isinstance(error, (SaslAuthenticationFailed, AuthenticationFailedError)):
        return BrokerError(
            "kafka.sasl_password",
            f"or kafka.sasl_username is refused by {address} while {step}: {detail}",
            None,
            f"check user and password, and that the user has them for {kafka.sasl_mechanism}",
        )
    if isinstance(error, UnsupportedSaslMechanismError):
        return BrokerError(
            "kafka.sasl_mechanism",
            f"must be a mechanism that {address} accepts: {detail}",
            kafka.sasl_mechanism,
            "choose one of those, or have the broker enable it",
        )
    if isinstance(error, IllegalSaslStateError):
        return BrokerError(
            "kafka.security_protocol",
            f"must suit the port: {address} takes no login",
            kafka.security_protocol,
            "use the broker's SASL port, or a security_protocol without SASL",
        )
    if isinstance(error, ssl.SSLError):
        return _tls_meaning(error, detail, address, kafka)
    if isinstance(error, ConnectionResetError) and "SSL" in kafka.security_protocol:
        return _no_tls("it closes the connection", address, kafka)  # Before the handshake was done.
    if isinstance(error, (KafkaError, EOFError, ConnectionResetError)):
        return _closed(address, kafka, step)
    return None


def _tls_meaning(error: ssl.SSLError, detail: str, address: str, kafka: KafkaSettings) -> BrokerError:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = on_one_line(error.verify_message).rstrip(".")
        if error.verify_code in _OF_ANOTHER_HOST:
            return BrokerError(
                "kafka.bootstrap_servers",
                f"must name the broker as its certificate does: {why}",
                address,
                "use a name or address from the certificate (subjectAltName), or renew the certificate",
            )
        return BrokerError(
            "kafka.ssl_cafile",
            f"must hold the CA of {address}'s certificate: {why}",
            kafka.ssl_cafile or None,
            "get the PEM certificate of the CA that signed the broker's certificate",
        )
    if any(alert in (error.reason or "") for alert in _CLIENT_CERTIFICATE_ALERTS):
        return _no_client_certificate(address, kafka, detail)
    return _no_tls(detail, address, kafka)


def _no_tls(detail: str, address: str, kafka: KafkaSettings) -> BrokerError:
    return BrokerError(
        "kafka.security_protocol",
        f"must suit the port: {address} does not answer in TLS: {detail}",
        kafka.security_protocol,
        "use the broker's TLS port, or a security_protocol without SSL",
    )


def _closed(address: str, kafka: KafkaSettings, step: str) -> BrokerError:
    """The error of a broker that accepts the connection and closes it without a response."""
    if "SSL" in kafka.security_protocol:
        # So does a proxy that ends TLS in front of a stopped broker.
        return _no_client_certificate(
            address, kafka, "it closes the connection", "; or start the broker, if a proxy in front of it answers"
        )
    return BrokerError(
        "kafka.security_protocol",
        f"must suit the port: {address} closes the connection without a response while {step}",
        kafka.security_protocol,
        "set SSL if it is a TLS port, or SASL_SSL if it needs a login; look at the broker's log",
    )


def _no_client_certificate(address: str, kafka: KafkaSettings, detail: str, otherwise: str = "") -> BrokerError:
    return BrokerError(
        "kafka.ssl_certfile",
        f"must be a client certificate that {address} trusts: {detail}",
        kafka.ssl_certfile or None,
        f"set ssl_certfile and ssl_keyfile to one signed by the CA of the broker's clients{otherwise}",
    )


def _needs_login(address: str, kafka: KafkaSettings) -> BrokerError:
    return BrokerError(
        "kafka.security_protocol",
        f"must suit the port: {address} closes connections without a login",
        kafka.security_protocol,
        "set SASL_SSL (SASL_PLAINTEXT without TLS), and sasl_mechanism, user and password",
    )
